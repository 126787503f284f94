import type { LocalState } from '../../catalog/local-state.ts'
import type { Statement } from '../../engine/sqlite.ts'
import type { BackupChain } from './backup-chain.ts'
import { type BaseInProgress, isBaseInProgress } from './base-in-progress.ts'

/** Key of the place that this machine's backups last went to. */
const TARGET_KEY = 'backup_target'

/** The state of one cell's backups, as this machine knows it. */
export interface BackupProgress {
  cellId: string
  /** What the next incremental continues; null if a new base is due. */
  chain: BackupChain | null
  /** A base that has begun and is not stored yet. */
  base: BaseInProgress | null
  /** The newest version that this machine made, tried to make or has seen. The next one gets a later time. */
  lastVersion: string | null
  /** Changed since the newest backup. */
  dirty: boolean
  /** Changed since the newest snapshot. */
  dirtySinceSnapshot: boolean
  /** Epoch milliseconds; before the first backup, the time of the first change. */
  lastBackupAt: number | null
  lastSnapshotAt: number | null
}

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS backup_progress (
    cell_id TEXT PRIMARY KEY,
    chain TEXT,
    base TEXT,
    last_version TEXT,
    dirty INTEGER NOT NULL,
    dirty_since_snapshot INTEGER NOT NULL,
    last_backup_at INTEGER,
    last_snapshot_at INTEGER
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS backup_progress_due ON backup_progress (cell_id) WHERE dirty OR dirty_since_snapshot;
`

const BASE_COLUMN = "SELECT 1 FROM pragma_table_info('backup_progress') WHERE name = 'base'"

const SELECT = `
  SELECT cell_id AS cellId, chain, base, last_version AS lastVersion, dirty, dirty_since_snapshot AS dirtySinceSnapshot,
    last_backup_at AS lastBackupAt, last_snapshot_at AS lastSnapshotAt
  FROM backup_progress`

const PUT = `
  INSERT OR REPLACE INTO backup_progress
    (cell_id, chain, base, last_version, dirty, dirty_since_snapshot, last_backup_at, last_snapshot_at)
  VALUES (@cellId, @chain, @base, @lastVersion, @dirty, @dirtySinceSnapshot, @lastBackupAt, @lastSnapshotAt)`

type Row = Omit<BackupProgress, 'chain' | 'base' | 'dirty' | 'dirtySinceSnapshot'> & {
  chain: string | null
  base: string | null
  dirty: number
  dirtySinceSnapshot: number
}

/** The table of {@link BackupProgress} rows in the local state. */
export class BackupProgressTable {
  readonly #state: LocalState
  readonly #find: Statement
  readonly #put: Statement
  readonly #remove: Statement
  readonly #due: Statement

  constructor(state: LocalState) {
    this.#state = state
    state.define(SCHEMA)
    // A table that was made before bases were kept here.
    if (state.prepare(BASE_COLUMN).get() === undefined)
      state.define('ALTER TABLE backup_progress ADD COLUMN base TEXT')
    this.#find = state.prepare(`${SELECT} WHERE cell_id = ?`)
    this.#put = state.prepare(PUT)
    this.#remove = state.prepare('DELETE FROM backup_progress WHERE cell_id = ?')
    this.#due = state.prepare(`${SELECT} WHERE (dirty OR dirty_since_snapshot)`)
  }

  find(cellId: string): BackupProgress {
    const row = this.#find.get(cellId) as Row | undefined
    return row === undefined ? untouched(cellId) : fromRow(row)
  }

  save(progress: BackupProgress): void {
    const { chain, base, dirty, dirtySinceSnapshot } = progress
    const row: Row = {
      ...progress,
      chain: chain && JSON.stringify(chain),
      base: base && JSON.stringify(base),
      dirty: Number(dirty),
      dirtySinceSnapshot: Number(dirtySinceSnapshot),
    }
    this.#put.run(row)
  }

  remove(cellId: string): void {
    this.#remove.run(cellId)
  }

  /**
   * Notes where backups go. In a new place nothing is stored yet: every cell counts as changed, and no chain continues.
   *
   * @returns true if the place differs from the last one
   */
  setTarget(target: string): boolean {
    if (this.#state.get(TARGET_KEY) === target) return false
    this.#state.define(
      'UPDATE backup_progress SET chain = NULL, base = NULL, last_version = NULL, dirty = 1, dirty_since_snapshot = 1',
    )
    this.#state.set(TARGET_KEY, target)
    return true
  }

  /** All cells that have changed since their newest backup or snapshot. */
  changed(): BackupProgress[] {
    return (this.#due.all() as Row[]).map(fromRow)
  }
}

function untouched(cellId: string): BackupProgress {
  return {
    cellId,
    chain: null,
    base: null,
    lastVersion: null,
    dirty: false,
    dirtySinceSnapshot: false,
    lastBackupAt: null,
    lastSnapshotAt: null,
  }
}

function fromRow(row: Row): BackupProgress {
  return {
    ...row,
    chain: parse(row.chain, isChain),
    base: parse(row.base, isBaseInProgress),
    dirty: row.dirty !== 0,
    dirtySinceSnapshot: row.dirtySinceSnapshot !== 0,
  }
}

/** What this version cannot read does not exist: the next backup is a base. */
function parse<T>(json: string | null, isValid: (value: T) => boolean): T | null {
  if (json === null) return null
  try {
    const value = JSON.parse(json) as T
    return isValid(value) ? value : null
  } catch {
    return null
  }
}

function isChain({ versions, walBytes, through, newest, database }: BackupChain): boolean {
  const isList = Array.isArray(versions) && versions.length > 0
  const numbers = [walBytes, through, newest]
  return (
    isList &&
    versions.every((version) => typeof version === 'string') &&
    numbers.every((each) => Number.isSafeInteger(each) && each >= 0) &&
    typeof database?.size === 'number'
  )
}
