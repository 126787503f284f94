/** RFC 3339 UTC with milliseconds, from epoch milliseconds; null stays null. */
export function timeOf(epochMs: number): string
export function timeOf(epochMs: number | null): string | null
export function timeOf(epochMs: number | null): string | null {
  return epochMs === null ? null : new Date(epochMs).toISOString()
}

/** A duration in milliseconds, to the microsecond. */
export function durationOf(ms: number): number {
  return Math.round(ms * 1_000) / 1_000
}
