import fs from 'node:fs'
import path from 'node:path'
import { fsyncDirectory, makeDirectory } from '../../../base/files/durable-files.ts'
import { WalReader, walBytes } from '../../../engine/wal/wal-file.ts'

/** A copy of a write-ahead log, made before a checkpoint: from its header to its last commit, complete but for what is shipped. */
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
const UNFINISHED = 'incoming'

/**
 * The kept logs of one cell: what an incremental backup uploads. A file's name says how much of it counts. It gets
 * that name once the bytes are fsynced, so every file with a name is complete.
 */
export class Segments {
  readonly #directory: string
  /** Nothing is kept, for sure: this process alone keeps logs of the cell. Most cells have none, and are asked with every tick. */
  #isEmpty = false

  constructor(directory: string) {
    this.#directory = directory
  }

  /** In the order of their sequences. */
  list(): Segment[] {
    if (this.#isEmpty) return []
    return this.#names()
      .map((name) => this.#parse(name))
      .filter((segment) => segment !== undefined)
      .sort((a, b) => a.sequence - b.sequence)
  }

  /**
   * Keeps a log. If SQLite has not reset the log since it was last kept, its segment grows; but a sealed segment does not,
   * since an upload has read it.
   *
   * @param last the newest sequence ever used
   * @param sealed segments up to this sequence do not change
   * @param after frames that nobody needs, because they are shipped and no version will have them: a hole takes their place
   * @returns the sequence of the segment
   */
  keep(wal: string, frames: number, last: number, sealed: number, after = 0): number {
    this.#isEmpty = false
    makeDirectory(this.#directory)
    using log = new WalReader(wal)
    const newest = this.list().at(-1)
    const grows = newest?.sequence === last && last > sealed && newest.salts === log.header.salts
    if (grows && newest.frames === frames) return last
    const sequence = grows ? last : last + 1
    const target = this.#pathOf(sequence, frames, log)
    if (grows) {
      log.extend(newest.path, newest.frames, frames)
      fs.renameSync(newest.path, target)
    } else {
      const unfinished = path.join(this.#directory, UNFINISHED)
      log.copy(unfinished, frames, after)
      fs.renameSync(unfinished, target)
    }
    fsyncDirectory(this.#directory)
    return sequence
  }

  /** Removes the others. */
  keepOnly(isNeeded: (segment: Segment) => boolean): void {
    if (this.#isEmpty) return
    const segments = this.list()
    const superfluous = segments.filter((segment) => !isNeeded(segment))
    for (const { path: file } of superfluous) fs.rmSync(file, { force: true })
    if (superfluous.length === segments.length) {
      // With the folder goes what an interrupted copy has left.
      fs.rmSync(this.#directory, { recursive: true, force: true })
      this.#isEmpty = true
    }
  }

  #pathOf(sequence: number, frames: number, { header: { salts, pageSize } }: WalReader): string {
    const name = `${String(sequence).padStart(12, '0')}-${salts}-${frames}-${pageSize}.wal`
    return path.join(this.#directory, name)
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
    const [, sequence, salts, frameCount, pageBytes] = NAME.exec(name) ?? []
    if (salts === undefined) return undefined
    const frames = Number(frameCount)
    const pageSize = Number(pageBytes)
    // Not the file's length: an interrupted growth may have left bytes at its end.
    const size = walBytes(frames, pageSize)
    const file = path.join(this.#directory, name)
    return { sequence: Number(sequence), salts, frames, pageSize, path: file, size }
  }
}
