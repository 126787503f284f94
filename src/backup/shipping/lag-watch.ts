import type { Clock, Timer } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'

/** The lag that is worth a warning, as a multiple of the target. */
const FACTOR = 5

/** Says once that shipping is far behind, and once that it has caught up. */
export class LagWatch {
  readonly #lagMs: number
  readonly #clock: Clock
  readonly #log: Log
  #timer: Timer | undefined
  #isLate = false
  /** Why the last try has failed. */
  #err: unknown

  /** @param lagMs the target */
  constructor(lagMs: number, clock: Clock, log: Log) {
    this.#lagMs = lagMs
    this.#clock = clock
    this.#log = log
  }

  /** Everything is stored that was committed until now. */
  caughtUp(): void {
    if (this.#isLate)
      this.#log.info({}, 'shipping has caught up: what the cells committed is in the object store')
    this.#isLate = false
    this.#err = undefined
    this.#timer?.cancel()
    this.#timer = this.#clock.setTimer(() => this.#late(), FACTOR * this.#lagMs)
  }

  failed(error: unknown): void {
    this.#err = error
  }

  stop(): void {
    this.#timer?.cancel()
  }

  #late(): void {
    this.#isLate = true
    this.#log.warn(
      { err: this.#err, lagMs: FACTOR * this.#lagMs },
      'shipping is behind: what the cells have committed since then is on this machine only',
    )
  }
}
