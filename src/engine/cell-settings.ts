import type { Limits } from '../base/limits.ts'

/**
 * `full`: a commit is fsynced before its call returns or resolves. `relaxed`: a power loss may drop the newest commits, but
 * never tears one.
 */
export type Durability = 'full' | 'relaxed'

/** `tenant`: every statement passes the allow-list before it is prepared. `trusted`: only what would break the engine is refused. */
export type SqlPolicy = 'tenant' | 'trusted'

export interface CellDatabaseSettings {
  durability: Durability
  sqlPolicy: SqlPolicy
  limits: Limits
  /** Memory for database pages that a cell may keep, in bytes. */
  pageCacheBytes: number
  /**
   * Where a statement keeps what it sorts and sets aside, and what a savepoint would bring back: in files beyond the cache,
   * or in memory alone. See docs/decisions/0009-temporary-data.md.
   */
  temporary?: 'files' | 'memory' | undefined
  /** Checkpoint once the write-ahead log holds this many bytes. */
  checkpointBytes: number
}

/** Every cell's: SQLite's default, and that of the image that new cells are written from. */
export const PAGE_BYTES = 4_096
