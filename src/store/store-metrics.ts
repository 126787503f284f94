import type { ArchiverLoad } from '../backup/archiver/job.ts'
import type { BackupManager } from '../backup/backup-manager.ts'
import type { BackupCounts } from '../backup/backup-reports.ts'
import type { CallCounts } from '../backup/object-store/object-store-calls.ts'
import type { RecoveryProgress } from '../backup/recovery/background-recovery.ts'
import type { ShippingStatus } from '../backup/shipping/shipping-status.ts'
import type { StoreCore } from './store-core.ts'

/** What a store has done since it was opened, and what it has at the moment. Counters only grow. */
export interface StoreMetrics {
  /** When it was opened, in epoch milliseconds. */
  startedAt: number
  /** SQL statements of callers; those that failed too. */
  statements: number
  /** Commits that changed a cell. */
  commits: number
  /** Cells that exist. */
  cells: number
  cellsOpen: number
  /** Undefined without an object store. */
  backups: BackupMetrics | undefined
  /** Undefined where cells are run in this process. */
  workers: WorkerMetrics | undefined
}

export interface BackupMetrics extends BackupCounts {
  /** Cells that have changed since their newest backup. */
  changed: number
  /** When the oldest change was made that no backup holds, or a little earlier, in epoch milliseconds. */
  oldestChangeAt: number | null
  /** When the newest backup of any cell was stored, in epoch milliseconds. */
  newestStoredAt: number | null
  /** Cells with a damaged backup and no newer one that is proven. */
  damaged: number
  /** The restore in the background of cells without local data; undefined if no cell was lost. */
  recovery: RecoveryProgress | undefined
  /** How far the object store has what the cells commit; undefined if nothing is shipped. */
  shipping: ShippingStatus | undefined
  /** Jobs of each kind. */
  queue: ArchiverLoad
  objectStore: ObjectStoreMetrics
}

/** What became of the calls to the object store. */
export interface ObjectStoreMetrics {
  url: string
  /** When it stopped answering, in epoch milliseconds; null while it answers. */
  lostAt: number | null
  calls: CallCounts[]
}

/** The worker processes of a node. */
export interface WorkerMetrics {
  /** Processes that are alive, the reserve too. */
  running: number
  /** Processes that have ended before they were told to, by reason. */
  ended: { reason: WorkerEnd; count: number }[]
  /** Operations that wait for a worker, and their bytes. */
  operationsWaiting: number
  bytesWaiting: number
}

/**
 * Why a worker ended: a statement was over its deadline (`timeout`), held up others (`held-up`) or nobody waited for it any
 * more (`abandoned`); the process took too much `memory`, did not answer (`silent`), or `exited`.
 */
export type WorkerEnd = 'timeout' | 'held-up' | 'abandoned' | 'log' | 'memory' | 'silent' | 'exited'

/** What the process that runs the cells knows. */
export type CellMetrics = Pick<StoreMetrics, 'statements' | 'commits' | 'cellsOpen' | 'workers'>

type ReportedBackups = Pick<BackupManager, 'counts' | 'load' | 'shipping'>

export function storeMetrics(
  core: StoreCore,
  ofCells: CellMetrics,
  backups: ReportedBackups | undefined,
): StoreMetrics {
  const { observed, registry } = core
  return {
    startedAt: observed.startedAt,
    cells: registry.countAll(),
    ...ofCells,
    backups: backups && backupMetrics(core, backups),
  }
}

function backupMetrics(
  { observed, recovery, retention, verifications }: StoreCore,
  { counts, load, shipping }: ReportedBackups,
): BackupMetrics | undefined {
  const calls = observed.objectStoreCalls
  if (retention === undefined || calls === undefined) return undefined
  const { changed, oldestChangeAt, newestStoredAt } = retention.summary()
  const damaged = verifications?.damagedCount() ?? 0
  const { url, lostAt } = calls
  const objectStore = { url, lostAt, calls: calls.list() }
  return {
    ...counts,
    changed,
    oldestChangeAt,
    newestStoredAt,
    damaged,
    recovery: recovery?.progress,
    shipping,
    queue: load,
    objectStore,
  }
}
