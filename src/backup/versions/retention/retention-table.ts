import type { LocalState } from '../../../catalog/local-state.ts'
import type { BackupOrigin } from '../backup-types.ts'
import type { HorizonNotes, KeptHorizons } from './aged-horizon.ts'
import type { Proof } from './retention-notes.ts'

/** What a manifest says that retention needs. Objects never change, so it is read once. */
export interface RememberedFacts {
  version: string
  /** Bytes of the object: another size is another object. */
  sizeBytes: number
  createdAt: number
  /** On the cell's own line of time. */
  at: number
  history: string | null
  origin: BackupOrigin
  /** The version that this one continues; null for a base. */
  previous: string | null
}

const HORIZONS_KEY = 'log_horizons'

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS backup_retention (
    cell_id TEXT PRIMARY KEY,
    stored_at INTEGER,      -- when this machine last stored a backup, or found one at a restore
    pruned_at INTEGER,
    proven_version TEXT,
    proven_at INTEGER
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS backup_versions (
    cell_id TEXT NOT NULL,
    version TEXT NOT NULL,
    size_bytes INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    at INTEGER NOT NULL,    -- the same on the cell's own line of time
    history TEXT,
    origin TEXT NOT NULL,
    previous TEXT,
    PRIMARY KEY (cell_id, version)
  ) STRICT, WITHOUT ROWID;
`

/** A table that an earlier version made lacks some columns. What it has is read again from the object store. */
const LACKS_HISTORY = `
  SELECT 1 WHERE EXISTS (SELECT 1 FROM pragma_table_info('backup_versions'))
    AND NOT EXISTS (SELECT 1 FROM pragma_table_info('backup_versions') WHERE name = 'history')`

export interface StoredCells {
  cells: number
  /** Of the cells' newest backups, in epoch milliseconds. */
  oldestAt: number | null
  newestAt: number | null
}

/** What this machine remembers of stored versions, in the local state. All of it can be read again from the object store. */
export class RetentionTable implements HorizonNotes {
  readonly #state: LocalState

  constructor(state: LocalState) {
    this.#state = state
    if (state.prepare(LACKS_HISTORY).get() !== undefined) state.define('DROP TABLE backup_versions')
    state.define(SCHEMA)
  }

  /** When a backup of the cell was last stored, in epoch milliseconds; undefined if this machine knows of none. */
  storedAt(cellId: string): number | undefined {
    return this.#time('stored_at', cellId)
  }

  /** How many cells this machine knows to be stored, without the catalog, and when the first and the last of them were. */
  storedCells(storeId: string): StoredCells {
    return this.#state
      .prepare(
        'SELECT count(stored_at) AS cells, min(stored_at) AS oldestAt, max(stored_at) AS newestAt FROM backup_retention WHERE cell_id <> ?',
      )
      .get(storeId) as StoredCells
  }

  noteStored(cellId: string, at: number): void {
    this.#note(cellId, { stored_at: at })
  }

  /** When the cell's versions were last looked through, in epoch milliseconds. */
  prunedAt(cellId: string): number | undefined {
    return this.#time('pruned_at', cellId)
  }

  notePruned(cellId: string, at: number): void {
    this.#note(cellId, { pruned_at: at })
  }

  proof(cellId: string): Proof | undefined {
    return this.#state
      .prepare(
        'SELECT proven_version AS version, proven_at AS provenAt FROM backup_retention WHERE cell_id = ? AND proven_at IS NOT NULL',
      )
      .get(cellId) as Proof | undefined
  }

  noteProof(cellId: string, { version, provenAt }: Proof): void {
    this.#note(cellId, { proven_version: version, proven_at: provenAt })
  }

  facts(cellId: string): RememberedFacts[] {
    return this.#state
      .prepare(`SELECT version, size_bytes AS sizeBytes, created_at AS createdAt, at, history, origin, previous
       FROM backup_versions WHERE cell_id = ?`)
      .all(cellId) as RememberedFacts[]
  }

  addFacts(cellId: string, facts: RememberedFacts): void {
    const { version, sizeBytes, createdAt, at, history, origin, previous } = facts
    this.#state
      .prepare('INSERT OR REPLACE INTO backup_versions VALUES (?, ?, ?, ?, ?, ?, ?, ?)')
      .run(cellId, version, sizeBytes, createdAt, at, history, origin, previous)
  }

  removeFacts(cellId: string, version: string): void {
    this.#state.prepare('DELETE FROM backup_versions WHERE cell_id = ? AND version = ?').run(cellId, version)
  }

  horizons(): KeptHorizons | undefined {
    const kept = this.#state.get(HORIZONS_KEY)
    return kept === undefined ? undefined : (JSON.parse(kept) as KeptHorizons)
  }

  noteHorizons(kept: KeptHorizons): void {
    this.#state.set(HORIZONS_KEY, JSON.stringify(kept))
  }

  /** Backups go to another place than before, where nothing is stored yet. */
  setNothingStored(): void {
    this.#state.prepare('DELETE FROM backup_retention').run()
  }

  remove(cellId: string): void {
    for (const table of ['backup_retention', 'backup_versions'])
      this.#state.prepare(`DELETE FROM ${table} WHERE cell_id = ?`).run(cellId)
  }

  #time(column: 'stored_at' | 'pruned_at', cellId: string): number | undefined {
    const find = this.#state.prepare(`SELECT ${column} FROM backup_retention WHERE cell_id = ?`).pluck()
    return (find.get(cellId) as number | null | undefined) ?? undefined
  }

  #note(cellId: string, values: Record<string, string | number>): void {
    const columns = Object.keys(values)
    const set = columns.map((column) => `${column} = excluded.${column}`)
    this.#state
      .prepare(
        `INSERT INTO backup_retention (cell_id, ${columns}) VALUES (?, ${columns.map(() => '?')}) ON CONFLICT DO UPDATE SET ${set}`,
      )
      .run(cellId, ...Object.values(values))
  }
}
