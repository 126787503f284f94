import type { Limits } from '../base/options/limits.ts'
import { oneOf } from '../base/options/option-shapes.ts'
import type { SharedCommits } from './commits/shared-commits.ts'
import type { EngineCounts } from './engine-counts.ts'
import type { OwnerFunctions } from './owner-functions.ts'
import type { DriverConnection } from './sqlite.ts'

/**
 * `full`: a commit is fsynced before its call returns or resolves. `relaxed`: a power loss may drop the newest commits, but
 * never tears one. `remote`: as `full`, and over HTTP and with `cell.commit()` a change is acknowledged once it is in the
 * object store, too.
 */
export type Durability = 'full' | 'relaxed' | 'remote'

export const DURABILITIES = ['full', 'relaxed', 'remote'] as const satisfies readonly Durability[]
export const DURABILITY = oneOf<Durability>(...DURABILITIES)

/** `tenant`: every statement passes the allow-list before it is prepared. `trusted`: only what would break the engine is refused. */
export type SqlPolicy = 'tenant' | 'trusted'

export const SQL_POLICY = oneOf<SqlPolicy>('tenant', 'trusted')

export interface CellDatabaseSettings {
  durability: Durability
  sqlPolicy: SqlPolicy
  limits: Limits
  /** Memory for database pages that a cell may keep, in bytes. */
  pageCacheBytes: number
  /**
   * Where a statement keeps temporary data (sorting, intermediate results, savepoints): in files once the cache is full,
   * or only in memory. See docs/decisions/0009-temporary-data.md.
   */
  temporary?: 'files' | 'memory' | undefined
  /** Checkpoint once the write-ahead log holds this many bytes. */
  checkpointBytes: number
  /**
   * A long log is cut only when {@link CellDatabase.shortenLog} is called. For a worker: the log may tell whether a commit counts, until
   * its node has heard of that.
   */
  leavesLongLogs?: boolean | undefined
  /** What the owner has added to SQL. */
  ownerFunctions?: OwnerFunctions | undefined
  /** No statement attaches a file below it. */
  storeDirectory?: string | undefined
  /** Whose commits are stored together with this cell's, if any are. */
  shared?: { commits: SharedCommits; cellId: string } | undefined
  /** Counts what the cells of a process do together. */
  counts?: EngineCounts | undefined
}

/** The same for every cell: SQLite's default, and that of the image from which new cells are written. */
export const PAGE_BYTES = 4_096

/**
 * Sets the PRAGMAs of a new connection: the file remembers none of them but the journal mode. One call, because each call
 * costs a statement.
 */
export function configure(connection: DriverConnection, settings: CellDatabaseSettings): void {
  const { durability, pageCacheBytes, checkpointBytes, temporary, limits } = settings
  // Before the schema is read: only then does SQLite know which tables belong to an extension's module, and protect them.
  settings.ownerFunctions?.apply(connection)
  // The first page is read with a small cache: SQLite reserves memory for up to 20 pages at once, or for as many as fit.
  // journal_size_limit: a long log that could not be cut at once, since another program read it, is cut when it next begins again.
  connection.exec(`
    PRAGMA cache_size = 4;
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = ${durability === 'relaxed' ? 'NORMAL' : 'FULL'};
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA journal_size_limit = ${checkpointBytes};
    PRAGMA cache_size = -${Math.ceil(pageCacheBytes / 1_024)};
    PRAGMA trusted_schema = OFF;
    PRAGMA temp_store = ${temporary === 'memory' ? 'MEMORY' : 'FILE'};
    PRAGMA max_page_count = ${Math.ceil(limits.cellBytesMax / PAGE_BYTES)};
  `)
}
