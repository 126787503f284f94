import os from 'node:os'
import { having } from './options/option-shapes.ts'

/**
 * As they are when the library is loaded. A test runner's fake timers stand still, also for the library; its fake `Date` is used:
 * it is what the test says the time is.
 */
export const { setImmediate, queueMicrotask } = globalThis
const { setTimeout, clearTimeout } = globalThis
const monotonicNow = performance.now.bind(performance)

/** Resolves in the next turn of the event loop. */
export function turnOfTheLoop(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

/** Time, as the engine sees it. Injected, so that tests step it and never sleep. */
export interface Clock {
  /** Wall clock, whole milliseconds since the Unix epoch. May step back. */
  now(): number
  /** Milliseconds since some fixed point; never steps back. For measuring durations. It may stand still while the machine sleeps. */
  monotonic(): number
  /** Milliseconds since the machine was started, those included in which it slept. Nobody sets it. */
  sinceBoot(): number
  /** Calls `run` once after `delayMs`. A timer does not keep the process alive unless `keepsAlive` is set. */
  setTimer(run: () => void, delayMs: number, options?: { keepsAlive?: boolean }): Timer
}

export const CLOCK = having<Clock>('now', 'monotonic', 'sinceBoot', 'setTimer')

/** A timer that was set and may still fire. */
export interface Timer {
  /** The timer no longer fires; no-op once it has fired. */
  cancel(): void
}

/** The ceiling of setTimeout: a longer delay would fire immediately. */
const TIMER_DELAY_MS_MAX = 2 ** 31 - 1

/** Milliseconds that one reading of the time since boot serves: Node reads a file for it, which takes 8 µs. */
const BOOT_READ_MS = 1
let bootRead = { at: Number.NEGATIVE_INFINITY, ms: 0 }

/** If the machine falls asleep, one that has just woken can be a millisecond behind: so it can between any check and what follows it. */
function sinceBoot(): number {
  const at = monotonicNow()
  if (at - bootRead.at >= BOOT_READ_MS) bootRead = { at, ms: os.uptime() * 1_000 }
  return bootRead.ms + at - bootRead.at
}

/** The real clock. Its `random` is for jitter alone: nothing but timing may depend on it. */
export const systemClock: Clock & { random: () => number } = {
  random: () => Math.random(),
  now: () => Date.now(),
  monotonic: () => monotonicNow(),
  sinceBoot,
  setTimer(run, delayMs, { keepsAlive = false } = {}) {
    const handle = setTimeout(run, Math.min(Math.max(delayMs, 0), TIMER_DELAY_MS_MAX))
    if (!keepsAlive) handle.unref()
    return { cancel: () => clearTimeout(handle) }
  },
}

/** Waits. The process lives as long as somebody does. */
export function delay(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => clock.setTimer(resolve, ms, { keepsAlive: true }))
}

/** Waits for work, up to a time. */
export async function within(clock: Clock, ms: number, work: Promise<void>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = clock.setTimer(resolve, ms)
  await Promise.race([work, promise]).finally(() => timer.cancel())
}
