import fs from 'node:fs'
import path from 'node:path'
import { makeDirectory } from '../../base/files/durable-files.ts'

/** Tracks the files that a start creates in its directory, so that a failed start leaves nothing behind. */
export class NewFiles {
  readonly #root: string
  /** The topmost directory that was created. */
  readonly #made: string | undefined
  readonly #before: ReadonlySet<string>

  /** Creates the directory if necessary. */
  constructor(root: string) {
    this.#root = root
    this.#made = makeDirectory(root)
    this.#before = new Set(fs.readdirSync(root))
  }

  /** For a caller that does not own the directory: removes the created directories if they are empty. */
  removeEmpty(): void {
    if (this.#made === undefined) return
    try {
      for (let at = this.#root; at.startsWith(this.#made); at = path.dirname(at)) fs.rmdirSync(at)
    } catch {
      // Another process has put files there.
    }
  }

  /** Removes everything that did not exist before. The caller must own the directory. */
  remove(): void {
    const made =
      this.#made === undefined
        ? fs.readdirSync(this.#root).filter((name) => !this.#before.has(name))
        : [this.#made]
    for (const name of made) fs.rmSync(path.resolve(this.#root, name), { recursive: true, force: true })
  }
}
