import fs from 'node:fs'
import path from 'node:path'
import { makeDirectory } from '../base/durable-files.ts'

/** What a start makes in its directory, so that one that fails leaves nothing behind. */
export class NewFiles {
  readonly #root: string
  /** The topmost directory that had to be made. */
  readonly #made: string | undefined
  readonly #before: ReadonlySet<string>

  /** Makes the directory, if need be. */
  constructor(root: string) {
    this.#root = root
    this.#made = makeDirectory(root)
    this.#before = new Set(fs.readdirSync(root))
  }

  /** For one who does not own the directory: removes what was made, as far as nobody has put anything there. */
  removeEmpty(): void {
    if (this.#made === undefined) return
    try {
      for (let at = this.#root; at.startsWith(this.#made); at = path.dirname(at)) fs.rmdirSync(at)
    } catch {
      // Somebody has.
    }
  }

  /** Removes what was not there before. Whoever calls it owns the directory. */
  remove(): void {
    const made =
      this.#made === undefined
        ? fs.readdirSync(this.#root).filter((name) => !this.#before.has(name))
        : [this.#made]
    for (const name of made) fs.rmSync(path.resolve(this.#root, name), { recursive: true, force: true })
  }
}
