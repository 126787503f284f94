import type { Clock } from '../clock.ts'

/** Bounds of the waits between tries, in milliseconds. */
export interface BackOff {
  minMs: number
  maxMs: number
}

/**
 * How long to wait before the next try: twice as long after each failure.
 *
 * @param failures those before the one that the wait follows
 * @param random the wait has between half and all of its length: what failed together spreads out
 * @returns milliseconds
 */
export function backOffMs(failures: number, { minMs, maxMs }: BackOff, random?: () => number): number {
  const ms = Math.min(minMs * 2 ** failures, maxMs)
  return random === undefined ? ms : Math.ceil(ms * (0.5 + random() / 2))
}

/** Waits, or until the signal aborts; it does not throw then. */
export function rest(
  clock: Clock,
  ms: number,
  signal: AbortSignal | undefined,
  options?: { keepsAlive?: boolean },
): Promise<void> {
  if (ms <= 0 || signal?.aborted === true) return Promise.resolve()
  return new Promise((resolve) => {
    const end = () => {
      timer.cancel()
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const timer = clock.setTimer(end, ms, options)
    signal?.addEventListener('abort', end)
  })
}
