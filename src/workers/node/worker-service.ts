import fs from 'node:fs/promises'
import type { ManifestHead } from '../../backup/archive/manifest.ts'
import type { BackupList } from '../../backup/versions/backup-page.ts'
import type {
  BackupKind,
  BackupOptions,
  BackupResult,
  RestoreOptions,
  RestoreResult,
} from '../../backup/versions/backup-types.ts'
import type { Log } from '../../base/log.ts'
import { StorePaths } from '../../base/store-paths.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import { prepareWorkers } from '../../catalog/workers-lock.ts'
import type { SqlPolicy } from '../../engine/cell-settings.ts'
import { CellError, isCellError } from '../../errors.ts'
import type {
  BackupPageOptions,
  CellDescription,
  CellService,
  ExecuteOptions,
} from '../../service/cell-service.ts'
import type { CellOperation, OperationResults } from '../../service/operations.ts'
import { waitForRestore } from '../../service/restore-wait.ts'
import type { CellStore } from '../../store/cell-store.ts'
import type { RemoteCells } from '../../store/remote-cells.ts'
import { fromWireError } from '../protocol/wire-error.ts'
import { CellBackoff } from './cell-backoff.ts'
import type { WorkerLimits } from './kill-reason.ts'
import type { QueueBounds, QueuedOperation } from './operation-queue.ts'
import { operationBytes } from './operation-size.ts'
import { WorkerPool } from './worker-pool.ts'
import { type WorkerHandle, type WorkerMessage, WorkerProcess } from './worker-process.ts'

export interface WorkerServiceOptions {
  dataDir: string
  /** Where workers send backups; a worker opens it itself. */
  objectStore: string | undefined
  /** Processes that share the cells among them. */
  workers: number
  /** How long an operation waits for its turn, or for its cell's data to be restored, in milliseconds. */
  waitMs: number
  /** Bounds what one answer of several entries or results may hold, in bytes of values. */
  answerBytesMax: number
  /** How long a statement may run, in milliseconds. */
  statementMs: number
  limits?: Partial<WorkerLimits> | undefined
  /** What SQL may do; `tenant` unless all callers are trusted. */
  sqlPolicy?: SqlPolicy | undefined
}

const MIB = 1_048_576
export const DEFAULT_WORKER_LIMITS: WorkerLimits = {
  holdMs: 40,
  isolationMs: 30_000,
  silentMs: 30_000,
  memoryMax: 1_024 * MIB,
}
const BOUNDS: QueueBounds = { operationsMax: 20_000, operationsPerCellMax: 2_000, bytesMax: 256 * MIB }

/**
 * Runs operations on cells in child processes, and is where the store's own work on cells is done for it. No statement
 * holds up another cell for long, whatever it is, and none can bring the node down.
 */
export class WorkerService implements CellService, RemoteCells {
  readonly #options: WorkerServiceOptions
  #parts: { store: CellStore; workers: WorkerPool; backoff: CellBackoff } | undefined
  /** Cells that are being restored on request, and what was installed once it was. */
  readonly #restoring = new Map<string, ManifestHead | undefined>()
  #stopped = false

  constructor(options: WorkerServiceOptions) {
    this.#options = options
  }

