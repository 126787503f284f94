import type { ObjectStore } from '../object-store/object-store.ts'
import { BACKUPS_PREFIX, parseVersion } from '../versions/object-keys.ts'

/** A listing has a page for each 1,000 objects of the whole bucket, so it has to be for this share of all cells. */
const LISTED_SHARE = 0.1

export interface OrderParts {
  objectStore: ObjectStore
  /** How many cells exist. */
  cellCount(): number
}

/**
 * Puts lost cells in the order in which they are likely to be needed: the one first that was changed last. After a total loss
 * the only trace of that is the time of each cell's newest backup. One listing shows it, and no object is read. Cells
 * without a difference stay in their order, so the caller puts the one first that was made last.
 */
export async function byRecentChange(
  lost: readonly string[],
  { objectStore, cellCount }: OrderParts,
  signal: AbortSignal,
): Promise<string[]> {
  if (lost.length < 2 || lost.length < cellCount() * LISTED_SHARE) return [...lost]
  const changedAt = new Map<string, number>(lost.map((cellId) => [cellId, 0]))
  for await (const { key } of objectStore.list(BACKUPS_PREFIX, { signal })) {
    const version = parseVersion(key)
    const before = version && changedAt.get(version.cellId)
    if (version !== undefined && before !== undefined && version.time > before)
      changedAt.set(version.cellId, version.time)
  }
  return [...lost].sort((a, b) => (changedAt.get(b) ?? 0) - (changedAt.get(a) ?? 0))
}
