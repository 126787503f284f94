import type { StoredUpTo } from '../../changes/progress-table.ts'

/** Each cut of a version puts a cell's line of time a millisecond ahead of what was committed. */
const AHEAD_MS = 1_000

/**
 * Up to when everything that a cell has committed is in the object store, in epoch milliseconds.
 *
 * @param now by the clock. A cell's line of time may be ahead of it: a time from there says nothing of now
 * @param collectedTo all that cells with a history had committed when it was collected, is stored; null if not known
 * @returns null if nothing is stored, or if all that is known is from a clock that was ahead
 */
export function backedUpTo(
  { storedTo, shippedAt, shippedSince }: StoredUpTo,
  collectedTo: number | null,
  now: number,
): number | null {
  const known = [storedTo, shippedAt]
  // A history that began to be shipped in the meantime was not collected then.
  if (collectedTo !== null && shippedSince !== null && collectedTo > shippedSince) known.push(collectedTo)
  const past = known.filter((time) => time !== null && time <= now + AHEAD_MS) as number[]
  return past.length === 0 ? null : Math.min(Math.max(...past), now)
}
