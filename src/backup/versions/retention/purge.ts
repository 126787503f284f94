import type { Log } from '../../../base/log.ts'
import type { CallOptions, ObjectEntry, ObjectStore } from '../../object-store/object-store.ts'
import { cellPrefix } from '../object-keys.ts'

/** The clocks of this machine and of the object store may differ by as much. */
const CLOCK_SKEW_MS = 24 * 3_600_000

/** How much was removed. */
export interface PurgedObjects {
  objects: number
  bytes: number
}

interface PurgeOptions extends CallOptions {
  /** Called after each removal. */
  removed(key: string): void
}

/**
 * Removes every object under a cell's prefix, and ends its unfinished uploads. If it ends early, what is left restores, and a
 * repeat removes the rest.
 */
export async function purgeObjects(
  store: ObjectStore,
  cellId: string,
  now: number,
  log: Log,
  { signal, removed }: PurgeOptions,
): Promise<PurgedObjects> {
  const prefix = cellPrefix(cellId)
  // Some services cannot list uploads; the daily sweep has the same trouble there, and says so.
  await store.sweepUploads(prefix, now + CLOCK_SKEW_MS, { signal }).catch((err) => {
    if (signal?.aborted) throw err
    log.warn({ cellId, err }, 'could not look for unfinished uploads of a cell that is purged')
  })
  const entries: ObjectEntry[] = []
  for await (const entry of store.list(prefix, { signal })) entries.push(entry)
  // From the end: incrementals go before their bases.
  for (const { key } of entries.toReversed()) {
    await store.delete(key, { signal })
    removed(key)
  }
  return { objects: entries.length, bytes: entries.reduce((sum, { size }) => sum + size, 0) }
}
