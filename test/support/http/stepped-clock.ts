import { type Clock, systemClock, type Timer } from '../../../src/base/clock.ts'
import { LINGER_MS_MAX } from '../../../src/http/server/linger.ts'

/** A wall clock that stands still until a test steps it. Timers and durations are the real ones: sockets run on them. */
export class SteppedClock implements Clock {
  #now: number
  #passed = 0

  constructor(now = Date.UTC(2026, 10, 21, 2, 2, 13, 123)) {
    this.#now = now
  }

  now(): number {
    return this.#now
  }

  step(ms: number): void {
    this.#now += ms
  }

  /** Has time pass that nobody waits for: what is due after it is due at once. Call it between requests. */
  pass(ms: number): void {
    this.#passed += ms
  }

  monotonic(): number {
    return systemClock.monotonic() + this.#passed
  }

  sinceBoot(): number {
    return systemClock.sinceBoot()
  }

  setTimer(run: () => void, delayMs: number, options?: { keepsAlive?: boolean }): Timer {
    return systemClock.setTimer(run, delayMs, options)
  }
}

/** One that leaves to the test for how long the rest of a refused body is read. */
export class LingerClock extends SteppedClock {
  readonly deadlines: (() => void)[] = []

  override setTimer(run: () => void, delayMs: number, options?: { keepsAlive?: boolean }): Timer {
    if (delayMs !== LINGER_MS_MAX) return super.setTimer(run, delayMs, options)
    this.deadlines.push(run)
    return { cancel: () => void this.deadlines.splice(this.deadlines.indexOf(run), 1) }
  }
}
