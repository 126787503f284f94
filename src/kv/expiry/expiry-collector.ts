import { type Clock, turnOfTheLoop } from '../../base/clock.ts'
import type { CellDatabase } from '../../engine/cell-database.ts'
import { DELETE_EXPIRED, DELETE_EXPIRED_RETURNING, NEXT_EXPIRY } from '../queries.ts'

/** A batch that takes longer is followed by a smaller one. */
const BATCH_MS_MAX = 3
const BATCH_MIN = 16
const BATCH_MAX = 1_024

/**
 * Removes the expired entries of an open cell, in batches so small that none blocks the event loop for more than a few
 * milliseconds, with a turn of the loop between them.
 *
 * @param slice runs one batch
 * @returns when the next entry expires, in epoch milliseconds; null if none will; undefined if stopped before the end
 */
export async function collectExpired(
  database: CellDatabase,
  clock: Clock,
  signal: AbortSignal,
  slice: <T>(run: () => T) => T,
): Promise<number | null | undefined> {
  const nextExpiry = () => database.prepare(NEXT_EXPIRY).pluck().get() as number | null
  let batch = BATCH_MIN
  const removeBatch = (): number | null | undefined | 'more' => {
    if (!database.open) return undefined
    const next = nextExpiry()
    // A deletion that finds nothing would have the cell count as changed.
    if (next === null || next > clock.now()) return next
    const started = clock.monotonic()
    // No fsync: it would hold up the event loop for longer than the batch does. A power loss brings back only entries that
    // no read shows, and the next collection removes them again.
    const removed = slice(() =>
      database.syncs.skip(() => database.writeDelete(() => remove(database, clock.now(), batch), batch)),
    )
    if (removed < batch) return nextExpiry()
    const slow = clock.monotonic() - started > BATCH_MS_MAX
    batch = slow ? Math.max(BATCH_MIN, batch / 2) : Math.min(BATCH_MAX, batch * 2)
    return 'more'
  }
  while (!signal.aborted && database.open) {
    const next = database.held === undefined ? removeBatch() : await database.holds.between(removeBatch)
    if (next !== 'more') return next
    await turnOfTheLoop()
  }
  return undefined
}

/** @returns how many entries it has removed */
function remove(database: CellDatabase, now: number, batch: number): number {
  const { recorder } = database
  if (recorder === undefined) return database.prepare(DELETE_EXPIRED).run(now, batch).changes
  const keys = database.prepare(DELETE_EXPIRED_RETURNING).pluck().all(now, batch) as string[]
  for (const key of keys) recorder.key(key)
  return keys.length
}
