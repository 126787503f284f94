import { type BackupChain, isBackupChain } from './backup-chain.ts'
import { type BaseInProgress, isBaseInProgress } from './base-in-progress.ts'
import { type History, isHistory } from './history.ts'

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
  /** The version that the cell was restored to, while nothing has changed since. */
  repeats: string | null
}

/** As the table has it. */
export type ProgressRow = Omit<
  BackupProgress,
  'chain' | 'base' | 'history' | 'dirty' | 'dirtySinceSnapshot'
> & {
  chain: string | null
  base: string | null
  history: string | null
  dirty: number
  dirtySinceSnapshot: number
}

/** Of a cell that this machine knows nothing of. */
export function untouched(cellId: string): BackupProgress {
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
    repeats: null,
  }
}

export function toRow(progress: BackupProgress): ProgressRow {
  const { chain, base, history, dirty, dirtySinceSnapshot } = progress
  return {
    ...progress,
    chain: chain && JSON.stringify(chain),
    base: base && JSON.stringify(base),
    history: history && JSON.stringify(history),
    dirty: Number(dirty),
    dirtySinceSnapshot: Number(dirtySinceSnapshot),
  }
}

export function fromRow(row: ProgressRow): BackupProgress {
  return {
    ...row,
    chain: parse(row.chain, isBackupChain),
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
