import { type BackupManager, objectStoreNotConfigured } from '../../../backup/backup-manager.ts'
import { resetHistories } from '../../../backup/changes/change-trackers.ts'
import { within } from '../../../base/clock.ts'
import { prepareWorkers, processIdentity } from '../../../catalog/directory-lock.ts'
import type { SqlPolicy } from '../../../engine/cell-settings.ts'
import { CellError, isCellError } from '../../../errors.ts'
import { beginWatch } from '../../../service/begin-watch.ts'
import type {
  CellDescription,
  CellService,
  ExecuteOptions,
  OperationPermit,
  ServedDeleteOptions,
} from '../../../service/cell-service.ts'
import { tracedOperation } from '../../../service/operation-trace.ts'
import type { CellOperation, RequestBounds, ResultOf } from '../../../service/operations.ts'
import { waitForRestore } from '../../../service/restore-wait.ts'
import { SLOW_MS_DEFAULT } from '../../../service/slow-statements.ts'
import type { CellHost } from '../../../store/cell-host.ts'
import type { BranchCellOptions } from '../../../store/cells/cell-branches.ts'
import type { CreatedCell } from '../../../store/cells/cell-creations.ts'
import {
  type ExportedFile,
  exportToSpool,
  type ServedExportOptions,
} from '../../../store/cells/cell-export.ts'
import type { BuildCell, ImportCellOptions } from '../../../store/cells/cell-imports.ts'
import { removeSpoolFile } from '../../../store/cells/spool-files.ts'
import type { Archiving } from '../../../store/open/archiving.ts'
import { noBackup } from '../../../store/open/local-cells.ts'
import { RangeHost, upkeepOf } from '../../../store/residence/range-host.ts'
import type { StoreCore } from '../../../store/store-core.ts'
import { type StoreMetrics, storeMetrics } from '../../../store/store-metrics.ts'
import { Upkeep } from '../../../store/upkeep.ts'
import type { WatchOptions } from '../../../store/watch/cell-change.ts'
import type { ChangeStream } from '../../../store/watch/change-stream.ts'
import { spawnWorker } from '../../children/spawn-child.ts'
import { logForChild } from '../../protocol/log-message.ts'
import type { ArchiverProcess } from '../archiver/archiver-process.ts'
import { archivingOfNode } from '../archiver/archiving.ts'
import { CellDeletions } from '../placement/cell-deletions.ts'
import { ImportProcesses } from '../processes/import-processes.ts'
import { LeftLogs } from '../processes/left-logs.ts'
import { DEFAULT_WORKER_LIMITS, memoryBound, type WorkerLimits } from '../processes/worker-limits.ts'
import { type WorkerHandle, type WorkerMessage, WorkerProcess } from '../processes/worker-process.ts'
import { DEFAULT_QUEUE_BOUNDS, type QueueBounds } from '../queue/operation-queue.ts'
import { operationBytes, type QueuedOperation } from './queued-operation.ts'
import { WorkerPool } from './worker-pool.ts'

export interface WorkerServiceOptions {
  /** The URL of the object store, which the archiver opens for itself. */
  objectStore: string | undefined
  /** Home workers: each cell has one of them. */
  workers: number
  /** Milliseconds that an operation waits for its turn, or for the restore of its cell's data. */
  waitMs: number
  bounds: RequestBounds
  limits?: Partial<WorkerLimits> | undefined
  /** Of each worker. */
  queue?: Partial<QueueBounds> | undefined
  /** What SQL may do. Keep the default `tenant` unless all callers are trusted. */
  sqlPolicy?: SqlPolicy | undefined
  /** Milliseconds from which on a statement is logged; 500 by default. Null: never. */
  slowMs?: number | null | undefined
}

/** Milliseconds in which workers close their cells, also if the archiver has taken all the time of a stop. */
const CLOSING_MS_MIN = 2_000

