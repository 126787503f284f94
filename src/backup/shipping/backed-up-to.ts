import type { StoredUpTo } from '../changes/progress-table.ts'

/**
 * Up to when everything that a cell has committed is in the object store, in epoch milliseconds; null if nothing is stored.
 *
 * @param now by the clock. A cell's line of time may be ahead of it: a time from there says nothing of now
 * @param collectedTo all that cells with a history had committed when it was collected, is stored; null if not known
 */
export function backedUpTo(
  { storedTo, shippedAt, shippedSince }: StoredUpTo,
  collectedTo: number | null,
  now: number,
): number | null {
  const known = [storedTo, shippedAt]
  // A history that began to be shipped in the meantime was not collected then.
  if (collectedTo !== null && shippedSince !== null && collectedTo > shippedSince) known.push(collectedTo)
  const times = known.filter((time) => time !== null)
  const past = times.filter((time) => time <= now)
  if (past.length > 0) return Math.max(...past)
  return times.length === 0 ? null : now
}
