import type { Clock } from '../../base/clock.ts'

/** SIGHUP: the terminal that the node was started from was closed. */
const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const
/** npm passes on a signal that the whole process group gets, so it comes twice. That counts as one request. */
const SAME_REQUEST_MS = 1_000

/** Listens for the signals that ask the process to stop, until {@link dispose}. */
export class StopSignals {
  readonly #abort = new AbortController()
  readonly #clock: Clock
  readonly #force: () => void
  #askedAt: number | undefined

  /** @param force called by a second request: the user will not wait */
  constructor(clock: Clock, force: () => void) {
    this.#clock = clock
    this.#force = force
    for (const signal of SIGNALS) process.on(signal, this.#asked)
  }

  /** Aborted by the first signal. */
  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** Resolves with the first signal. */
  asked(): Promise<void> {
    if (this.signal.aborted) return Promise.resolve()
    return new Promise((resolve) => this.signal.addEventListener('abort', () => resolve(), { once: true }))
  }

  dispose(): void {
    for (const signal of SIGNALS) process.off(signal, this.#asked)
  }

  readonly #asked = (): void => {
    const now = this.#clock.monotonic()
    this.#askedAt ??= now
    if (!this.signal.aborted) this.#abort.abort()
    else if (now - this.#askedAt > SAME_REQUEST_MS) this.#force()
  }
}
