import type { ChangeTrackers } from '../../backup/changes/change-trackers.ts'
import type { Clock } from '../../base/clock.ts'
import type { CellDatabase, CellHooks } from '../../engine/cell-database.ts'
import { assertCell } from '../../engine/reserved-schema.ts'
import { KV_VIEW, KV_VIEW_NAME } from '../../kv/queries.ts'
import { CELL_SCHEMA } from './cell-files.ts'

export interface CellHookParts {
  clock: Clock
  /** Undefined without an object store. */
  trackers: ChangeTrackers | undefined
  opened(database: CellDatabase): void
  failed(error: unknown): void
  closed(): void
}

/** Connects the parts above the engine to one open cell. */
export function cellHooks(id: string, parts: CellHookParts): CellHooks {
  const { clock, trackers, opened, failed, closed } = parts
  const withFunction = new WeakSet<object>()
  return {
    opened: (database) => {
      assertCell(database)
      trackers?.acquire(id)
      try {
        trackers?.get(id).hooks.opened?.(database)
        // It is a change like any other, so that the tracker has to be there.
        CELL_SCHEMA.upgrade(database)
        opened(database)
      } catch (error) {
        // The cell is not open, so that nothing calls `closed`.
        trackers?.release(id)
        throw error
      }
    },
    changed: (database) => trackers?.get(id).hooks.changed?.(database),
    beforeCheckpoint: (database, wal) => trackers?.get(id).hooks.beforeCheckpoint?.(database, wal),
    afterCheckpoint: (database) => trackers?.get(id).hooks.afterCheckpoint?.(database),
    beforePrepare: (database, sql) => {
      if (!KV_VIEW_NAME.test(sql)) return false
      if (!withFunction.has(database)) database.defineFunction('_cell_now', () => clock.now())
      withFunction.add(database)
      database.exec(KV_VIEW)
      return true
    },
    failed,
    closed: () => {
      trackers?.get(id).hooks.closed?.()
      trackers?.release(id)
      closed()
    },
  }
}
