import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'

/** The file of the shell's history; empty for none. */
export const HISTORY_VARIABLE = 'CELLSTORE_HISTORY'
const FILE_NAME = '.cellstore_history'
const LINES_MAX = 1_000
/** Statements hold what is private to whoever typed them. */
const OWNER_ONLY = 0o600

/**
 * The lines that a person typed into shells, in a file that only they can read. It is a convenience: where the file cannot be
 * read or written, the shell works without it.
 */
export class History {
  readonly #file: string | undefined

  /** @param file undefined: nothing is read, and nothing is kept */
  constructor(file: string | undefined) {
    this.#file = file
  }

  /** The history that the environment names. */
  static of(environment: Readonly<Record<string, string | undefined>>, home: string = os.homedir()): History {
    const named = environment[HISTORY_VARIABLE]
    return new History(named === '' ? undefined : (named ?? path.join(home, FILE_NAME)))
  }

  /** The newest lines, newest first, as `node:readline` takes them. Shortens a file that has grown long. */
  load(): string[] {
    if (this.#file === undefined) return []
    try {
      const lines = fs.readFileSync(this.#file, 'utf8').split('\n').filter(Boolean)
      const newest = lines.slice(-LINES_MAX)
      if (lines.length > 2 * LINES_MAX) this.#write('w', `${newest.join('\n')}\n`)
      return newest.reverse()
    } catch {
      return []
    }
  }

  add(line: string): void {
    if (line.trim() === '') return
    try {
      this.#write('a', `${line}\n`)
    } catch {
      // A full disk or a read-only home is no reason to lose the session.
    }
  }

  #write(flags: 'a' | 'w', text: string): void {
    if (this.#file === undefined) return
    const file = fs.openSync(this.#file, flags, OWNER_ONLY)
    try {
      // It may be there with another mode. A device (`/dev/null`) is everybody's.
      if (fs.fstatSync(file).isFile()) fs.fchmodSync(file, OWNER_ONLY)
      fs.writeSync(file, text)
    } finally {
      fs.closeSync(file)
    }
  }
}
