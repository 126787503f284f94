import type { Clock } from '../base/clock.ts'

const SIGNALS = ['SIGTERM', 'SIGINT'] as const
/** A signal that reaches the whole process group comes twice where npm hands it on: that is one wish, not two. */
const SAME_WISH_MS = 1_000

/** Listens for the signals that ask for an end, from its making to {@link dispose}. */
export class StopSignals {
  readonly #abort = new AbortController()
  readonly #clock: Clock
  readonly #force: () => void
  #askedAt: number | undefined

  /** @param force called when somebody asks again, later than a repeat of the same wish: they will not wait */
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
    else if (now - this.#askedAt > SAME_WISH_MS) this.#force()
  }
}
