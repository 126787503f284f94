import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { LocalState } from '../../catalog/local-state.ts'
import type { Statement } from '../../engine/sqlite.ts'
import { type BackupProgress, fromRow, type ProgressRow, toRow, untouched } from './backup-progress.ts'
import type { History } from './history.ts'

/** Key of the place that this machine's backups last went to. */
const TARGET_KEY = 'backup_target'

/** What the row of a cell says about what is in the object store. */
export interface StoredUpTo extends Pick<BackupProgress, 'storedTo'> {
  /** Of the history: see `History`. Null if nothing of the cell is shipped. */
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
    line INTEGER NOT NULL DEFAULT 0,
    repeats TEXT
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS backup_progress_due ON backup_progress (cell_id) WHERE dirty OR dirty_since_snapshot;
`

/** With each look at what is not shipped they are asked for: with 10,000 changed cells, 5 ms of the node without an index. */
const CHANGED_WITHOUT_HISTORY = "dirty AND NOT coalesce(history ->> 'isStored', 0)"
const LATER_INDEX = `
  CREATE INDEX IF NOT EXISTS backup_progress_without_history ON backup_progress (cell_id) WHERE ${CHANGED_WITHOUT_HISTORY};
`

const COLUMN = "SELECT 1 FROM pragma_table_info('backup_progress') WHERE name = ?"
/** Those that a table lacks which an earlier version made. */
const LATER_COLUMNS = [
  'base TEXT',
  'changed_at INTEGER',
  'history TEXT',
  'stored_to INTEGER',
  'line INTEGER NOT NULL DEFAULT 0',
  'repeats TEXT',
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
    last_backup_at AS lastBackupAt, last_snapshot_at AS lastSnapshotAt, changed_at AS changedAt, stored_to AS storedTo, repeats
  FROM backup_progress`

const PUT = `
  INSERT OR REPLACE INTO backup_progress
    (cell_id, chain, base, history, line, last_version, dirty, dirty_since_snapshot, last_backup_at, last_snapshot_at, changed_at,
      stored_to, repeats)
  VALUES
    (@cellId, @chain, @base, @history, @line, @lastVersion, @dirty, @dirtySinceSnapshot, @lastBackupAt, @lastSnapshotAt, @changedAt,
      @storedTo, @repeats)`

const STORED_UP_TO = `
  SELECT stored_to AS storedTo,
    CASE WHEN history ->> 'isStored' THEN history ->> 'shippedAt' END AS shippedAt,
    CASE WHEN history ->> 'isStored' THEN coalesce(history ->> 'shippedSince', 0) END AS shippedSince
  FROM backup_progress WHERE cell_id = ?`

/**
 * Only the columns that a change sets: a worker may have saved the others since they were read. The history is that of a cell that
 * nothing is known of but that it was made, or also imported.
 */
const MARK_CHANGED = `
  INSERT INTO backup_progress (cell_id, dirty, dirty_since_snapshot, last_backup_at, last_snapshot_at, changed_at, history)
  VALUES (@cellId, 1, 1, @now, @now, @now, @history)
  ON CONFLICT (cell_id) DO UPDATE SET dirty = 1, dirty_since_snapshot = 1,
    last_backup_at = coalesce(last_backup_at, @now), last_snapshot_at = coalesce(last_snapshot_at, @now),
    changed_at = coalesce(changed_at, @now),
    history = CASE WHEN last_version IS NULL THEN coalesce(history, @history) ELSE history END`

/** Without its own time, a change is younger than the backup before it. */
const LAG = `
  SELECT count(*) AS changed, min(coalesce(changed_at, last_backup_at)) AS oldestChangeAt
  FROM backup_progress WHERE dirty AND cell_id <> ?`

/** How far backups are behind. */
interface BackupLag {
  /** Cells that have changed since their newest backup. */
  changed: number
  /** When the oldest change that no backup holds was made, in epoch milliseconds; null if there is none. */
  oldestChangeAt: number | null
}

/** A cell that has changed since its newest backup. */
export interface ChangedCell {
  cellId: string
  /** Of the first change, or before it; null if not known. Epoch milliseconds. */
  changedAt: number | null
}

/** The table of {@link BackupProgress} rows in the local state. */
export class BackupProgressTable {
  readonly #state: LocalState
  readonly #put: Statement
  /** While rows are saved together: by their cells. */
  #held: Map<string, ProgressRow> | undefined

  constructor(state: LocalState) {
    this.#state = state
    state.define(SCHEMA)
    for (const column of LATER_COLUMNS) {
      const [name] = column.split(' ')
      if (state.prepare(COLUMN).get(name) !== undefined) continue
      state.define(`ALTER TABLE backup_progress ADD COLUMN ${column}`)
      if (name === 'stored_to') state.define(FILL_STORED_TO)
    }
    state.define(LATER_INDEX)
    this.#put = state.prepare(PUT)
  }

