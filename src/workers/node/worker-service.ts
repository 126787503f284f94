import fs from 'node:fs/promises'
import type { ManifestHead } from '../../backup/archive/manifest.ts'
import { BackupListing } from '../../backup/backup-listing.ts'
import { objectStoreNotConfigured } from '../../backup/backup-manager.ts'
import { restoreInProgress } from '../../backup/restore/restores-in-progress.ts'
import type { BackupList } from '../../backup/versions/backup-page.ts'
import type {
  BackupKind,
  BackupResult,
  MakeBackupOptions,
  RestoreOptions,
  RestoreResult,
} from '../../backup/versions/backup-types.ts'
import { CellOwnership } from '../../backup/versions/cell-ownership.ts'
import type { BackupInfo } from '../../backup/versions/version-index.ts'
import type { Clock } from '../../base/clock.ts'
import { KeyedQueue } from '../../base/keyed-queue.ts'
import type { Log } from '../../base/log.ts'
import { prepareWorkers } from '../../catalog/workers-lock.ts'
import type { SqlPolicy } from '../../engine/cell-settings.ts'
import { CellError, isCellError } from '../../errors.ts'
import type {
  BackupPageOptions,
  CellDescription,
  CellService,
  ExecuteOptions,
} from '../../service/cell-service.ts'
import type { CellOperation, ResultOf } from '../../service/operations.ts'
import { waitForRestore } from '../../service/restore-wait.ts'
import type { StoreCore } from '../../store/store-core.ts'
import { Upkeep } from '../../store/upkeep.ts'
import { fromWireError } from '../protocol/wire-error.ts'
import { CellBackoff } from './cell-backoff.ts'
import { DEFAULT_WORKER_LIMITS, type WorkerLimits } from './kill-reason.ts'
import { DEFAULT_QUEUE_BOUNDS, type QueueBounds } from './operation-queue.ts'
import { operationBytes, type QueuedOperation } from './queued-operation.ts'
import { WorkerPool } from './worker-pool.ts'
import { type WorkerHandle, type WorkerMessage, WorkerProcess } from './worker-process.ts'

export interface WorkerServiceOptions {
  /** The URL of the object store, which each worker opens for itself. */
  objectStore: string | undefined
  /** Worker processes that share all cells. */
  workers: number
  /** Milliseconds that an operation waits for its turn, or for the restore of its cell's data. */
  waitMs: number
  /** Bytes of values in one answer of several entries or results. */
  answerBytesMax: number
  /** Milliseconds that a statement may run. */
  statementMs: number
  limits?: Partial<WorkerLimits> | undefined
  /** Of each worker. */
  queue?: Partial<QueueBounds> | undefined
  /** What SQL may do. Keep the default `tenant` unless all callers are trusted. */
  sqlPolicy?: SqlPolicy | undefined
}

/** Runs operations on cells in child processes: no statement can hold up another cell for long, or crash the node. */
export class WorkerService implements CellService {
  readonly #core: StoreCore
  readonly #options: WorkerServiceOptions
  readonly #workers: WorkerPool
  readonly #upkeep: Upkeep
  readonly #backoff: CellBackoff
  readonly #listing: BackupListing | undefined
  /** Cells whose requested restore is under way; with the manifest once the restored database is installed. */
  readonly #restoring = new Map<string, ManifestHead | undefined>()
  /** One backup or restore of a cell at a time: here, and not in the worker, so that a permit is asked last. */
  readonly #transfers = new KeyedQueue()
  #stopped = false
  #closing: Promise<void> | undefined

