import type { Readable } from 'node:stream'

/** A body that is read while its client takes it: however large it is, it takes no memory. */
export abstract class ReadableBody {
  /** Bytes; undefined if only its end will tell. */
  abstract readonly length: number | undefined
  /** Reads it, once. */
  abstract open(): Readable
  /** Nobody reads it, or nobody goes on. */
  abstract discard(): Promise<void>
}
