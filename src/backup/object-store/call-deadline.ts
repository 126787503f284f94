import { setMaxListeners } from 'node:events'
import type { Clock, Timer } from '../../base/clock.ts'
import { CellError } from '../../errors.ts'

/** How long a store's calls may take. */
export interface Patience {
  /** Longest time of a call beside what its bytes need, in milliseconds; a store's own retries are within it. */
  deadlineMs: number
  /** The slowest transfer that is still waited for. */
  slowestBytesPerSecond: number
}

/**
 * One call's leave to take time: it ends when the time is up, when the caller's signal fires, or when the store is
 * closed, whichever comes first. `signal` then carries the `CellError` to reject with (invariant 13).
 */
export class CallDeadline implements Disposable {
  readonly #controller = new AbortController()
  readonly #clock: Clock
  readonly #patience: Patience
  readonly #sources: AbortSignal[]
  #timer: Timer | undefined
  #before: AbortSignal | undefined

  /** @param signals the caller's and the store's own; what aborts them, where it is a `CellError`, is kept. */
  constructor(clock: Clock, patience: Patience, ...signals: (AbortSignal | undefined)[]) {
    this.#clock = clock
    this.#patience = patience
    this.#sources = signals.filter((signal) => signal !== undefined)
    // Many calls may wait on one signal, and one call for many parts; Node 22 would warn of a leak that is none.
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

  /** Sets the time that is left, counted from now: the base, and what so many bytes may take. */
  allow(bytes: number): void {
    this.#timer?.cancel()
    if (this.signal.aborted) return
    const ms = this.#patience.deadlineMs + Math.ceil((bytes / this.#patience.slowestBytesPerSecond) * 1000)
    this.#timer = this.#clock.setTimer(() => {
      this.#end(new CellError('object_store_unavailable', `The object store did not finish within ${ms} ms.`))
    }, ms)
  }

  /** Lets the time begin only when another call ends: for what has to be heard out whatever becomes of that call. */
  beginAfter({ signal }: CallDeadline): void {
    this.#timer?.cancel()
    this.#before = signal
    signal.addEventListener('abort', this.#onBegin)
    if (signal.aborted) this.#onBegin()
  }

  /** Settles as `work` does, or rejects as soon as the call's time is over. `work` itself is not stopped by that. */
  async race<T>(work: Promise<T>): Promise<T> {
    const { signal } = this
    let onAbort = () => {}
    const ended = new Promise<never>((_, reject) => {
      onAbort = () => reject(signal.reason)
      signal.addEventListener('abort', onAbort, { once: true })
      if (signal.aborted) onAbort()
    })
    // Whichever loses must not become an unhandled rejection.
    ended.catch(() => {})
    work.catch(() => {})
    try {
      return await Promise.race([ended, work])
    } finally {
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** Lets go of the timer and the caller's signal; nothing fires after it. */
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
