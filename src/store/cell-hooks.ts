import type { ChangeTracker } from '../backup/changes/change-tracker.ts'
import type { Clock } from '../base/clock.ts'
import type { CellHooks } from '../engine/cell-database.ts'
import type { ReservedSchema } from '../engine/reserved-schema.ts'
import { KV_VIEW, KV_VIEW_NAME } from '../kv/queries.ts'

/** How the parts above the engine take part in the life of one open cell. */
export function cellHooks(
  schema: ReservedSchema,
  clock: Clock,
  tracker: () => ChangeTracker | undefined,
  events: Pick<CellHooks, 'failed' | 'closed'>,
): CellHooks {
  const tracked = trackedBy(tracker)
  let hasFunction = false
  return {
    ...tracked,
    opened: (database) => {
      schema.check(database)
      tracked.opened?.(database)
    },
    beforePrepare: (database, sql) => {
      if (!KV_VIEW_NAME.test(sql)) return false
      if (!hasFunction) database.defineFunction('_cell_now', () => clock.now())
      hasFunction = true
      database.exec(KV_VIEW)
      return true
    },
    ...events,
  }
}

/** The backup part's share alone; none without an object store. */
export function trackedBy(tracker: () => ChangeTracker | undefined): CellHooks {
  return {
    opened: (database) => tracker()?.hooks.opened?.(database),
    changed: (database) => tracker()?.hooks.changed?.(database),
    beforeCheckpoint: (database, wal) => tracker()?.hooks.beforeCheckpoint?.(database, wal),
    afterCheckpoint: (database) => tracker()?.hooks.afterCheckpoint?.(database),
  }
}
