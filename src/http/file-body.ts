import { createReadStream } from 'node:fs'
import type { Readable } from 'node:stream'

/** The type of a SQLite database. */
export const SQLITE_TYPE = 'application/vnd.sqlite3'

/** A body that is read from a file while its client takes it: however large it is, it takes no memory. */
export class FileBody {
  /** Bytes of the file. */
  readonly length: number
  readonly #path: string
  readonly #done: () => Promise<void>
  #isDone = false

  /** @param done called once, when the file is no longer needed; it removes the file */
  constructor(path: string, length: number, done: () => Promise<void>) {
    this.#path = path
    this.length = length
    this.#done = done
  }

  /** Reads it. The file goes with the stream, whether or not that came to its end. */
  open(): Readable {
    const stream = createReadStream(this.#path)
    stream.once('close', () => void this.discard())
    return stream
  }

  /** Nobody reads it, or nobody goes on. */
  async discard(): Promise<void> {
    if (this.#isDone) return
    this.#isDone = true
    await this.#done()
  }
}

/** Whether a request's body is a database. */
export function isSqliteType(type: string | undefined): boolean {
  return type?.split(';')[0]?.trim().toLowerCase() === SQLITE_TYPE
}