  /** @param core only the workers open its cells (invariant 2) */
  constructor(core: StoreCore, options: WorkerServiceOptions) {
    const { clock, random: _, log, ...settings } = core.settings
    const { objectStore, workers: count, answerBytesMax, sqlPolicy = 'tenant' } = options
    const { paths, destination } = core
    this.#core = core
    this.#options = options
    this.#upkeep = new Upkeep(core)
    this.#backoff = new CellBackoff(clock)
    if (destination !== undefined) {
      const ownership = new CellOwnership(destination.index, (id) => core.findCell(id))
      this.#listing = new BackupListing(destination, ownership)
    }
    const limits = { ...DEFAULT_WORKER_LIMITS, ...options.limits }
    this.#workers = new WorkerPool({
      count,
      clock,
      log,
      limits,
      bounds: { ...DEFAULT_QUEUE_BOUNDS, ...options.queue },
      taskMs: options.statementMs,
      settings: {
        nodePid: process.pid,
        dataDir: paths.root,
        objectStore,
        storeId: core.id,
        storeCreatedAt: core.createdAt,
        settings,
        sqlPolicy,
        answerBytesMax,
        openSchemaBytesMax: limits.openSchemaBytesMax ?? Math.floor(limits.memoryMax / 64),
      },
      record: (cellId) => core.findCell(cellId),
      publish: (identities) => core.publishWorkers(identities),
      spawnWorker: () =>
        new WorkerProcess(limits.memoryMax, (message, worker) => this.#take(message, worker), objectStore),
      onEnded: (worker) => void removeSpool(paths.spoolOf(worker.identity.pid), log),
      onStrike: (cellId) => this.#backoff.strike(cellId),
      checkStrikes: (cellId) => this.#backoff.check(cellId),
    })
  }

  /** Resolves once operations can run. @throws `internal` if no worker can be started */
  async start(): Promise<void> {
    prepareWorkers(this.#core.paths)
    await this.#workers.start()
    this.#upkeep.start({
      backup: (cellId, kind, options) => this.backup(cellId, kind, options),
      collect: (cellId, signal) => this.#workers.runTask({ task: 'collect', cellId }, { signal }),
    })
  }

  async execute<O extends CellOperation>(
    cellId: string,
    operation: O,
    options: ExecuteOptions = {},
  ): Promise<ResultOf<O>> {
    this.#assertRunning()
    this.#backoff.check(cellId)
    try {
      return await this.#run(cellId, operation, options)
    } catch (error) {
      if (!isCellError(error, 'cell_restoring')) throw error
    }
    await this.#untilLocal(cellId)
    return await this.#run(cellId, operation, options)
  }

  async describe(cellId: string): Promise<CellDescription> {
    this.#assertRunning()
    const { files, registry } = this.#core
    if (!files.exists(cellId)) await this.#untilLocal(cellId)
    const quarantine = await this.#workers.runTask({ task: 'quarantine', cellId })
    registry.require(cellId) // It may have been deleted meanwhile.
    return { sizeBytes: files.sizeBytes(cellId), quarantine }
  }

  async deleteCell(cellId: string): Promise<void> {
    this.#assertRunning()
    const deletedAt = this.#core.markDeleted(cellId)
    this.#workers.forget(cellId)
    await this.#workers.runTask({ task: 'release', cellId })
    // If a restore brought the cell back meanwhile, its files are new and stay. A record can also be forgotten.
    const record = this.#core.findCell(cellId)
    if (record === undefined || record.deletedAt === deletedAt) this.#core.removeLocal(cellId)
  }

  async backup(cellId: string, kind: BackupKind, options: MakeBackupOptions = {}): Promise<BackupResult> {
    this.#assertRunning()
    const { catalogBackup } = this.#core
    if (catalogBackup === undefined) throw objectStoreNotConfigured()
    const { origin, ...rest } = options
    const { result, head } = await this.#transfers.run(cellId, () =>
      this.#workers.runTask({ task: 'backup', cellId, kind, origin }, rest),
    )
    if (head !== undefined) this.#core.destination?.index.stored(head, result.sizeBytes)
    await catalogBackup.ensureStored(options.signal)
    return result
  }

  async restore(cellId: string, options: RestoreOptions = {}): Promise<RestoreResult> {
    this.#assertRunning()
    const { clock, files, destination } = this.#core
    const { version, accountId } = options
    if (destination === undefined) throw objectStoreNotConfigured()
    if (this.#restoring.has(cellId)) throw restoreInProgress()
    const started = clock.monotonic()
    this.#restoring.set(cellId, undefined)
    // If the worker ended after the switch, a second restore would undo newer writes to the restored cell.
    const installed = (): RestoreResult | undefined => {
      const manifest = this.#restoring.get(cellId)
      if (manifest === undefined || (version !== undefined && manifest.version !== version)) return undefined
      return {
        version: manifest.version,
        kind: manifest.kind,
        sizeBytes: files.sizeBytes(cellId),
        durationMs: clock.monotonic() - started,
      }
    }
    try {
      return await this.#transfers.run(cellId, () =>
        this.#workers.runTask({ task: 'restore', cellId, version, accountId }, options, installed),
      )
    } finally {
      this.#restoring.delete(cellId)
    }
  }

  async listBackups(cellId: string, page: BackupPageOptions, signal?: AbortSignal): Promise<BackupList> {
    this.#assertRunning()
    if (this.#listing === undefined) throw objectStoreNotConfigured()
    return await this.#listing.list(cellId, { ...page, signal })
  }

  async latestBackup(cellId: string, signal?: AbortSignal): Promise<BackupInfo | undefined> {
    this.#assertRunning()
    if (this.#listing === undefined) throw objectStoreNotConfigured()
    return await this.#listing.latest(cellId, signal)
  }

  /**
   * Stops the upkeep, closes every cell and ends the workers. The core can be closed afterwards.
   * A repeat is the same call.
   *
   * @param deadlineMs workers that take longer are killed
   */
  close(deadlineMs: number): Promise<void> {
    this.#closing ??= this.#close(deadlineMs)
    return this.#closing
  }

  async #close(deadlineMs: number): Promise<void> {
    const { clock } = this.#core
    const deadline = clock.monotonic() + deadlineMs
    const upkeep = this.#upkeep.stop()
    await within(clock, deadlineMs, upkeep)
    this.#stopped = true
    await this.#workers.stop(Math.max(0, deadline - clock.monotonic()))
    // What a frozen worker did not end has ended with it.
    await upkeep
  }

  /** @throws `store_closed` */
  #assertRunning(): void {
    if (this.#stopped) throw new CellError('store_closed', 'The store is closed.')
  }

  #untilLocal(cellId: string): Promise<void> {
    const restored = this.#workers.runTask({ task: 'ensure-local', cellId })
    return waitForRestore(restored, this.#core.clock, this.#options.waitMs)
  }

  #run<O extends CellOperation>(
    cellId: string,
    operation: O,
    { signal, deadlineMs, permit }: ExecuteOptions,
  ): Promise<ResultOf<O>> {
    this.#assertRunning()
    signal?.throwIfAborted()
    const { statementMs, waitMs } = this.#options
    return new Promise((resolve, reject) => {
      const queued: QueuedOperation = {
        cellId,
        accountId: this.#core.findCell(cellId)?.accountId ?? cellId,
        operation,
        bytes: operationBytes(operation),
        statementMs: Math.min(deadlineMs ?? statementMs, statementMs),
        notAfter: this.#core.clock.monotonic() + waitMs,
        signal,
        permit,
        crashes: 0,
        isSettled: false,
        settle: (outcome) => {
          queued.isSettled = true
          signal?.removeEventListener('abort', abandon)
          if (outcome.ok) resolve(outcome.value as ResultOf<O>)
          else reject(outcome.error)
        },
      }
      const abandon = () => queued.settle({ ok: false, error: signal?.reason })
      this.#workers.add(queued)
      signal?.addEventListener('abort', abandon, { once: true })
    })
  }

  #take(message: WorkerMessage, worker: WorkerHandle): void {
    switch (message.type) {
      case 'changed':
        this.#upkeep.cellChanged(message.cellId)
        break
      case 'expiry':
        this.#upkeep.expiryChanged()
        break
      case 'restored':
        this.#recordRestored(message, worker)
        break
      case 'log': {
        const { level, fields, err, message: text } = message
        const cause = err === undefined ? {} : { err: fromWireError(err) }
        this.#core.settings.log[level]({ ...fields, ...cause, worker: worker.identity.pid }, text)
      }
    }
  }

  #recordRestored(message: Extract<WorkerMessage, { type: 'restored' }>, worker: WorkerHandle): void {
    const { id, cellId, manifest } = message
    try {
      this.#core.recordRestored(cellId, manifest)
      this.#upkeep.cellRestored(cellId)
      // From here on the worker changes the local state; the node must read it again.
      this.#core.hints.forget(cellId)
      if (this.#restoring.has(cellId)) this.#restoring.set(cellId, manifest)
      this.#workers.forget(cellId)
      worker.recorded(id, this.#core.findCell(cellId))
    } catch (error) {
      worker.recorded(id, undefined, error)
    }
  }
}

/** Waits for work, up to a time. */
async function within(clock: Clock, ms: number, work: Promise<void>): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = clock.setTimer(resolve, ms)
  await Promise.race([work, promise]).finally(() => timer.cancel())
}

/** Removes the unfinished backups of a worker that has ended. */
async function removeSpool(directory: string, log: Log): Promise<void> {
  await fs.rm(directory, { recursive: true, force: true }).catch((err) => {
    log.warn({ err, directory }, 'could not remove the spool files of an ended worker')
  })
}
