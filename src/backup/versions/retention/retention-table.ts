import type { LocalState } from '../../../catalog/local-state.ts'
import type { Statement } from '../../../engine/sqlite.ts'
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
  readonly #storedAt: Statement
  readonly #storedCells: Statement
  readonly #noteStored: Statement
  readonly #prunedAt: Statement
  readonly #notePruned: Statement
  readonly #proof: Statement
  readonly #noteProof: Statement
  readonly #facts: Statement
  readonly #addFacts: Statement
  readonly #removeFacts: Statement
  readonly #nothingStored: Statement
  readonly #removals: readonly Statement[]

  constructor(state: LocalState) {
    this.#state = state
    if (state.prepare(LACKS_HISTORY).get() !== undefined) state.define('DROP TABLE backup_versions')
    state.define(SCHEMA)
    const upsert = (columns: string, values: string, set: string) =>
      state.prepare(
        `INSERT INTO backup_retention (cell_id, ${columns}) VALUES (?, ${values}) ON CONFLICT DO UPDATE SET ${set}`,
      )
    this.#storedAt = state.prepare('SELECT stored_at FROM backup_retention WHERE cell_id = ?').pluck()
    this.#storedCells = state.prepare(
      'SELECT count(stored_at) AS cells, min(stored_at) AS oldestAt, max(stored_at) AS newestAt FROM backup_retention WHERE cell_id <> ?',
    )
    this.#noteStored = upsert('stored_at', '?', 'stored_at = excluded.stored_at')
    this.#prunedAt = state.prepare('SELECT pruned_at FROM backup_retention WHERE cell_id = ?').pluck()
    this.#notePruned = upsert('pruned_at', '?', 'pruned_at = excluded.pruned_at')
    this.#proof = state.prepare(
      'SELECT proven_version AS version, proven_at AS provenAt FROM backup_retention WHERE cell_id = ? AND proven_at IS NOT NULL',
    )
    this.#noteProof = upsert(
      'proven_version, proven_at',
      '?, ?',
      'proven_version = excluded.proven_version, proven_at = excluded.proven_at',
    )
    this.#facts = state.prepare(
      `SELECT version, size_bytes AS sizeBytes, created_at AS createdAt, at, history, origin, previous
       FROM backup_versions WHERE cell_id = ?`,
    )
    this.#addFacts = state.prepare('INSERT OR REPLACE INTO backup_versions VALUES (?, ?, ?, ?, ?, ?, ?, ?)')
    this.#removeFacts = state.prepare('DELETE FROM backup_versions WHERE cell_id = ? AND version = ?')
    this.#nothingStored = state.prepare('DELETE FROM backup_retention')
    this.#removals = ['backup_retention', 'backup_versions'].map((table) =>
      state.prepare(`DELETE FROM ${table} WHERE cell_id = ?`),
    )
  }

  /** When a backup of the cell was last stored, in epoch milliseconds; undefined if this machine knows of none. */
  storedAt(cellId: string): number | undefined {
    return (this.#storedAt.get(cellId) as number | null | undefined) ?? undefined
  }

  /** How many cells this machine knows to be stored, without the catalog, and when the first and the last of them were. */
  storedCells(storeId: string): StoredCells {
    return this.#storedCells.get(storeId) as StoredCells
  }

  noteStored(cellId: string, at: number): void {
    this.#noteStored.run(cellId, at)
  }

  /** When the cell's versions were last looked through, in epoch milliseconds. */
  prunedAt(cellId: string): number | undefined {
    return (this.#prunedAt.get(cellId) as number | null | undefined) ?? undefined
  }

  notePruned(cellId: string, at: number): void {
    this.#notePruned.run(cellId, at)
  }

  proof(cellId: string): Proof | undefined {
    return this.#proof.get(cellId) as Proof | undefined
  }

  noteProof(cellId: string, { version, provenAt }: Proof): void {
    this.#noteProof.run(cellId, version, provenAt)
  }

  facts(cellId: string): RememberedFacts[] {
    return this.#facts.all(cellId) as RememberedFacts[]
  }

  addFacts(cellId: string, facts: RememberedFacts): void {
    const { version, sizeBytes, createdAt, at, history, origin, previous } = facts
    this.#addFacts.run(cellId, version, sizeBytes, createdAt, at, history, origin, previous)
  }

  removeFacts(cellId: string, version: string): void {
    this.#removeFacts.run(cellId, version)
  }

  horizons(): KeptHorizons | undefined {
    const kept = this.#state.get(HORIZONS_KEY)
    return kept === undefined ? undefined : (JSON.parse(kept) as KeptHorizons)
  }

  noteHorizons(kept: KeptHorizons): void {
    this.#state.set(HORIZONS_KEY, JSON.stringify(kept))
  }

  /** Backups go to another place than before, where nothing is stored yet. */
  markNothingStored(): void {
    this.#nothingStored.run()
  }

  remove(cellId: string): void {
    for (const removal of this.#removals) removal.run(cellId)
  }
}
