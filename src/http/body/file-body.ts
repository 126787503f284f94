import { createReadStream } from 'node:fs'
import { pipeline, type Readable, Transform, type TransformCallback } from 'node:stream'
import type { Clock } from '../../base/clock.ts'
import { ReadableBody } from './readable-body.ts'

/** The type of a SQLite database. */
export const SQLITE_TYPE = 'application/vnd.sqlite3'

export interface FileBodyParts {
  path: string
  /** Bytes of the file. */
  length: number
  /** Called before each piece: what it throws ends the body. */
  check?: (() => void) | undefined
  /** A client that has not taken all of it by then gets no more. Undefined: it may take its time. */
  deadline?: { clock: Clock; ms: number } | undefined
  /** Called once, when the file is no longer needed; it removes the file. */
  done(): Promise<void>
}

/** A body that is read from a file while its client takes it: however large it is, it takes no memory. */
export class FileBody extends ReadableBody {
  /** Bytes of the file. */
  readonly length: number
  readonly #parts: FileBodyParts
  #isDone = false

  constructor(parts: FileBodyParts) {
    super()
    this.length = parts.length
    this.#parts = parts
  }

  /** Reads it. The file goes with the stream, whether or not that came to its end. */
  open(): Readable {
    const { path, check, deadline } = this.#parts
    const body = checked(check)
    const timer = deadline?.clock.setTimer(() => body.destroy(), deadline.ms)
    return pipeline(createReadStream(path), body, () => {
      timer?.cancel()
      void this.discard()
    })
  }

  /** Nobody reads it, or nobody goes on. */
  async discard(): Promise<void> {
    if (this.#isDone) return
    this.#isDone = true
    await this.#parts.done()
  }
}

function checked(check: () => void = () => {}): Transform {
  const transform = (piece: Buffer, _encoding: BufferEncoding, next: TransformCallback) => {
    try {
      check()
      next(null, piece)
    } catch (error) {
      next(error as Error)
    }
  }
  return new Transform({ transform })
}

/** Whether a request's body is a database. */
export function isSqliteType(type: string | undefined): boolean {
  return type?.split(';')[0]?.trim().toLowerCase() === SQLITE_TYPE
}
