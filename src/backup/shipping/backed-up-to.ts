import type { StoredUpTo } from '../changes/progress-table.ts'

/**
 * Up to when everything that a cell has committed is in the object store, in epoch milliseconds; null if nothing is stored.
 *
 * @param collectedTo all that cells with a history had committed when it was collected, is stored; null if not known
 */
export function backedUpTo(
  { storedTo, shippedAt, shippedSince }: StoredUpTo,
  collectedTo: number | null,
): number | null {
  const known = [storedTo, shippedAt]
  // A history that began to be shipped in the meantime was not collected then.
  if (collectedTo !== null && shippedSince !== null && collectedTo > shippedSince) known.push(collectedTo)
  const times = known.filter((time) => time !== null)
  return times.length === 0 ? null : Math.max(...times)
}
