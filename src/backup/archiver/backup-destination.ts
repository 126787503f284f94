import { randomUUID } from 'node:crypto'
import { Emitter } from '../../base/async/emitter.ts'
import type { Clock } from '../../base/clock.ts'
import type { CellPaths } from '../../base/files/store-paths.ts'
import type { Log } from '../../base/log.ts'
import type { Tenure } from '../../catalog/assignment/assignment.ts'
import { DATABASE_MEMBER } from '../archive/manifest.ts'
import { ObjectReader } from '../archive/object-reader.ts'
import type { BackupProgress } from '../changes/backup-progress.ts'
import { ChangeTrackers } from '../changes/change-trackers.ts'
import { fingerprintOf, sameFingerprint } from '../changes/file-fingerprint.ts'
import { historyOfNew, isUntouchedSince, unshippedSegments } from '../changes/history.ts'
import { Segments } from '../changes/log/segments.ts'
import type { BackupProgressTable } from '../changes/progress-table.ts'
import { BackupRunner } from '../create/backup-runner.ts'
import { PutProbe } from '../create/cell-backup.ts'
import type { CallOptions, ObjectStore } from '../object-store/object-store.ts'
import { SOUND } from '../restore/threads/restore-task.ts'
import { RestoreThreads, type SeparateChecks } from '../restore/threads/restore-threads.ts'
import { backedUpTo } from '../shipping/shipping-status.ts'
import { CellLogs } from '../shipping/stored/cell-logs.ts'
import { LogIndex } from '../shipping/stored/log-index.ts'
import { ObjectStoreClaim } from '../versions/identity/object-store-claim.ts'
import { UploadSweep } from '../versions/identity/upload-sweep.ts'
import { AgedHorizon } from '../versions/retention/aged-horizon.ts'
import { Retention, type RetentionParts } from '../versions/retention/retention.ts'
import type { RetentionTable } from '../versions/retention/retention-table.ts'
import type { VersionFindings } from '../versions/version-findings.ts'
import { VersionIndex } from '../versions/version-index.ts'
import { WorkInProgress } from '../versions/work-in-progress.ts'

/** Which versions stay. */
export type RetentionPlans = Pick<RetentionParts, 'keep' | 'keepTenant' | 'historyMs' | 'prune'>

interface BackupDestinationParts {
  objectStore: ObjectStore
  /** Where this node's log lies; by default empty, as of a single node. */
  prefix?: string | undefined
  /** The store as the node of another prefix sees it; needed in a cluster. */
  storeOf?: ((prefix: string) => ObjectStore) | undefined
  /** Of a cell, as this process knows them; by default undefined, as without a cluster. */
  tenuresOf?: ((cellId: string) => Tenure[] | undefined) | undefined
  storeId: string
  /** The files of a cell, or of the catalog, whose id is the store's. */
  paths(cellId: string): CellPaths
  progress: BackupProgressTable
  findings: VersionFindings
  retention: RetentionTable
  plans: RetentionPlans
  /** For archives that are not uploaded yet. */
  spoolDirectory: string
  /** Threads to keep for a while after their work: as many as restores run at the same time. */
  threadsKept: number
  /** For checks that run expressions of tenants; without it they run in this process. */
  separateChecks?: SeparateChecks | undefined
  /** The size of the largest cell. */
  cellBytesMax: number
  /** Whether what a cell of this process commits is shipped; by default it is not. */
  isShipped?: ((cellId: string) => boolean) | undefined
  /** This node's, once it has one. */
  epoch(): number | undefined
  clock: Clock
  log: Log
}

/** The object store of a process's backups, and the state of these backups. Cells and the catalog share it. */
export class BackupDestination {
  readonly objectStore: ObjectStore
  readonly reader: ObjectReader
  readonly storeOf: (prefix: string) => ObjectStore
  readonly storeId: string
  readonly spoolDirectory: string
  readonly clock: Clock
  readonly log: Log
  readonly progress: BackupProgressTable
  readonly findings: VersionFindings
  readonly index: VersionIndex
  /** The log objects, for restores. */
  readonly logs: CellLogs
  readonly tenuresOf: (cellId: string) => Tenure[] | undefined
  readonly trackers: ChangeTrackers
  readonly runner: BackupRunner
  readonly retention: Retention
  /** Of log objects. */
  readonly horizon: AgedHorizon
  /** The last log object that is stored, if this process ships; its archiver sets it. */
  lastLogObject: () => string | null = () => null
  /** What cells with a history committed before it is stored: see `ShippingStatus`. The archiver of this process sets it. */
  collectedTo: () => number | null = () => null
  /** Every backup and restore of a cell that had begun has ended. The archiver of this process, or its node, sets it. */
  settled: (cellId: string, options: CallOptions) => Promise<void> = async () => {}
  /** Proves that the prefix is this store's. */
  readonly claim: ObjectStoreClaim
  /** For large databases: restores and backups check them. */
  readonly threads: RestoreThreads
  readonly work = new WorkInProgress()
  /** Emitted when backups go to another place than before, where nothing is stored yet; or to one where others have written. */
  readonly moved = new Emitter()
  /** Emitted when no cell's history goes on. */
  readonly historiesEnded = new Emitter()
  readonly #paths: (cellId: string) => CellPaths
  readonly #isShipped: (cellId: string) => boolean
  readonly #sweep: UploadSweep
  readonly #abort = new AbortController()

