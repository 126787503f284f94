import { maybe, type Shape, SIGNAL } from '../../base/options/option-shapes.ts'
import { CellError } from '../../errors.ts'

/**
 * Where backups live. There are two implementations: a folder and S3. One of your own must keep this contract.
 *
 * Keys are separated by `/` and relative to the store's own prefix. They are such that a folder and S3 can hold them, and no key
 * continues another key: a folder cannot hold both `a` and `a/b`. Objects are immutable: no method overwrites one.
 *
 * Every method rejects with a `CellError`. Its message holds no path and no credential:
 * - `object_store_unavailable`: the store does not answer, or cannot serve the call now. A later try may help. The store
 *   has already used up its own bounded retries.
 * - `object_store_error`: the store's answer is wrong or final, and the message says what to check (permissions,
 *   credentials, bucket, space). Or the call was wrong: an invalid key or range, or a body of another length than it says.
 * - `store_closed`: the call came after `close`.
 * Every method honours `signal`. Without one it gives up at its own deadline. It then rejects with the
 * signal's reason if that is a `CellError`, and with `object_store_unavailable` otherwise.
 */
export interface ObjectStore {
  /** For messages and logs: the URL of this store, without credentials. */
  readonly url: string

  /**
   * Stores an object, and resolves once the last byte is proven to be stored. A half-written object is never visible.
   * After a rejection the key holds nothing and no part of an upload stays behind, if the store can still be reached.
   * Of several puts of one key through one store exactly one wins; the others get `object_exists`. Between several stores
   * this holds for folders, and for S3 as far as the endpoint honours conditional writes.
   *
   * @throws `object_exists` if the key already holds an object, which stays as it was.
   */
  put(key: string, body: ObjectBody, options?: TransferOptions): Promise<void>

  /**
   * Reads an object, or a byte range of it. The body is checked against its length: a short body ends in an error, never
   * in a normal end. The body rejects when no more bytes come; it does not hang. A body can be iterated once. If nobody
   * iterates it, the store releases it at the call's deadline.
   *
   * @returns undefined if there is no such object.
   */
  get(key: string, options?: GetOptions): Promise<ObjectContent | undefined>

  /** @returns the object's size in bytes, or undefined if there is no such object. */
  head(key: string, options?: CallOptions): Promise<{ size: number } | undefined>

  /**
   * Lists the objects whose keys start with `prefix`, in ascending UTF-8 byte order of the keys. It asks for a page only
   * when the reader needs it. Names that are not valid keys are left out.
   */
  list(prefix: string, options?: ListOptions): AsyncIterable<ObjectEntry>

  /** Removes an object. An absent object is not an error. */
  delete(key: string, options?: CallOptions): Promise<void>

  /**
   * Ends uploads under `prefix` that began before `olderThanMs` (epoch milliseconds) and never finished. If one can't be
   * ended, it still ends the others.
   *
   * @returns the number of uploads that it ended.
   * @throws `object_store_error` if the store cannot list unfinished uploads; the first failure to end one.
   */
  sweepUploads(prefix: string, olderThanMs: number, options?: SweepOptions): Promise<number>

  /**
   * Whether of several puts of one key, through several stores, exactly one wins. Absent: it does.
   *
   * @throws `object_store_unavailable`, `object_store_error` if that cannot be found out
   */
  createsOnlyOnce?(options?: CallOptions): Promise<boolean>

  /** Ends the calls that are under way and releases sockets and other resources. Later calls fail. */
  close(): Promise<void>
}

/** An object's bytes before they are stored. They can be read more than once, so that an attempt can be repeated. */
export interface ObjectBody {
  /** Bytes. */
  readonly size: number
  /** Exactly `length` bytes from `offset`. */
  read(offset: number, length: number): Promise<Buffer>
  /**
   * The finished, fsynced file that holds exactly these bytes, if there is one. A folder store links it instead of
   * copying it. So the file may be removed afterwards, but nobody may write to it.
   */
  readonly path?: string
}

/** What `get` finds. */
export interface ObjectContent {
  /** The number of bytes that `body` delivers. */
  size: number
  body: AsyncIterable<Uint8Array>
}

/** An object in a listing. */
export interface ObjectEntry {
  key: string
  /** Bytes. */
  size: number
}

/** What all calls take: an aborted `signal` ends the call, which rejects with its reason. */
export interface CallOptions {
  signal?: AbortSignal | undefined
}

export const CALL: Shape<CallOptions> = { signal: maybe(SIGNAL) }

/** Which uploads to end. */
export interface SweepOptions extends CallOptions {
  /** Only uploads of these keys; by default all. A bucket may hold other applications' uploads. */
  owns?: ((key: string) => boolean) | undefined
}

/** How an object is stored. */
export interface TransferOptions extends CallOptions {
  /** Called with the number of bytes that are stored so far. */
  onProgress?: ((bytes: number) => void) | undefined
}

/** Which part of an object, and how it is read. */
export interface GetOptions extends CallOptions {
  /**
   * The first byte and the number of bytes, or `last: n` for the last n bytes. The store cuts a range at the object's
   * ends; the content's size shows the result.
   */
  range?: { offset: number; length: number } | { last: number } | undefined
  /** The store may reuse a chunk's memory once the reader asks for the next chunk. */
  reusesMemory?: boolean | undefined
}

/** Where a listing begins. */
export interface ListOptions extends CallOptions {
  /** Only keys after this one. */
  after?: string | undefined
}

/** A body that is in memory. */
export function bufferBody(bytes: Buffer): ObjectBody {
  return { size: bytes.length, read: async (offset, length) => bytes.subarray(offset, offset + length) }
}

/** What `put` throws for a key that already holds an object. */
export function objectExists(cause?: unknown): CellError {
  return new CellError('object_exists', 'The key already holds an object.', { cause })
}

/** Part of an object: `length` bytes from `offset`. */
export interface ByteRange {
  offset: number
  length: number
}

/**
 * The bytes that a `get` delivers of an object of `size` bytes. A range is cut at the object's end.
 *
 * @throws `object_store_error` for an invalid range.
 */
export function resolveRange(range: GetOptions['range'], size: number): ByteRange {
  if (range === undefined) return { offset: 0, length: size }
  checkRange(range)
  if ('last' in range) return { offset: Math.max(size - range.last, 0), length: Math.min(range.last, size) }
  const offset = Math.min(range.offset, size)
  return { offset, length: Math.min(range.length, size - offset) }
}

/** @throws `object_store_error` unless every number of the range is a whole number of at least 0. */
export function checkRange(range: GetOptions['range']): void {
  if (range === undefined) return
  const numbers = 'last' in range ? [range.last] : [range.offset, range.length]
  if (numbers.every((number) => Number.isSafeInteger(number) && number >= 0)) return
  const message = 'The byte range of the read is not valid: it takes whole numbers of at least 0.'
  throw new CellError('object_store_error', message)
}
