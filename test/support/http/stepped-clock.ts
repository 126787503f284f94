import { type Clock, systemClock, type Timer } from '../../../src/base/clock.ts'

/** A wall clock that stands still until a test steps it. Timers and durations are the real ones. */
export class SteppedClock implements Clock {
  #now: number

  constructor(now = Date.UTC(2026, 10, 21, 2, 2, 13, 123)) {
    this.#now = now
  }

  now(): number {
    return this.#now
  }

  step(ms: number): void {
    this.#now += ms
  }

  monotonic(): number {
    return systemClock.monotonic()
  }

  setTimer(run: () => void, delayMs: number, options?: { keepsAlive?: boolean }): Timer {
    return systemClock.setTimer(run, delayMs, options)
  }
}
