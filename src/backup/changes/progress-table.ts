import type { LocalState } from '../../catalog/local-state.ts'
import type { Statement } from '../../engine/sqlite.ts'
import type { BackupChain } from './backup-chain.ts'
import { type BaseInProgress, isBaseInProgress } from './base-in-progress.ts'
import { type History, isHistory } from './history.ts'

/** Key of the place that this machine's backups last went to. */
const TARGET_KEY = 'backup_target'

/** The state of one cell's backups, as this machine knows it. */
export interface BackupProgress {
  cellId: string
  /** What the next incremental continues; null if a new base is due. */
  chain: BackupChain | null
  /** A base that has begun and is not stored yet. */
  base: BaseInProgress | null
  /** What shipping continues; null if the next version begins a new one. */
  history: History | null
  /** The newest time that a commit or a cut of the cell got, in epoch milliseconds: none that follows gets an earlier one. */
  line: number
  /** The newest version that this machine made, tried to make or has seen. The next one gets a later time. */
  lastVersion: string | null
  /** Changed since the newest backup. */
  dirty: boolean
  /** Changed since the newest snapshot. */
  dirtySinceSnapshot: boolean
  /** Epoch milliseconds; before the first backup, the time of the first change. */
  lastBackupAt: number | null
  lastSnapshotAt: number | null
  /** When the oldest change that no backup holds was made, or a little earlier; null if there is none. */
  changedAt: number | null
  /** Versions hold everything that was committed before it, in epoch milliseconds; null if nothing is stored. */
  storedTo: number | null
}