/** Runs operations on cells in child processes: no statement can hold up another cell for long, or crash the node. */
export class WorkerService implements CellService {
  readonly #core: StoreCore
  readonly #options: WorkerServiceOptions
  readonly #workers: WorkerPool
  readonly #upkeep: Upkeep
  readonly #leftLogs: LeftLogs
  readonly #imports: ImportProcesses
  /** Undefined without an object store. */
  readonly #archiving: Archiving<ArchiverProcess> | undefined
  readonly #deletions: CellDeletions
  /** What this node does when ranges of cells come and go. Undefined without an object store. */
  readonly host: CellHost | undefined
  #stopped = false
  #closing: Promise<void> | undefined

  /** @param core only the workers open its cells (invariant 2) */
  constructor(core: StoreCore, options: WorkerServiceOptions) {
    const { clock, random: _, log, ...settings } = core.settings
    const { objectStore, workers: count, bounds, sqlPolicy = 'tenant' } = options
    const { paths } = core
    this.#core = core
    this.#options = options
    this.#upkeep = new Upkeep(core)
    this.#leftLogs = new LeftLogs(paths, log)
    this.#imports = new ImportProcesses(clock, log)
    const limits = { ...DEFAULT_WORKER_LIMITS, ...options.limits }
    this.#workers = new WorkerPool({
      count,
      clock,
      log,
      limits,
      bounds: { ...DEFAULT_QUEUE_BOUNDS, ...options.queue },
      taskMs: options.bounds.statementMsMax,
      settings: {
        node: processIdentity(process.pid),
        dataDir: paths.root,
        hasObjectStore: objectStore !== undefined,
        settings,
        sqlPolicy,
        bounds,
        memory: memoryBound(limits),
        slowMs: options.slowMs === undefined ? SLOW_MS_DEFAULT : (options.slowMs ?? undefined),
      },
      record: (cellId) => core.findCell(cellId),
      publish: (identities) => core.publishWorkers(identities),
      logBytesMax: core.settings.limits.walBytesMax,
      logBytes: (cellId) => core.files.logBytes(cellId),
      ended: (worker) => this.#ended(worker),
      spawnWorker: () =>
        new WorkerProcess(spawnWorker(limits.memoryMax), core.changes, (message, worker) =>
          this.#take(message, worker),
        ),
    })
    this.#deletions = new CellDeletions({
      core,
      workers: this.#workers,
      storeLast: async (cellId) => await this.#archiving?.backups.beforeDeletion(cellId),
      confirmRecord: (cellId) => this.confirmRecord(cellId),
      assertRunning: () => this.#assertRunning(),
    })
    this.#archiving = archivingOfNode(core, this.#workers, this.#upkeep, objectStore, this.#deletions)
    const archiving = this.#archiving
    const closeCell = (cellId: string) => this.#workers.runTask({ task: 'release', cellId })
    this.host = archiving && new RangeHost({ core, archiving, closeCell, ...upkeepOf(this.#upkeep) })
    core.guard?.lost.listen(() => void this.#upkeep.stop())
  }

  /** Resolves once operations can run. @throws `internal` if no worker can be started */
  async start(): Promise<void> {
    prepareWorkers(this.#core.paths)
    this.#archiving?.archiver.start()
    await this.#workers.start()
    this.#upkeep.start({
      backup: (cellId, kind, options, need) => this.backups.backup(cellId, kind, options, need),
      prove: (cellId, options) => this.backups.prove(cellId, options, 'background'),
      collect: (cellId, signal) => this.#collectExpired(cellId, signal),
      recover: (cellId, signal) => this.backups.recoverIfLost(cellId, 'background', signal),
    })
    void this.#archiving?.search.search()
  }

  execute<O extends CellOperation>(
    cellId: string,
    operation: O,
    options: ExecuteOptions = {},
  ): Promise<ResultOf<O>> {
    this.#core.observed.activity.count(cellId)
    return tracedOperation(cellId, operation, options, () => this.#runHere(cellId, operation, options))
  }

  /** What the store has done since it was opened, and what it has now. */
  metrics(): StoreMetrics {
    return storeMetrics(this.#core, this.#workers.metrics, this.#archiving?.backups)
  }

  async watch(cellId: string, options: WatchOptions = {}, permit?: OperationPermit): Promise<ChangeStream> {
    this.#assertRunning()
    this.#core.residence.assertHere(cellId)
    const stream = this.#core.changes.watch(cellId, options)
    return await beginWatch(this, cellId, stream, { signal: options.signal, permit })
  }

  async describe(cellId: string): Promise<CellDescription> {
    this.#assertRunning()
    const { files, registry, residence } = this.#core
    residence.assertHere(cellId)
    if (!files.exists(cellId)) await this.#untilLocal(cellId)
    const quarantine = await this.#workers.runTask({ task: 'quarantine-state', cellId })
    registry.require(cellId) // It may have been deleted meanwhile.
    return { sizeBytes: files.sizeBytes(cellId), quarantine }
  }

  async deleteCell(cellId: string, options: ServedDeleteOptions = {}): Promise<void> {
    await this.#core.residence.during(cellId, () => this.#deletions.delete(cellId, options))
  }

  async exportCell(cellId: string, { signal, permit }: ServedExportOptions = {}): Promise<ExportedFile> {
    this.#assertRunning()
    const { files, spool, registry, residence } = this.#core
    residence.assertHere(cellId)
    if (!files.exists(cellId)) await this.#untilLocal(cellId)
    const copy = async (file: string) => {
      try {
        return await this.#workers.runTask({ task: 'export', cellId, file }, { signal })
      } catch (error) {
        await removeSpoolFile(file)
        registry.require(cellId) // A deletion closes the cell under its copy.
        throw error
      }
    }
    return await exportToSpool(spool, files.sizeBytes(cellId), copy, permit)
  }

  async importCell(source: AsyncIterable<Uint8Array>, options: ImportCellOptions = {}): Promise<string> {
    this.#assertRunning()
    const { sqlPolicy = 'tenant' } = this.#options
    const build: BuildCell = (request) => this.#imports.run(request)
    const { id } = await this.#core.imports.import(source, { ...options, sqlPolicy }, build)
    await this.confirmCell(id).finally(() => this.#upkeep.cellMade(id))
    return id
  }

  async branchCell(options: BranchCellOptions): Promise<CreatedCell> {
    const created = await this.#core.branches.branch(options, this.backups.branches)
    await this.confirmCell(created.id).finally(() => this.#upkeep.cellMade(created.id))
    return created
  }

  async confirmCell(cellId: string): Promise<void> {
    await this.#archiving?.replication.confirmCell(cellId)
  }

  async confirmRecord(cellId: string): Promise<void> {
    await this.#archiving?.replication.confirmRecord(cellId)
  }

  /**
   * Stops the upkeep and the archiver, closes every cell and ends the workers. The core can be closed afterwards.
   * A repeat is the same call.
   *
   * @param deadlineMs backups and restores that take longer are cancelled, and workers killed
   */
  close(deadlineMs: number): Promise<void> {
    this.#closing ??= this.#close(deadlineMs)
    return this.#closing
  }

  async #close(deadlineMs: number): Promise<void> {
    const { clock } = this.#core
    const deadline = clock.monotonic() + deadlineMs
    this.#archiving?.backups.stop()
    const upkeep = this.#upkeep.stop()
    await within(clock, deadlineMs, upkeep)
    this.#stopped = true
    const leftMs = () => Math.max(0, deadline - clock.monotonic())
    await within(clock, leftMs(), this.#archiving?.search.stop() ?? Promise.resolve())
    await this.#imports.stop()
    await this.#archiving?.archiver.stop(leftMs())
    await this.#workers.stop(Math.max(leftMs(), CLOSING_MS_MIN))
    // What a frozen worker did not end has ended with it.
    await upkeep
    await this.#leftLogs.idle()
    await within(clock, leftMs(), this.#deletions.idle())
  }

  /** @throws `object_store_not_configured`, `store_closed` */
  get backups(): BackupManager {
    this.#assertRunning()
    if (this.#archiving === undefined) throw objectStoreNotConfigured()
    return this.#archiving.backups
  }

  /** @throws `store_closed`, `taken_over` */
  #assertRunning(): void {
    this.#core.assertNotTakenOver()
    if (this.#stopped) throw new CellError('store_closed', 'The store is closed.')
  }

  /** A cell whose data is lost is restored in the background: then its expired entries are collected. */
  async #collectExpired(cellId: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#workers.runTask({ task: 'collect-expired', cellId }, { signal })
    } catch (error) {
      if (!isCellError(error, 'cell_restoring')) throw error
      await this.backups.recoverIfLost(cellId, 'background')
    }
  }

  async #untilLocal(cellId: string): Promise<void> {
    const { registry, clock } = this.#core
    registry.require(cellId)
    if (this.#archiving === undefined) throw noBackup()
    await waitForRestore(this.#archiving.backups.ensureLocal(cellId), clock, this.#options.waitMs)
  }

  /** Without a cluster it is {@link #run}. */
  #runHere<O extends CellOperation>(
    cellId: string,
    operation: O,
    options: ExecuteOptions,
  ): Promise<ResultOf<O>> {
    const { ownership, residence } = this.#core
    if (ownership.assignment === undefined) return this.#run(cellId, operation, options)
    return residence.during(cellId, () => this.#run(cellId, operation, options))
  }

  /**
   * Not async: each further promise is a cost of every operation.
   *
   * @param waits a cell whose data is lost is restored first
   */
  #run<O extends CellOperation>(
    cellId: string,
    operation: O,
    options: ExecuteOptions,
    waits = true,
  ): Promise<ResultOf<O>> {
    const { signal, permit, requestId } = options
    const { bounds, waitMs } = this.#options
    return new Promise((resolve, reject) => {
      this.#assertRunning()
      signal?.throwIfAborted()
      const queued: QueuedOperation = {
        cellId,
        accountId: this.#core.findCell(cellId)?.accountId ?? cellId,
        operation,
        bytes: operationBytes(operation),
        statementMs: bounds.statementMsMax,
        notAfter: this.#core.clock.monotonic() + waitMs,
        signal,
        permit,
        requestId,
        crashes: 0,
        isSettled: false,
        settle: (outcome, hasCommitted = false) => {
          if (queued.isSettled) return
          queued.isSettled = true
          signal?.removeEventListener('abort', abandon)
          if (!outcome.ok)
            if (waits && isCellError(outcome.error, 'cell_restoring'))
              this.#untilLocal(cellId)
                .then(() => this.#run(cellId, operation, options, false))
                .then(resolve, reject)
            else reject(outcome.error)
          else if (hasCommitted && this.#core.isRemote(cellId))
            this.#replicated(cellId).then(() => resolve(outcome.value as ResultOf<O>), reject)
          else resolve(outcome.value as ResultOf<O>)
        },
      }
      const abandon = () => queued.settle({ ok: false, error: signal?.reason })
      this.#workers.add(queued)
      signal?.addEventListener('abort', abandon, { once: true })
    })
  }

  async #replicated(cellId: string): Promise<void> {
    if (this.#archiving === undefined) throw objectStoreNotConfigured()
    await this.#archiving.replication.confirm(cellId)
  }

  /** What the worker did not live to tell is found in its files. */
  #ended(worker: WorkerHandle): void {
    this.#leftLogs.ended(worker.identity)
    const { destination } = this.#core
    for (const each of worker.openResets)
      if (destination !== undefined) resetHistories(destination.trackers, each)
    void this.#archiving?.search.search((cellId) => worker.mayHaveUsed(cellId))
  }

  #take(message: WorkerMessage, worker: WorkerHandle): void {
    switch (message.type) {
      case 'changed':
        this.#upkeep.cellChanged(message.cellId)
        break
      case 'commit':
        this.#core.changes.committed(message.cellId, message.changes)
        break
      case 'interrupted':
        this.#core.changes.interrupted(message.cellId)
        break
      case 'expiry':
        this.#upkeep.expiryChanged()
        break
      case 'unshipped':
        this.#archiving?.search.found(message.cellId)
        break
      case 'log':
        logForChild(this.#core.settings.log, message, { worker: worker.identity.pid })
    }
  }
}
