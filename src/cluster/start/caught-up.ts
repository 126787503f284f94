import { type Clock, delay } from '../../base/clock.ts'
import { CellError, isCellError } from '../../errors.ts'
import type { PostgresCatalog } from '../postgres/postgres-catalog.ts'

/** A restarted PostgreSQL waits for all nodes, and so do starts. */
const RECONCILED_MS = 60_000

/** Resolves once the catalog is as new as PostgreSQL's. @throws `cluster_unavailable` after a minute */
export async function untilCaughtUp(
  catalog: Pick<PostgresCatalog, 'catchUp'>,
  clock: Clock,
  everyMs: number,
): Promise<void> {
  const deadline = clock.monotonic() + RECONCILED_MS
  for (;;) {
    try {
      await catalog.catchUp()
      return
    } catch (error) {
      if (!isCellError(error, 'cluster_unavailable') || clock.monotonic() > deadline) throw error
    }
    await delay(clock, everyMs)
  }
}

/** @throws every other error */
export function unlessUnavailable(error: unknown): void {
  if (!isCellError(error, 'cluster_unavailable')) throw error
}

export function bucketAway(): CellError {
  return new CellError(
    'object_store_unavailable',
    'The object store does not answer. A node of a cluster needs it to start.',
  )
}
