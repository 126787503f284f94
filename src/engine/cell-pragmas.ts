import { type CellDatabaseSettings, PAGE_BYTES } from './cell-settings.ts'
import type { Connection } from './sqlite.ts'

/** Set at every open: none of these is kept in the file, save for the journal mode. One call: each costs a statement. */
export function configure(connection: Connection, settings: CellDatabaseSettings): void {
  const { durability, pageCacheBytes, checkpointBytes, temporary, limits } = settings
  // The first page is read with a small cache: SQLite reserves memory for up to 20 pages at once, or for as many as fit.
  // A log that one huge transaction has made long is cut, by journal_size_limit, when it is next begun anew.
  connection.exec(`
    PRAGMA cache_size = 4;
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = ${durability === 'full' ? 'FULL' : 'NORMAL'};
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA journal_size_limit = ${checkpointBytes};
    PRAGMA cache_size = -${Math.ceil(pageCacheBytes / 1_024)};
    PRAGMA trusted_schema = OFF;
    PRAGMA temp_store = ${temporary === 'memory' ? 'MEMORY' : 'FILE'};
    PRAGMA max_page_count = ${Math.ceil(limits.cellBytesMax / PAGE_BYTES)};
  `)
}
