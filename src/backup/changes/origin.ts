import fs from 'node:fs'
import path from 'node:path'
import { exists, fsyncDirectory, makeDirectory } from '../../base/files/durable-files.ts'

/** A larger database of a new cell, as that of an import, is not worth a copy: its history then begins with its first version. */
const BYTES_MAX = 1_048_576
const NAME = 'origin.db'

/** The database file of a cell as it was made, kept beside its logs until the first version has it. */
export class Origin {
  readonly path: string
  /** It is not there, for sure: this process alone makes it. */
  #isAbsent = false

  /** @param directory of the cell's kept logs */
  constructor(directory: string) {
    this.path = path.join(directory, NAME)
  }

  exists(): boolean {
    return !this.#isAbsent && exists(this.path)
  }

  /**
   * @param descriptor of the open database: opening its file once more would drop SQLite's locks (invariant 4)
   * @returns false if it is too large
   */
  keep(descriptor: number, size: number): boolean {
    if (size > BYTES_MAX) return false
    const bytes = Buffer.alloc(size)
    if (fs.readSync(descriptor, bytes, 0, size, 0) < size) return false
    const directory = path.dirname(this.path)
    makeDirectory(directory)
    const unfinished = `${this.path}.incoming`
    fs.writeFileSync(unfinished, bytes, { flush: true })
    fs.renameSync(unfinished, this.path)
    fsyncDirectory(directory)
    this.#isAbsent = false
    return true
  }

  remove(): void {
    if (this.#isAbsent) return
    fs.rmSync(this.path, { force: true })
    this.#isAbsent = true
  }
}