/** What the row of a cell says about what is in the object store. */
export interface StoredUpTo extends Pick<BackupProgress, 'storedTo'> {
  /** Of the history: see {@link History}. Null if nothing of the cell is shipped. */
  shippedAt: number | null
  shippedSince: number | null
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
    last_snapshot_at INTEGER,
    changed_at INTEGER,
    history TEXT,
    stored_to INTEGER,
    line INTEGER NOT NULL DEFAULT 0
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS backup_foreign (
    cell_id TEXT NOT NULL,
    after TEXT NOT NULL,
    through TEXT NOT NULL,
    PRIMARY KEY (cell_id, after)
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS backup_damaged (
    version TEXT PRIMARY KEY,
    size_bytes INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS backup_progress_due ON backup_progress (cell_id) WHERE dirty OR dirty_since_snapshot;
`

const COLUMN = "SELECT 1 FROM pragma_table_info('backup_progress') WHERE name = ?"
/** Those that a table lacks which an earlier version made. */
const LATER_COLUMNS = [
  'base TEXT',
  'changed_at INTEGER',
  'history TEXT',
  'stored_to INTEGER',
  'line INTEGER NOT NULL DEFAULT 0',
]
/** With a chain, the newest backup is stored. */
const FILL_STORED_TO = 'UPDATE backup_progress SET stored_to = last_backup_at WHERE chain IS NOT NULL'

/** The line of time goes on. */
const WITHOUT_HISTORY = "line = max(line, coalesce(history ->> 'at', 0)), history = NULL"

const NOTHING_STORED = `
  UPDATE backup_progress SET ${WITHOUT_HISTORY}, chain = NULL, base = NULL, stored_to = NULL, dirty = 1, dirty_since_snapshot = 1,
    changed_at = coalesce(changed_at, last_backup_at)`

const END_HISTORIES = `UPDATE backup_progress SET ${WITHOUT_HISTORY}`

const SELECT = `
  SELECT cell_id AS cellId, chain, base, history, line, last_version AS lastVersion, dirty, dirty_since_snapshot AS dirtySinceSnapshot,
    last_backup_at AS lastBackupAt, last_snapshot_at AS lastSnapshotAt, changed_at AS changedAt, stored_to AS storedTo
  FROM backup_progress`

const PUT = `
  INSERT OR REPLACE INTO backup_progress
    (cell_id, chain, base, history, line, last_version, dirty, dirty_since_snapshot, last_backup_at, last_snapshot_at, changed_at,
      stored_to)
  VALUES
    (@cellId, @chain, @base, @history, @line, @lastVersion, @dirty, @dirtySinceSnapshot, @lastBackupAt, @lastSnapshotAt, @changedAt,
      @storedTo)`

const STORED_UP_TO = `
  SELECT stored_to AS storedTo,
    CASE WHEN history ->> 'isStored' THEN history ->> 'shippedAt' END AS shippedAt,
    CASE WHEN history ->> 'isStored' THEN coalesce(history ->> 'shippedSince', 0) END AS shippedSince
  FROM backup_progress WHERE cell_id = ?`

/** Only the columns that a change sets: a worker may have saved the others since they were read. */
const MARK_CHANGED = `
  INSERT INTO backup_progress (cell_id, dirty, dirty_since_snapshot, last_backup_at, last_snapshot_at, changed_at)
  VALUES (@cellId, 1, 1, @now, @now, @now)
  ON CONFLICT (cell_id) DO UPDATE SET dirty = 1, dirty_since_snapshot = 1,
    last_backup_at = coalesce(last_backup_at, @now), last_snapshot_at = coalesce(last_snapshot_at, @now),
    changed_at = coalesce(changed_at, @now)`

/** Without its own time, a change is younger than the backup before it. */
const LAG = `
  SELECT count(*) AS changed, min(coalesce(changed_at, last_backup_at)) AS oldestChangeAt
  FROM backup_progress WHERE dirty AND cell_id <> ?`

/** How far backups are behind. */
export interface BackupLag {
  /** Cells that have changed since their newest backup. */
  changed: number
  /** When the oldest change that no backup holds was made, in epoch milliseconds; null if there is none. */
  oldestChangeAt: number | null
}

type Row = Omit<BackupProgress, 'chain' | 'base' | 'history' | 'dirty' | 'dirtySinceSnapshot'> & {
  chain: string | null
  base: string | null
  history: string | null
  dirty: number
  dirtySinceSnapshot: number
}

/** Versions that another state of this store made: those after one version, up to another. */
export interface ForeignVersions {
  after: string
  through: string
}

/** The table of {@link BackupProgress} rows in the local state. */
export class BackupProgressTable {
  readonly #state: LocalState
  readonly #find: Statement
  readonly #put: Statement
  readonly #markChanged: Statement
  readonly #remove: Statement
  readonly #due: Statement
  readonly #withHistory: Statement
  readonly #changedWithoutHistory: Statement
  readonly #putForeign: Statement
  readonly #putDamaged: Statement
  readonly #findDamaged: Statement
  readonly #removeDamaged: Statement
  readonly #findForeign: Statement
  readonly #removeForeign: Statement
  readonly #lag: Statement
  readonly #storedUpTo: Statement

  constructor(state: LocalState) {
    this.#state = state
    state.define(SCHEMA)
    for (const column of LATER_COLUMNS) {
      const [name] = column.split(' ')
      if (state.prepare(COLUMN).get(name) !== undefined) continue
      state.define(`ALTER TABLE backup_progress ADD COLUMN ${column}`)
      if (name === 'stored_to') state.define(FILL_STORED_TO)
    }
    this.#find = state.prepare(`${SELECT} WHERE cell_id = ?`)
    this.#put = state.prepare(PUT)
    this.#markChanged = state.prepare(MARK_CHANGED)
    this.#remove = state.prepare('DELETE FROM backup_progress WHERE cell_id = ?')
    this.#putForeign = state.prepare('INSERT OR REPLACE INTO backup_foreign VALUES (?, ?, ?)')
    this.#findForeign = state.prepare('SELECT after, through FROM backup_foreign WHERE cell_id = ?')
    this.#removeForeign = state.prepare('DELETE FROM backup_foreign WHERE cell_id = ?')
    this.#putDamaged = state.prepare('INSERT OR REPLACE INTO backup_damaged VALUES (?, ?)')
    this.#findDamaged = state.prepare('SELECT size_bytes FROM backup_damaged WHERE version = ?').pluck()
    this.#removeDamaged = state.prepare('DELETE FROM backup_damaged WHERE version = ?')
    this.#lag = state.prepare(LAG)
    this.#storedUpTo = state.prepare(STORED_UP_TO)
    this.#withHistory = state.prepare(
      `${SELECT} WHERE history IS NOT NULL AND cell_id > ? ORDER BY cell_id LIMIT ?`,
    )
    this.#changedWithoutHistory = state
      .prepare('SELECT cell_id FROM backup_progress WHERE history IS NULL AND dirty')
      .pluck()
    this.#due = state.prepare(`${SELECT} WHERE (dirty OR dirty_since_snapshot)`)
  }

  find(cellId: string): BackupProgress {
    const row = this.#find.get(cellId) as Row | undefined
    return row === undefined ? untouched(cellId) : fromRow(row)
  }

  save(progress: BackupProgress): void {
    const { chain, base, history, dirty, dirtySinceSnapshot } = progress
    const row: Row = {
      ...progress,
      chain: chain && JSON.stringify(chain),
      base: base && JSON.stringify(base),
      history: history && JSON.stringify(history),
      dirty: Number(dirty),
      dirtySinceSnapshot: Number(dirtySinceSnapshot),
    }
    this.#put.run(row)
  }

  /** Saves several rows with one commit. */
  together(saves: () => void): void {
    this.#state.together(saves)
  }

  /** What was saved so far survives a power loss from here on. */
  sync(): void {
    this.#state.sync()
  }

  /** {@link sync} in the thread pool. */
  async syncInPool(): Promise<void> {
    await this.#state.syncInPool()
  }

  /** Marks a cell as changed, whoever has saved its row last. @param now epoch milliseconds */
  markChanged(cellId: string, now: number): void {
    this.#markChanged.run({ cellId, now })
  }

  /** Marks a new cell that has content: its first backup is due at once. @param now epoch milliseconds */
  markUnstored(cellId: string, now: number): void {
    const changed = { dirty: true, dirtySinceSnapshot: true, changedAt: now }
    this.save({ ...untouched(cellId), ...changed, lastBackupAt: 0, lastSnapshotAt: 0 })
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
    const before = this.#state.get(TARGET_KEY)
    if (before === target) return false
    if (before === undefined) {
      // A new machine: what it knows already, it knows from restores from this place.
      this.#state.set(TARGET_KEY, target)
      return false
    }
    this.#state.define(NOTHING_STORED)
    this.#state.define('UPDATE backup_progress SET last_version = NULL')
    this.#state.set(TARGET_KEY, target)
    return true
  }

  /**
   * Every cell counts as changed, and no chain and no history continues. Versions that others have made are found by their
   * times, as later ones than those that are known here. On disk when it returns.
   */
  markNothingStored(): void {
    this.#state.durably(() => this.#state.define(NOTHING_STORED))
  }

  /** No history continues. The lines of time of the cells go on. On disk when it returns. */
  endHistories(): void {
    this.#state.durably(() => this.#state.define(END_HISTORIES))
  }

  /** Notes versions that this directory's state never made: retention leaves them to a person. */
  addForeign(cellId: string, { after, through }: ForeignVersions): void {
    this.#putForeign.run(cellId, after, through)
  }

  /** Call when nothing of the cell is stored any more. A deleted cell's versions stay, and so does this note. */
  removeForeign(cellId: string): void {
    this.#removeForeign.run(cellId)
  }

  /** Notes a version that a restore has proven damaged. */
  addDamaged(version: string, sizeBytes: number): void {
    this.#putDamaged.run(version, sizeBytes)
  }

  /** The size of the damaged object; another size is another object. */
  damagedSize(version: string): number | undefined {
    return this.#findDamaged.get(version) as number | undefined
  }

  removeDamaged(version: string): void {
    this.#removeDamaged.run(version)
  }

  foreign(cellId: string): ForeignVersions[] {
    return this.#findForeign.all(cellId) as ForeignVersions[]
  }

  /** The cells that have changed since their newest backup, without the catalog. */
  lag(storeId: string): BackupLag {
    return this.#lag.get(storeId) as BackupLag
  }

  /** Without reading all of the row. */
  storedUpTo(cellId: string): StoredUpTo {
    const row = this.#storedUpTo.get(cellId) as StoredUpTo | undefined
    return row ?? { storedTo: null, shippedAt: null, shippedSince: null }
  }

  /** The cells that have changed and have no history: what they committed is stored with their next version. */
  changedWithoutHistory(): string[] {
    return this.#changedWithoutHistory.all() as string[]
  }

  /** Some of the cells that have a history. @param after the last id of the page before */
  withHistory(after: string, limit: number): BackupProgress[] {
    return (this.#withHistory.all(after, limit) as Row[]).map(fromRow)
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
    history: null,
    line: 0,
    lastVersion: null,
    dirty: false,
    dirtySinceSnapshot: false,
    lastBackupAt: null,
    lastSnapshotAt: null,
    changedAt: null,
    storedTo: null,
  }
}

function fromRow(row: Row): BackupProgress {
  return {
    ...row,
    chain: parse(row.chain, isChain),
    base: parse(row.base, isBaseInProgress),
    history: parse(row.history, isHistory),
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