  constructor(parts: BackupDestinationParts) {
    const { objectStore, storeId, paths, progress, spoolDirectory, clock, log } = parts
    const { threadsKept, cellBytesMax, retention: table, findings, plans } = parts
    this.objectStore = objectStore
    this.reader = new ObjectReader(objectStore, clock)
    this.storeId = storeId
    this.spoolDirectory = spoolDirectory
    this.clock = clock
    this.log = log
    this.progress = progress
    this.findings = findings
    this.#paths = paths
    this.#isShipped = parts.isShipped ?? (() => false)
    this.index = new VersionIndex(objectStore, storeId, clock, findings)
    const own = new LogIndex(objectStore, storeId, parts.epoch)
    const { prefix = '', storeOf = () => objectStore } = parts
    this.storeOf = storeOf
    this.logs = new CellLogs(own, prefix, (other) => new LogIndex(storeOf(other), storeId))
    this.tenuresOf = parts.tenuresOf ?? (() => undefined)
    this.trackers = new ChangeTrackers(paths, progress, clock, parts.isShipped)
    const onMoved = () => this.moved.emit()
    const claim = new ObjectStoreClaim(objectStore, storeId, clock, progress, onMoved, this.#abort.signal)
    this.claim = claim
    this.retention = new Retention({
      objectStore,
      storeId,
      claim,
      ...plans,
      index: this.index,
      table,
      progress,
      work: this.work,
      settled: (cellId, options) => this.settled(cellId, options),
      findings,
      clock,
      log,
    })
    this.horizon = new AgedHorizon(table, clock)
    this.moved.listen(() => {
      this.trackers.setNothingStored()
      table.setNothingStored()
    })
    this.#sweep = new UploadSweep(objectStore, clock, log, cellBytesMax)
    this.threads = new RestoreThreads(clock, threadsKept, parts.separateChecks)
    const { index, threads, retention } = this
    this.runner = new BackupRunner({
      objectStore,
      index,
      findings,
      claim,
      sweep: this.#sweep,
      probe: new PutProbe(objectStore),
      retention,
      spoolDirectory,
      lastLogObject: () => this.lastLogObject(),
      logPrefix: prefix,
      clock,
      log,
      proveDatabase: async (file, size, whose) => {
        return (await threads.check({ kind: 'prove', file, member: DATABASE_MEMBER }, size, whose)) === SOUND
      },
    })
  }

  /**
   * Others have written to the prefix, and this directory goes on as it is. Their versions and log objects may be those of any
   * cell, in the very histories of this directory. So each cell begins a new one, with a new base. On disk when it returns.
   */
  setNothingStored(): void {
    this.claim.invalidate()
    this.moved.emit()
  }

  /**
   * What another timeline of this directory has shipped may be in its very histories: they end, and each cell begins a new one
   * with its next version. Chains stay: the look before that version shows whether one goes on. On disk when it returns.
   */
  endHistories(): void {
    this.trackers.endHistories()
    this.historiesEnded.emit()
  }

  /** Up to when everything that the cell has committed is stored; null if nothing is. Asks only the local state. */
  backedUpTo(cellId: string): number | null {
    return backedUpTo(this.progress.storedUpTo(cellId), this.collectedTo(), this.clock.now())
  }

  /** Before the catalog has a new cell, whose file is there: it counts as changed, and its history begins now. */
  noteMade(cellId: string, createdAt: number, isEmpty: boolean): void {
    const file = this.#isShipped(cellId) ? fingerprintOf(this.#paths(cellId).database) : undefined
    const history = file && historyOfNew(randomUUID(), createdAt, file, isEmpty)
    this.progress.setMade(cellId, this.clock.now(), history)
  }

  /** Whether all that the cell has committed is in the object store, as far as this machine shows it. */
  isStored(cellId: string): boolean {
    return isAllStored(this.progress.find(cellId), this.#paths(cellId))
  }

  /** Removes the local state of a deleted cell's backups. */
  forget(cellId: string): void {
    this.trackers.detach(cellId)
    this.progress.remove(cellId)
    this.retention.forget(cellId)
  }

  /** Ends the work that belongs to no single backup. */
  async close(): Promise<void> {
    this.#abort.abort()
    await this.#sweep.stop()
    await this.threads.close()
  }
}

/**
 * Whether a cell's row and its files show that all that it has committed is in the object store. For a process that does not
 * ship: it cannot store what is not.
 */
function isAllStored({ dirty, chain, history }: BackupProgress, paths: CellPaths): boolean {
  const database = fingerprintOf(paths.database)
  if (database === undefined || (fingerprintOf(paths.wal)?.size ?? 0) > 0) return false
  const known = chain?.database ?? history?.database
  if (!dirty) return known === undefined || sameFingerprint(known, database)
  if (!history?.isStored || !isUntouchedSince(history, database)) return false
  return unshippedSegments(history, new Segments(paths.segments).list())?.length === 0
}
