import { unlessAborted } from '../../base/async/unless-aborted.ts'
import type { Clock } from '../../base/clock.ts'
import type { Tenure } from '../../catalog/assignment/assignment.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import { CellError } from '../../errors.ts'
import type { ManifestHead } from '../archive/manifest.ts'
import type { CutCall, KnownVersions } from '../changes/log/cell-cutter.ts'
import type { RestoredNames } from '../restore/install/cell-installer.ts'
import type { LogPort } from '../shipping/log-port.ts'
import type { RestoreResult } from '../versions/backup-types.ts'
import type { Stamps } from '../versions/stamps.ts'

/** A cell at the start of its backup. */
export interface BackupStart extends KnownVersions {
  record: CellRecord
  /** Bytes of the database file and its log. */
  sizeBytes: number
  /** Undefined without a cluster. */
  stamps?: Stamps | undefined
}

/** What the node knows of a cell at a moment. */
export interface KnownCell {
  /** Its record in the catalog, also of a deleted cell; undefined for an unknown id. */
  record: CellRecord | undefined
  /** Its database file is on this machine. */
  isLocal: boolean
  /** Undefined without a cluster, as are the stamps. */
  tenures?: Tenure[] | undefined
}

/** A cell at the start of its restore. */
export interface RestoreStart extends KnownCell {
  /** The newest version that this machine knows, stored or only tried. */
  last: string | null
  stamps?: Stamps | undefined
}

/** A restored database that is proven, in `incoming.db`. */
export interface RestoredCell extends RestoredNames {
  manifest: ManifestHead
  /** The cell existed in the catalog when its restore began. */
  existed: boolean
  /** The answer of the restore. From the switch on it stands, also if the archiver ends before it can give it. */
  result: RestoreResult
}

/**
 * What the archiver asks of the process that has a cell. Plain data in and out: in the library these are calls, and in a
 * node they are messages to the cell's worker. A worker may end between any two of them, or during one, which is then
 * repeated in the next worker.
 */
export interface CellPort extends LogPort {
  /** @throws `cell_not_found` */
  beginBackup(cellId: string): Promise<BackupStart>
  /** A step of the cell's backup, after its begin: one of `CellCutter`. */
  cut(cellId: string, call: CutCall): Promise<unknown>

  /** A restore builds `incoming.db` from here on: every process that opens the cell leaves that file alone. */
  beginRestore(cellId: string): Promise<RestoreStart>
  /** The restored database is proven, and the cell unchanged. @throws what the restore is refused with for its size */
  checkBuilt(cellId: string, bytes: number): Promise<void>
  /**
   * A mark will say that the cell is restored: the cell counts as changed, and the time of the mark's name is used up.
   *
   * @param existed the cell existed in the catalog when its restore began
   * @throws `cell_not_found` if the cell was deleted since
   */
  noteMark(cellId: string, name: string, existed: boolean): Promise<void>
  /**
   * Closes the cell, switches to `incoming.db`, and records the cell in the catalog. If it throws, the switch is either
   * decided, or will never happen.
   *
   * @throws `cell_not_found` if the cell was deleted since the restore began
   */
  install(cellId: string, restored: RestoredCell): Promise<void>
  /** The restore has ended, well or badly. */
  endRestore(cellId: string): Promise<void>

  /** What the node knows of the cell now. */
  findCell(cellId: string): Promise<KnownCell>
  /**
   * Whether the cell was deleted, although the catalog may have forgotten it since. False if nobody can tell: then it may be a cell
   * that the catalog has never heard of.
   *
   * @param committedAt when the cell has committed something, in epoch milliseconds
   */
  isDeleted(cellId: string, committedAt: number): Promise<boolean>
  /** Prefixes of nodes that are gone and whose logs are this node's to remove: see `logsLeftTo`. Empty without a cluster. */
  logsLeft(): Promise<string[]>
}

/** A cell in the slow worker waits behind the statements of others: for longer, a job gives its slot up. */
const CELL_WAIT_MS = 60_000
const RETRY_MS = 5_000

/**
 * Waits for the first call of a job to its cell, which holds a slot of the queue meanwhile. The call is not taken back, so only one
 * that can be repeated may be waited for like this.
 *
 * @throws `busy` after a minute; the signal's reason
 */
export async function cellTurn<T>(call: Promise<T>, clock: Clock, signal: AbortSignal): Promise<T> {
  const overdue = new AbortController()
  const timer = clock.setTimer(() => overdue.abort(tookTooLong()), CELL_WAIT_MS)
  try {
    return await unlessAborted(call, AbortSignal.any([signal, overdue.signal]))
  } finally {
    timer.cancel()
  }
}

function tookTooLong(): CellError {
  return new CellError(
    'busy',
    `The cell was too busy for ${CELL_WAIT_MS} ms to begin a backup or a restore. Try again later.`,
    { retryAfterMs: RETRY_MS },
  )
}
