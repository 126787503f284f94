/** The only file of the console that reads the time or sets a timer. */

/** Milliseconds since 1970, by this machine. */
export function now(): number {
  return Date.now()
}

/** Milliseconds that only ever grow, for durations. */
export function ticks(): number {
  return performance.now()
}

/** Runs something later, once. @returns what cancels it */
export function after(ms: number, run: () => void): () => void {
  const timer = setTimeout(run, ms)
  return () => clearTimeout(timer)
}

/** Runs something again and again. @returns what ends it */
export function every(ms: number, run: () => void): () => void {
  const timer = setInterval(run, ms)
  return () => clearInterval(timer)
}
