/** Time, as the engine sees it. Injected, so that tests step it and never sleep. */
export interface Clock {
  /** Wall clock, whole milliseconds since the Unix epoch. May step back. */
  now(): number
  /** Milliseconds since some fixed point; never steps back. For measuring durations. */
  monotonic(): number
  /** Calls `run` once after `delayMs`. A timer never keeps the process alive. */
  setTimer(run: () => void, delayMs: number): Timer
}

export interface Timer {
  cancel(): void
}

/** setTimeout's own ceiling: a longer delay would fire at once. */
const TIMER_DELAY_MS_MAX = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  setTimer(run, delayMs) {
    const handle = setTimeout(run, Math.min(Math.max(delayMs, 0), TIMER_DELAY_MS_MAX))
    handle.unref()
    return { cancel: () => clearTimeout(handle) }
  },
}
