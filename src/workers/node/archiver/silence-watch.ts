import type { Clock, Timer } from '../../../base/clock.ts'

/** How often a process is looked at. */
const LOOK_EVERY_MS = 5_000
/** In so many looks it has not answered: a minute. None of its steps takes nearly as long, on a slow disk either. */
const LOOKS_MAX = 12

/**
 * Asks a process now and then whether it still answers, and gives it up after a minute without an answer. It counts its own
 * looks, not time: if the machine slept or this process was held up, that is one look.
 */
export class SilenceWatch {
  readonly #clock: Clock
  readonly #ping: () => void
  readonly #onSilent: () => void
  #hasAnswered = true
  /** Looks since the question. */
  #looks = 0
  #timer: Timer | undefined

  constructor(clock: Clock, { ping, onSilent }: { ping(): void; onSilent(): void }) {
    this.#clock = clock
    this.#ping = ping
    this.#onSilent = onSilent
    this.#lookLater()
  }

  answered(): void {
    this.#hasAnswered = true
  }

  end(): void {
    this.#timer?.cancel()
  }

  #lookLater(): void {
    this.#timer = this.#clock.setTimer(() => this.#look(), LOOK_EVERY_MS)
  }

  #look(): void {
    if (this.#hasAnswered) {
      this.#hasAnswered = false
      this.#looks = 0
      this.#ping()
    } else if (++this.#looks >= LOOKS_MAX) {
      this.#onSilent()
      return
    }
    this.#lookLater()
  }
}
