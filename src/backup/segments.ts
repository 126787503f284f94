import fs from 'node:fs'
import path from 'node:path'
import { fsyncDirectory, makeDirectory } from '../engine/durable-files.ts'
import { copyWal } from './wal-file.ts'

/** A write-ahead log that was kept before a checkpoint let go of it: whole, from its header to its last commit. */
export interface Segment {
  /** Counts up over the life of the cell's directory; segments apply in this order. */
  sequence: number
  frames: number
  pageSize: number
  salts: string
  path: string
  size: number
}

const NAME = /^(\d{12})-([0-9a-f]{16})-(\d+)-(\d+)\.wal$/

/**
 * The kept logs of one cell: what an incremental backup uploads. Each file is fsynced under a temporary name and then
 * renamed, so that one which is there is whole.
 */
export class Segments {
  readonly #directory: string

  constructor(directory: string) {
    this.#directory = directory
  }

  /** In order. */
  list(): Segment[] {
    return this.#names()
      .map((name) => this.#parse(name))
      .filter((segment) => segment !== undefined)
      .sort((a, b) => a.sequence - b.sequence)
  }

  /**
   * Keeps a log. A log that could not be reset after it was kept has only grown since; its new copy takes the place of
   * the old one.
   *
   * @param last the newest sequence ever given out
   * @returns the sequence of the segment
   */
  keep(wal: string, frames: number, last: number): number {
    makeDirectory(this.#directory)
    const temporary = path.join(this.#directory, 'incoming')
    const { pageSize, salts } = copyWal(wal, temporary, frames)
    const newest = this.list().at(-1)
    const grown =
      newest !== undefined && newest.salts === salts && newest.sequence === last ? newest : undefined
    const sequence = grown?.sequence ?? last + 1
    const name = `${String(sequence).padStart(12, '0')}-${salts}-${frames}-${pageSize}.wal`
    fs.renameSync(temporary, path.join(this.#directory, name))
    if (grown !== undefined && grown.path !== path.join(this.#directory, name))
      fs.rmSync(grown.path, { force: true })
    fsyncDirectory(this.#directory)
    return sequence
  }

  /** Removes the segments up to a sequence. */
  removeThrough(sequence: number): void {
    for (const segment of this.list())
      if (segment.sequence <= sequence) fs.rmSync(segment.path, { force: true })
  }

  clear(): void {
    fs.rmSync(this.#directory, { recursive: true, force: true })
  }

  #names(): string[] {
    try {
      return fs.readdirSync(this.#directory)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
      throw error
    }
  }

  #parse(name: string): Segment | undefined {
    const match = NAME.exec(name)
    if (match === null) return undefined
    const [, sequence, salts, frames, pageSize] = match as unknown as [string, string, string, string, string]
    const file = path.join(this.#directory, name)
    return {
      sequence: Number(sequence),
      salts,
      frames: Number(frames),
      pageSize: Number(pageSize),
      path: file,
      size: fs.statSync(file).size,
    }
  }
}
