/**
 * Where backups live. Two implementations: a folder and S3. test/backup/object-store/object-store.contract.ts is this contract
 * as tests; every implementation passes it.
 *
 * Keys are `/`-separated, relative to the store's own prefix, made only by object-keys.ts, and such that every store can
 * hold them (object-key-rules.ts). A key must not go on where another one ends: a folder can't hold both `a` and `a/b`.
 * Objects are immutable: there is no way to overwrite one (invariant 9).
 *
 * Every method rejects with a `CellError`, whose message holds no path and no credential:
 * - `object_store_unavailable`: no answer, or not now; trying again may help. After the store's own bounded retries.
 * - `object_store_error`: it answered, and the answer is wrong or final, with what to look at (permissions, credentials,
 *   bucket, space); or the call was wrong: a key or range that is none, a body that is not as long as it says.
 * - `store_closed`: after `close`.
 * Every method honours `signal`, and gives up at its own deadline even without one (invariant 13). It then rejects with
 * the signal's reason where that is a `CellError`, with `object_store_unavailable` else.
 */
export interface ObjectStore {
  /** For messages and logs: the URL it was made from, without credentials. */
  readonly url: string

  /**
   * Stores an object, and resolves once its last byte is proven stored. After a rejection nothing is left at the key
   * and no part of an upload stays behind, as far as the store can be reached; a half-written object is never visible.
   * Of several puts of one key through one store exactly one wins, the others get `object_exists`. Between stores that
   * holds for folders, and for S3 as far as the endpoint honours conditional writes.
   *
   * @throws `object_exists` if the key holds an object already, which stays as it was.
   */
  put(key: string, body: ObjectBody, options?: TransferOptions): Promise<void>

  /**
   * Reads an object, or a byte range of it. The body is checked against its length: a short one ends in an error, never
   * in a normal end. Rejects, rather than hangs, when bytes stop coming. A body can be iterated once; one that nobody
   * iterates is let go of at the call's deadline.
   *
   * @returns undefined if there is no such object.
   */
  get(key: string, options?: GetOptions): Promise<ObjectContent | undefined>

  /** @returns the object's size, or undefined if there is no such object. */
  head(key: string, options?: CallOptions): Promise<{ size: number } | undefined>

  /**
   * Objects whose keys start with `prefix`, in ascending UTF-8 byte order of the keys, page by page as they are asked
   * for. What is there under a name that is no key is left out.
   */
  list(prefix: string, options?: ListOptions): AsyncIterable<ObjectEntry>

  /** Removes an object; one that is absent is no error. */
  delete(key: string, options?: CallOptions): Promise<void>

  /**
   * Ends uploads under `prefix` that were begun before `olderThanMs` (epoch milliseconds) and never finished.
   *
   * @returns how many.
   * @throws `object_store_error` where the store can not list them.
   */
  sweepUploads(prefix: string, olderThanMs: number, options?: CallOptions): Promise<number>

  /** Ends the calls that are under way and lets go of sockets and the like. The store can't be used afterwards. */
  close(): Promise<void>
}

/** An object's bytes before they are stored; can be read more than once, so that an attempt can be repeated. */
export interface ObjectBody {
  readonly size: number
  /** `length` bytes from `offset`; always exactly that many. */
  read(offset: number, length: number): Promise<Buffer>
  /**
   * The finished, fsynced file that holds exactly these bytes, where there is one: a folder store links it instead of
   * copying, so it may be removed afterwards, and must not be written to.
   */
  readonly path?: string
}

export interface ObjectContent {
  /** Bytes that `body` will deliver. */
  size: number
  body: AsyncIterable<Uint8Array>
}

export interface ObjectEntry {
  key: string
  size: number
}

export interface CallOptions {
  signal?: AbortSignal | undefined
}

export interface TransferOptions extends CallOptions {
  /** Called with the bytes stored so far. */
  onProgress?: ((bytes: number) => void) | undefined
}

export interface GetOptions extends CallOptions {
  /** First byte and byte count, or `last: n` for the last n bytes. Cut at the object's ends; the content's size tells. */
  range?: { offset: number; length: number } | { last: number } | undefined
  /** A chunk is the reader's only until it asks for the next one: a store may use its memory again. */
  reusesMemory?: boolean | undefined
}

export interface ListOptions extends CallOptions {
  /** Only keys after this one. */
  after?: string | undefined
}

/** A body that is in memory. */
export function bufferBody(bytes: Buffer): ObjectBody {
  return { size: bytes.length, read: async (offset, length) => bytes.subarray(offset, offset + length) }
}
