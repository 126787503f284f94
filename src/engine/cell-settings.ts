import type { Limits } from './limits.ts'

/** `full`: a commit is fsynced before it is answered. `relaxed`: a power loss may drop the newest commits, never tear one. */
export type Durability = 'full' | 'relaxed'

/** `tenant`: every statement passes the allow-list before it is prepared. `trusted`: only what would break the engine is refused. */
export type SqlPolicy = 'tenant' | 'trusted'

export interface CellDatabaseSettings {
  durability: Durability
  sqlPolicy: SqlPolicy
  limits: Limits
  /** Memory for database pages that a cell may keep, in bytes. */
  pageCacheBytes: number
  /** Checkpoint once the write-ahead log holds this many bytes. */
  checkpointBytes: number
}

/** Every cell's: SQLite's default, and that of the image that new cells are written from. */
export const PAGE_BYTES = 4_096
