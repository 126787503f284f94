import type { Clock, Timer } from '../../src/base/clock.ts'

interface PendingTimer {
  due: number
  run: () => void
}

/** 2026-01-01T00:00:00Z: any instant would do, as long as it is the same in every run. */
export const TEST_EPOCH_MS = Date.UTC(2026, 0, 1)

/** A clock that stands still until it is told to move. Timers fire in the order in which they are due. */
export class FakeClock implements Clock {
  #now: number
  #monotonic = 0
  readonly #timers = new Set<PendingTimer>()

  constructor(now = TEST_EPOCH_MS) {
    this.#now = now
  }

  now(): number {
    return this.#now
  }

  monotonic(): number {
    return this.#monotonic
  }

  setTimer(run: () => void, delayMs: number): Timer {
    const timer = { due: this.#monotonic + Math.max(delayMs, 0), run }
    this.#timers.add(timer)
    return { cancel: () => this.#timers.delete(timer) }
  }

  /** Milliseconds until the next timer, or undefined if none is set. */
  get nextTimerMs(): number | undefined {
    const next = this.#nextTimer()
    return next && next.due - this.#monotonic
  }

  /** Lets time pass, and the timers that fall due with it. */
  advance(ms: number): void {
    const end = this.#monotonic + ms
    for (let next = this.#nextTimer(); next !== undefined && next.due <= end; next = this.#nextTimer()) {
      this.#timers.delete(next)
      this.#pass(next.due - this.#monotonic)
      next.run()
    }
    this.#pass(end - this.#monotonic)
  }

  /** Sets the wall clock, forward or back, as an administrator would: no timer notices. */
  step(ms: number): void {
    this.#now += ms
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
