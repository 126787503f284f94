import type { Clock } from '../../base/clock.ts'

/** More than clocks are corrected by, and less than what would matter. */
const SET_MS = 3_600_000

/**
 * Notices that somebody has set the wall clock, and holds back for a time that really passes. A machine that sleeps is none whose
 * clock was set.
 */
export class ClockWatch {
  readonly #clock: Clock
  readonly #pauseMs: number
  /** The wall clock without the time that has passed: another one after the clock was set. */
  #zero: number
  /** In milliseconds since the machine was started. */
  #pausedUntil = Number.NEGATIVE_INFINITY

  constructor(clock: Clock, pauseMs: number) {
    this.#clock = clock
    this.#pauseMs = pauseMs
    this.#zero = this.#currentZero()
  }

  /** Whether the clock was set since the last call, or shortly before. */
  isPaused(): boolean {
    const zero = this.#currentZero()
    const now = this.#clock.sinceBoot()
    if (Math.abs(zero - this.#zero) > SET_MS) this.#pausedUntil = now + this.#pauseMs
    this.#zero = zero
    return now < this.#pausedUntil
  }

  #currentZero(): number {
    return this.#clock.now() - this.#clock.sinceBoot()
  }
}
