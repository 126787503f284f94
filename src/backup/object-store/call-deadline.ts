import { setMaxListeners } from 'node:events'
import type { Clock, Timer } from '../../base/clock.ts'
import { COUNT, type Shape } from '../../base/options/option-shapes.ts'
import { CellError } from '../../errors.ts'
import type { ObjectBody } from './object-store.ts'

/** The slowest transfer over a network that a call accepts by default, in bytes per second. */
export const SLOWEST_BYTES_PER_SECOND = 131_072

/** How long a store's calls may take. */
export interface Patience {
  /** The longest time of a call in milliseconds, without the time for its bytes. It includes the store's own retries. */
  deadlineMs: number
  /** The slowest transfer that a call accepts, in bytes per second. It adds time for a call's bytes to `deadlineMs`. */
  slowestBytesPerSecond: number
}

export const PATIENCE: Shape<Patience> = { deadlineMs: COUNT, slowestBytesPerSecond: COUNT }

/**
 * The time limit of one call. The call ends when its time is up, when the caller's signal fires, or when the store is
 * closed. `signal` then carries the `CellError` to reject with (invariant 13).
 */
export class CallDeadline implements Disposable {
  readonly #controller = new AbortController()
  readonly #clock: Clock
  readonly #patience: Patience
  readonly #sources: AbortSignal[]
  #timer: Timer | undefined
  #before: AbortSignal | undefined

  /** @param signals the caller's and the store's own. If one aborts with a `CellError`, the call rejects with that. */
  constructor(clock: Clock, patience: Patience, ...signals: (AbortSignal | undefined)[]) {
    this.#clock = clock
    this.#patience = patience
    this.#sources = signals.filter((signal) => signal !== undefined)
    // Many calls may listen to one signal, and many parts to one call. Without this, Node 22 warns of a leak.
    setMaxListeners(0, this.signal, ...this.#sources)
    for (const source of this.#sources) {
      source.addEventListener('abort', this.#onAbort)
      if (source.aborted) this.#cancel(source)
    }
    this.allow(0)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Restarts the time limit from now: `deadlineMs`, and the time that this number of bytes may take. */
  allow(bytes: number): void {
    this.#timer?.cancel()
    if (this.signal.aborted) return
    const ms = this.#patience.deadlineMs + Math.ceil((bytes / this.#patience.slowestBytesPerSecond) * 1000)
    this.#timer = this.#clock.setTimer(() => {
      this.#end(new CellError('object_store_unavailable', `The object store did not finish within ${ms} ms.`))
    }, ms)
  }

  /** Starts the time limit only when another call ends: for a request whose answer is needed even if that call fails. */
  beginAfter({ signal }: CallDeadline): void {
    this.#timer?.cancel()
    this.#before = signal
    signal.addEventListener('abort', this.#onBegin)
    if (signal.aborted) this.#onBegin()
  }

  /** Settles as `work` does, or rejects as soon as the call ends. This does not stop `work` itself. */
  async race<T>(work: Promise<T>): Promise<T> {
    const { signal } = this
    let onAbort = () => {}
    const ended = new Promise<never>((_, reject) => {
      onAbort = () => reject(signal.reason)
      signal.addEventListener('abort', onAbort, { once: true })
      if (signal.aborted) onAbort()
    })
    // The loser of the race must not become an unhandled rejection.
    ended.catch(() => {})
    work.catch(() => {})
    try {
      return await Promise.race([ended, work])
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** Releases the timer and the signals. Nothing fires afterwards. */
  [Symbol.dispose](): void {
    this.#timer?.cancel()
    for (const source of this.#sources) source.removeEventListener('abort', this.#onAbort)
    this.#before?.removeEventListener('abort', this.#onBegin)
  }

  readonly #onBegin = () => this.allow(0)

  readonly #onAbort = (event: Event) => this.#cancel(event.target as AbortSignal)

  #cancel({ reason }: AbortSignal): void {
    this.#end(
      reason instanceof CellError
        ? reason
        : new CellError('object_store_unavailable', 'The call was cancelled.', { cause: reason }),
    )
  }

  #end(reason: CellError): void {
    this[Symbol.dispose]()
    this.#controller.abort(reason)
  }
}

/**
 * Reads exactly `length` bytes of a body from `offset`.
 *
 * @throws `object_store_error` if the body cannot be read, or gives another number of bytes: the stored object would not
 *   be the announced one.
 */
export async function readBody(
  body: ObjectBody,
  offset: number,
  length: number,
  call: CallDeadline,
): Promise<Buffer> {
  call.signal.throwIfAborted()
  let bytes: Buffer
  try {
    bytes = await call.race(body.read(offset, length))
  } catch (error) {
    if (error instanceof CellError) throw error
    throw new CellError('object_store_error', 'Reading the bytes to store failed.', { cause: error })
  }
  if (bytes.length === length) return bytes
  const message = `The body of the object gave ${bytes.length} bytes instead of ${length}.`
  throw new CellError('object_store_error', message)
}

/** Reads a whole body in pieces of `pieceBytes`. */
export async function* readPieces(
  body: ObjectBody,
  pieceBytes: number,
  call: CallDeadline,
): AsyncGenerator<Buffer> {
  for (let offset = 0; offset < body.size; offset += pieceBytes) {
    yield await readBody(body, offset, Math.min(pieceBytes, body.size - offset), call)
  }
}
