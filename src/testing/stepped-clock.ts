import type { Clock, Timer } from '../index.ts'

interface PendingTimer {
  due: number
  run: () => void
}

/** 2026-01-01T00:00:00Z: any instant would do, as long as it is the same in every run. */
const EPOCH_MS = Date.UTC(2026, 0, 1)

/**
 * A clock that stands still until it is told to move. Timers fire in the order in which they are due.
 *
 * ```ts
 * const clock = new SteppedClock()
 * await using temporary = await temporaryStore({ clock })
 * clock.advance(60_000)
 * ```
 */
export class SteppedClock implements Clock {
  #now: number
  #monotonic = 0
  #sleptMs = 0
  readonly #timers = new Set<PendingTimer>()

  /** @param now where it begins, in milliseconds since the Unix epoch; 2026-01-01T00:00:00Z by default */
  constructor(now = EPOCH_MS) {
    this.#now = now
  }

  now(): number {
    return this.#now
  }

  monotonic(): number {
    return this.#monotonic
  }

  sinceBoot(): number {
    return this.#monotonic + this.#sleptMs
  }

  setTimer(run: () => void, delayMs: number): Timer {
    // Whole ones: the time of day has no parts of a millisecond, also if a test goes from timer to timer.
    const timer = { due: this.#monotonic + Math.ceil(Math.max(delayMs, 0)), run }
    this.#timers.add(timer)
    return { cancel: () => this.#timers.delete(timer) }
  }

  /** Milliseconds until the next timer, or undefined if none is set. */
  get nextTimerMs(): number | undefined {
    const next = this.#nextTimer()
    return next && next.due - this.#monotonic
  }

  /** Lets milliseconds pass, and the timers that fall due with them. */
  advance(ms: number): void {
    const end = this.#monotonic + ms
    for (let next = this.#nextTimer(); next !== undefined && next.due <= end; next = this.#nextTimer()) {
      this.#timers.delete(next)
      this.#pass(next.due - this.#monotonic)
      next.run()
    }
    this.#pass(end - this.#monotonic)
  }

  /** Sets the wall clock by milliseconds, forward or back, as an administrator would: no timer notices. */
  step(ms: number): void {
    this.#now += ms
  }

  /** Lets the machine sleep for milliseconds, as a laptop with its lid closed: no timer moves, and `monotonic()` stands still. */
  sleep(ms: number): void {
    this.#now += ms
    this.#sleptMs += ms
  }

  #pass(ms: number): void {
    this.#now += ms
    this.#monotonic += ms
  }

  #nextTimer(): PendingTimer | undefined {
    let next: PendingTimer | undefined
    for (const timer of this.#timers) if (next === undefined || timer.due < next.due) next = timer
    return next
  }
}
