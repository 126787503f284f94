import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { filesBelow, tempDirectory } from './temp-directory.ts'

/** An image of a directory: unlike a copy of its files, it is put back with the same inodes and times. */
export class DiskImage {
  readonly #directory: string
  readonly #copy = path.join(tempDirectory('image'), 'copy')

  /** By another process: closing a file here would drop SQLite's locks on it (invariant 4). */
  constructor(directory: string) {
    this.#directory = directory
    execFileSync('cp', ['-a', directory, this.#copy])
  }

  /** What the directory has become is lost. Nobody may have it open. */
  putBack(): void {
    for (const file of filesBelow(this.#directory))
      if (!fs.existsSync(path.join(this.#copy, file))) fs.rmSync(path.join(this.#directory, file))
    execFileSync('cp', ['-rp', `${this.#copy}/.`, this.#directory])
  }
}
