import type { VerifyOptions, VerifyResult } from '../backup/verify/verify-types.ts'
import type { BackupList } from '../backup/versions/backup-page.ts'
import type {
  BackupKind,
  BackupResult,
  MakeBackupOptions,
  RestoreOptions,
  RestoreResult,
} from '../backup/versions/backup-types.ts'
import type { BackupInfo } from '../backup/versions/version-index.ts'
import { LruCache } from '../base/lru-cache.ts'
import type { SqlPolicy } from '../engine/cell-settings.ts'
import { isCellError } from '../errors.ts'
import type { Cell } from '../store/cell.ts'
import type { ExportedFile, ExportOptions } from '../store/cell-export.ts'
import type { ImportCellOptions } from '../store/cell-imports.ts'
import type { CellStore } from '../store/cell-store.ts'
import {
  type ApplyContext,
  applyOperation,
  mayChange,
  parseOperation,
  type ReadableOperation,
} from './apply-operation.ts'
import type {
  BackupPageOptions,
  CellDescription,
  CellService,
  ExecuteOptions,
  OperationPermit,
} from './cell-service.ts'
import type { CellOperation, ResultOf, UnreadOperation } from './operations.ts'
import { waitForRestore } from './restore-wait.ts'

export interface InProcessServiceOptions {
  /** How long an operation waits for its cell's data to be restored, in milliseconds. */
  restoreWaitMs: number
  /** Bounds what one answer of several entries or results may hold, in bytes of values. */
  answerBytesMax: number
  /** What SQL may do; `tenant` unless all callers are trusted. */
  sqlPolicy?: SqlPolicy | undefined
}

/**
 * Runs operations on cells in this process. Reads run as they come; changes join the cell's next group commit, and
 * resolve once it is on disk. A statement blocks everything else while it runs, which workers avoid.
 */
export class InProcessService implements CellService {
  readonly #store: CellStore
  readonly #restoreWaitMs: number
  readonly #context: ApplyContext
  /** A handle keeps its prepared statements, which a new one would have to prepare again. */
  readonly #cells: LruCache<Cell>

  constructor(
    store: CellStore,
    { restoreWaitMs, answerBytesMax, sqlPolicy = 'tenant' }: InProcessServiceOptions,
  ) {
    this.#store = store
    this.#restoreWaitMs = restoreWaitMs
    this.#context = { sqlPolicy, clock: store.clock, answerBytesMax }
    this.#cells = new LruCache(store.settings.openCellsMax)
  }

  /** A statement cannot be interrupted in its own process, so that a deadline has no effect here. */
  async execute<O extends CellOperation>(
    cellId: string,
    operation: O,
    { signal, permit }: ExecuteOptions = {},
  ): Promise<ResultOf<O>> {
    signal?.throwIfAborted()
    const readable = operation.op === 'unread' ? await read(operation) : (operation as ReadableOperation)
    try {
      return (await this.#run(cellId, readable, permit)) as ResultOf<O>
    } catch (error) {
      if (!isCellError(error, 'cell_restoring')) throw error
    }
    await this.#untilLocal(cellId)
    signal?.throwIfAborted()
    return (await this.#run(cellId, readable, permit)) as ResultOf<O>
  }

  async describe(cellId: string): Promise<CellDescription> {
    await this.#untilLocal(cellId)
    const { sizeBytes, quarantine } = this.#store.openCell(cellId)
    return { sizeBytes, quarantine }
  }

  async deleteCell(cellId: string): Promise<void> {
    this.#store.deleteCell(cellId)
  }

  async exportCell(cellId: string, options: ExportOptions = {}): Promise<ExportedFile> {
    await this.#untilLocal(cellId)
    return await this.#store.exportToSpool(cellId, options)
  }

  async importCell(source: AsyncIterable<Uint8Array>, options: ImportCellOptions = {}): Promise<string> {
    const { sqlPolicy } = this.#context
    return (await this.#store.importCell(source, { ...options, sqlPolicy })).id
  }

  async backup(cellId: string, kind: BackupKind, options: MakeBackupOptions = {}): Promise<BackupResult> {
    return await this.#store.backups[kind](cellId, options)
  }

  async restore(cellId: string, options: RestoreOptions = {}): Promise<RestoreResult> {
    return await this.#store.backups.restore(cellId, options)
  }

  async verify(cellId: string, options: VerifyOptions = {}): Promise<VerifyResult> {
    return await this.#store.backups.verify(cellId, options)
  }

  async listBackups(cellId: string, page: BackupPageOptions, signal?: AbortSignal): Promise<BackupList> {
    return await this.#store.backups.list(cellId, { ...page, signal })
  }

  async latestBackup(cellId: string, signal?: AbortSignal): Promise<BackupInfo | undefined> {
    return await this.#store.backups.latest(cellId, signal)
  }

  #run(cellId: string, operation: ReadableOperation, permit: OperationPermit | undefined): unknown {
    const cell = this.#cell(cellId)
    permit?.check()
    const parsed = parseOperation(operation)
    if (mayChange(parsed)) return cell.commit(() => applyOperation(cell, parsed, this.#context))
    return applyOperation(cell, parsed, this.#context)
  }

  #cell(cellId: string): Cell {
    const known = this.#cells.get(cellId)
    if (known !== undefined) return known
    const cell = this.#store.openCell(cellId)
    this.#cells.set(cellId, cell)
    return cell
  }

  #untilLocal(cellId: string): Promise<void> {
    return waitForRestore(this.#store.openCell(cellId).ensureLocal(), this.#store.clock, this.#restoreWaitMs)
  }
}

/** What reads bodies takes long to load, and few programs that use the library need it. */
async function read(operation: UnreadOperation): Promise<ReadableOperation> {
  const { readUnread } = await import('./json/requests.ts')
  return readUnread(operation).operation
}