  find(cellId: string): BackupProgress {
    const row =
      this.#held?.get(cellId) ??
      (this.#state.prepare(`${SELECT} WHERE cell_id = ?`).get(cellId) as ProgressRow | undefined)
    return row === undefined ? untouched(cellId) : fromRow(row)
  }

  save(progress: BackupProgress): void {
    if (this.#held !== undefined) this.#held.set(progress.cellId, toRow(progress))
    else this.#put.run(toRow(progress))
  }

  /**
   * Saves the rows of several cells with one commit, after all of the steps: the lock on the file is not held meanwhile. Other processes
   * that wait for it wait longer each time (SQLite's busy handler sleeps for up to 100 ms), and their cells with them.
   *
   * @param steps may throw; what they have saved before that is kept
   */
  together(steps: () => void): void {
    const held = new Map<string, ProgressRow>()
    this.#held = held
    try {
      steps()
    } finally {
      this.#held = undefined
      this.#state.together(() => {
        for (const row of held.values()) this.#tryToPut(row)
      })
    }
  }

  /** As a tracker's save: a row that can't be saved is as old as what a power loss leaves. */
  #tryToPut(row: ProgressRow): void {
    try {
      this.#put.run(row)
    } catch {
      // The next save writes the whole row.
    }
  }

  /** What was saved so far survives a power loss from here on. */
  sync(): void {
    this.#state.sync()
  }

  /** {@link sync} in the thread pool. */
  async syncInPool(): Promise<void> {
    await this.#state.syncInPool()
  }

  /** Sets a cell as changed, whoever has saved its row last. @param now epoch milliseconds */
  setChanged(cellId: string, now: number): void {
    this.setMade(cellId, now, undefined)
  }

  /** A new cell: it counts as changed, and its history begins with its creation. @param history undefined: it is not shipped */
  setMade(cellId: string, now: number, history: History | undefined): void {
    const json = history === undefined ? null : JSON.stringify(history)
    this.#state.prepare(MARK_CHANGED).run({ cellId, now, history: json })
  }

  /** Notes a new cell that has content: its first backup is due at once. @param now epoch milliseconds */
  setUnstored(cellId: string, now: number): void {
    const changed = { dirty: true, dirtySinceSnapshot: true, changedAt: now }
    this.save({ ...untouched(cellId), ...changed, lastBackupAt: 0, lastSnapshotAt: 0 })
  }

  remove(cellId: string): void {
    this.#state.prepare('DELETE FROM backup_progress WHERE cell_id = ?').run(cellId)
  }

  /** Forgets new cells whose creation a crash has cut off: their changes would seem to wait for a backup for ever. */
  removeUnmade(isKnown: (cellId: string) => boolean): void {
    const ids = this.#state
      .prepare(
        'SELECT cell_id FROM backup_progress WHERE (dirty OR dirty_since_snapshot) AND last_version IS NULL',
      )
      .pluck()
      .all() as string[]
    for (const cellId of ids) if (!isKnown(cellId)) this.remove(cellId)
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
  setNothingStored(): void {
    this.#state.durably(() => this.#state.define(NOTHING_STORED))
  }

  /** No history continues. The lines of time of the cells go on. On disk when it returns. */
  endHistories(): void {
    this.#state.durably(() => this.#state.define(END_HISTORIES))
  }

  /** The cells that have changed since their newest backup, without the catalog. */
  lag(storeId: string): BackupLag {
    return this.#state.prepare(LAG).get(storeId) as BackupLag
  }

  /** Without reading all of the row. */
  storedUpTo(cellId: string): StoredUpTo {
    const row = this.#state.prepare(STORED_UP_TO).get(cellId) as StoredUpTo | undefined
    return row ?? { storedTo: null, shippedAt: null, shippedSince: null }
  }

  /** The cells that have changed and have no history: what they committed is stored with their next version. */
  changedWithoutHistory(): ChangedCell[] {
    return this.#state
      .prepare(
        `SELECT cell_id AS cellId, coalesce(changed_at, last_backup_at) AS changedAt
        FROM backup_progress WHERE ${CHANGED_WITHOUT_HISTORY}`,
      )
      .all() as ChangedCell[]
  }

  /** Some of the cells that have a history. @param after the last id of the page before */
  withHistory(after: string, limit: number): BackupProgress[] {
    return (
      this.#state
        .prepare(`${SELECT} WHERE history ->> 'isStored' AND cell_id > ? ORDER BY cell_id LIMIT ?`)
        .all(after, limit) as ProgressRow[]
    ).map(fromRow)
  }

  /** All cells that have changed since their newest backup or snapshot. */
  changed(): BackupProgress[] {
    return (
      this.#state.prepare(`${SELECT} WHERE (dirty OR dirty_since_snapshot)`).all() as ProgressRow[]
    ).map(fromRow)
  }
}

/** The cells that have changed since their newest backup, for the schedule. */
export class ChangedCells {
  readonly #progress: BackupProgressTable
  readonly #record: (cellId: string) => CellRecord | undefined

  /** @param record undefined for the catalog, which has its own schedule */
  constructor(progress: BackupProgressTable, record: (cellId: string) => CellRecord | undefined) {
    this.#progress = progress
    this.#record = record
  }

  all(): BackupProgress[] {
    return this.#progress.changed().filter(({ cellId }) => this.#exists(cellId))
  }

  /** @returns also of an unchanged cell; undefined if it is deleted */
  find(cellId: string): BackupProgress | undefined {
    return this.#exists(cellId) ? this.#progress.find(cellId) : undefined
  }

  /** Whose turn its backup takes; empty for the owner's. */
  accountOf(cellId: string): string {
    return this.#record(cellId)?.accountId ?? ''
  }

  #exists(cellId: string): boolean {
    return this.#record(cellId)?.deletedAt === null
  }
}