  /** To be called with the store that was opened over this service. Resolves once operations can be run. */
  async start(store: CellStore): Promise<void> {
    const { clock, random, log, ...settings } = store.settings
    const { dataDir, objectStore, workers: count, answerBytesMax, sqlPolicy = 'tenant' } = this.#options
    const backoff = new CellBackoff(clock)
    const limits = { ...DEFAULT_WORKER_LIMITS, ...this.#options.limits }
    const paths = new StorePaths(dataDir)
    prepareWorkers(paths)
    const workers = new WorkerPool({
      count,
      clock,
      log,
      limits,
      bounds: BOUNDS,
      settings: {
        nodePid: process.pid,
        dataDir,
        objectStore,
        storeId: store.id,
        storeCreatedAt: store.createdAt,
        settings,
        sqlPolicy,
        answerBytesMax,
      },
      record: (cellId) => store.findCell(cellId),
      publish: (identities) => store.publishWorkers(identities),
      spawnWorker: () =>
        new WorkerProcess(limits.memoryMax, (message, worker) => this.#take(message, worker)),
      onEnded: (worker) => void removeSpool(paths.spoolOf(worker.identity.pid), log),
      onStrike: (cellId) => backoff.strike(cellId),
    })
    this.#parts = { store, workers, backoff }
    await workers.start()
  }

  async execute<O extends CellOperation>(
    cellId: string,
    operation: O,
    options: ExecuteOptions = {},
  ): Promise<OperationResults[O['op']]> {
    const { store, backoff } = this.#running
    backoff.check(cellId)
    try {
      return await this.#run(cellId, operation, options)
    } catch (error) {
      if (!isCellError(error, 'cell_restoring')) throw error
    }
    await waitForRestore(this.#ensureLocal(cellId), store.clock, this.#options.waitMs)
    return await this.#run(cellId, operation, options)
  }

  async describe(cellId: string): Promise<CellDescription> {
    const { store, workers } = this.#running
    if (store.cellSizeBytes(cellId) === 0) {
      await waitForRestore(this.#ensureLocal(cellId), store.clock, this.#options.waitMs)
    }
    const quarantine = await workers.runTask({ task: 'quarantine', cellId })
    return { sizeBytes: store.cellSizeBytes(cellId), quarantine }
  }

  async deleteCell(cellId: string): Promise<void> {
    await this.#running.store.deleteCellInWorker(cellId)
  }

  async backup(cellId: string, kind: BackupKind, options: BackupOptions = {}): Promise<BackupResult> {
    const { store, workers } = this.#running
    const { backups } = store
    const result = await workers.runTask({ task: 'backup', cellId, kind }, options)
    await backups.ensureCatalogStored(options.signal)
    return result
  }

  async restore(cellId: string, options: RestoreOptions = {}): Promise<RestoreResult> {
    const { store, workers } = this.#running
    const { version, accountId } = options
    // Without an object store, this says so.
    void store.backups
    if (this.#restoring.has(cellId)) throw restoreInProgress()
    const started = store.clock.monotonic()
    this.#restoring.set(cellId, undefined)
    // A second time would undo what was written to the restored cell meanwhile.
    const installed = (): RestoreResult | undefined => {
      const manifest = this.#restoring.get(cellId)
      if (manifest === undefined || (version !== undefined && manifest.version !== version)) return undefined
      return {
        version: manifest.version,
        kind: manifest.kind,
        sizeBytes: store.cellSizeBytes(cellId),
        durationMs: store.clock.monotonic() - started,
      }
    }
    try {
      return await workers.runTask({ task: 'restore', cellId, version, accountId }, options, installed)
    } finally {
      this.#restoring.delete(cellId)
    }
  }

  async listBackups(cellId: string, page: BackupPageOptions, signal?: AbortSignal): Promise<BackupList> {
    return await this.#running.store.backups.list(cellId, { ...page, signal })
  }

  async collect(cellId: string, signal: AbortSignal): Promise<void> {
    await this.#running.workers.runTask({ task: 'collect', cellId }, { signal })
  }

  async release({ id }: CellRecord): Promise<void> {
    const { workers } = this.#running
    workers.forget(id)
    await workers.runTask({ task: 'release', cellId: id })
  }

  async stop(deadlineMs: number): Promise<void> {
    this.#stopped = true
    await this.#parts?.workers.stop(deadlineMs)
  }

  get #running() {
    if (this.#parts === undefined) throw new CellError('shutting_down', 'The node is starting. Try again.')
    if (this.#stopped) throw new CellError('store_closed', 'The store was closed.')
    return this.#parts
  }

  async #ensureLocal(cellId: string): Promise<void> {
    await this.#running.workers.runTask({ task: 'ensure-local', cellId })
  }

  #run<O extends CellOperation>(
    cellId: string,
    operation: O,
    { signal, deadlineMs }: ExecuteOptions,
  ): Promise<OperationResults[O['op']]> {
    const { store, workers } = this.#running
    signal?.throwIfAborted()
    const { statementMs, waitMs } = this.#options
    return new Promise((resolve, reject) => {
      const queued: QueuedOperation = {
        cellId,
        operation,
        bytes: operationBytes(operation),
        statementMs: Math.min(deadlineMs ?? statementMs, statementMs),
        notAfter: store.clock.monotonic() + waitMs,
        signal,
        crashes: 0,
        isSettled: false,
        settle: (outcome) => {
          queued.isSettled = true
          signal?.removeEventListener('abort', abandon)
          if (outcome.ok) resolve(outcome.value as OperationResults[O['op']])
          else reject(outcome.error)
        },
      }
      workers.add(queued)
      const abandon = () => queued.settle({ ok: false, error: signal?.reason })
      signal?.addEventListener('abort', abandon, { once: true })
    })
  }

  #take(message: WorkerMessage, worker: WorkerHandle): void {
    if (this.#parts === undefined) return
    const { store } = this.#parts
    switch (message.type) {
      case 'changed':
        store.workerEvents.changed(message.cellId)
        break
      case 'expiry':
        store.workerEvents.expiryChanged()
        break
      case 'restored':
        this.#record(message, worker)
        break
      case 'log': {
        const { level, fields, err, message: text } = message
        const cause = err === undefined ? {} : { err: fromWireError(err) }
        store.settings.log[level]({ ...fields, ...cause, worker: worker.identity.pid }, text)
      }
    }
  }

  #record(
    { id, cellId, manifest }: Extract<WorkerMessage, { type: 'restored' }>,
    worker: WorkerHandle,
  ): void {
    try {
      const { store, workers } = this.#running
      store.workerEvents.restored(cellId, manifest)
      if (this.#restoring.has(cellId)) this.#restoring.set(cellId, manifest)
      workers.forget(cellId)
      worker.recorded(id, store.findCell(cellId))
    } catch (error) {
      worker.recorded(id, undefined, error)
    }
  }
}

/** Of backups that a worker has not finished. */
async function removeSpool(directory: string, log: Log): Promise<void> {
  try {
    await fs.rm(directory, { recursive: true, force: true })
  } catch (err) {
    log.warn({ err }, 'what a worker has left of a backup could not be removed')
  }
}

function restoreInProgress(): CellError {
  return new CellError('restore_in_progress', 'The cell is being restored already. Wait for that to end.')
}
