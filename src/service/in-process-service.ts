import type { BackupManager } from '../backup/backup-manager.ts'
import { KeyedQueue } from '../base/fairness/keyed-queue.ts'
import { LruCache } from '../base/lru-cache.ts'
import type { SqlPolicy } from '../engine/cell-settings.ts'
import { sqlShape } from '../engine/sql-policy/sql-shape.ts'
import { isCellError } from '../errors.ts'
import type { CellHost } from '../store/cell-host.ts'
import type { CellStore } from '../store/cell-store.ts'
import type { BranchCellOptions } from '../store/cells/cell-branches.ts'
import type { CreatedCell } from '../store/cells/cell-creations.ts'
import type { ExportedFile, ServedExportOptions } from '../store/cells/cell-export.ts'
import type { ImportCellOptions } from '../store/cells/cell-imports.ts'
import type { Cell } from '../store/open/cell.ts'
import type { WatchOptions } from '../store/watch/cell-change.ts'
import type { ChangeStream } from '../store/watch/change-stream.ts'
import {
  type ApplyContext,
  applyOperation,
  mayChange,
  mayCommitAlone,
  needsSession,
  type ParsedOperation,
  parseOperation,
  parseRequest,
  RUNS_SQL,
} from './apply-operation.ts'
import { beginWatch } from './begin-watch.ts'
import type {
  CellDescription,
  CellService,
  ExecuteOptions,
  OperationPermit,
  ServedDeleteOptions,
} from './cell-service.ts'
import { OpenHolds } from './holds/open-holds.ts'
import { tracedOperation } from './operation-trace.ts'
import type { CellOperation, CellRequest, OperationHold, RequestBounds, ResultOf } from './operations.ts'
import type { ReadBounds } from './requests/cell-routes.ts'
import { waitForRestore } from './restore-wait.ts'
import { logSlowStatement, SLOW_MS_DEFAULT } from './slow-statements.ts'

export interface InProcessServiceOptions {
  /** How long an operation waits for its cell's data to be restored, in milliseconds. */
  restoreWaitMs: number
  bounds: RequestBounds
  /** What SQL may do; `tenant` unless all callers are trusted. */
  sqlPolicy?: SqlPolicy | undefined
  /** Milliseconds from which on a statement is logged; 500 by default. Null: never. */
  slowMs?: number | null | undefined
}

/** To read a longer body takes a turn of its account. */
const TURN_BYTES = 16_384

/**
 * Runs operations on cells in this process. Reads run as they come; changes join the cell's next group commit, and
 * resolve once it is on disk. A statement blocks everything else while it runs, which workers avoid.
 */
export class InProcessService implements CellService {
  readonly #store: CellStore
  readonly #restoreWaitMs: number
  readonly #context: ApplyContext
  readonly #bounds: ReadBounds
  readonly #slowMs: number | null
  #requests: typeof import('./requests/cell-routes.ts') | undefined
  /** A handle keeps its prepared statements, which a new one would have to prepare again. */
  readonly #cells: LruCache<Cell>
  readonly #holds: OpenHolds
  /** By cell. */
  readonly #deletions = new KeyedQueue()

  constructor(
    store: CellStore,
    { restoreWaitMs, bounds, sqlPolicy = 'tenant', slowMs = SLOW_MS_DEFAULT }: InProcessServiceOptions,
  ) {
    this.#store = store
    this.#restoreWaitMs = restoreWaitMs
    this.#context = { sqlPolicy, clock: store.clock, answerBytesMax: bounds.result.bytesMax }
    this.#bounds = { ...bounds, limits: store.settings.limits }
    this.#slowMs = slowMs
    this.#holds = new OpenHolds(bounds.holds)
    this.#cells = new LruCache(store.settings.openCellsMax)
  }

  /** A statement cannot be interrupted in its own process, so that a deadline has no effect here. */
  execute<O extends CellOperation>(
    cellId: string,
    operation: O,
    options: ExecuteOptions = {},
  ): Promise<ResultOf<O>> {
    this.#store.core.observed.activity.count(cellId)
    return tracedOperation(cellId, operation, options, () => {
      const { ownership, residence } = this.#store.core
      if (ownership.assignment === undefined) return this.#execute(cellId, operation, options)
      return residence.during(cellId, () => this.#execute(cellId, operation, options))
    })
  }

  async #execute<O extends CellOperation>(
    cellId: string,
    operation: O,
    { signal, permit, requestId }: ExecuteOptions,
  ): Promise<ResultOf<O>> {
    signal?.throwIfAborted()
    const parsed =
      operation.op === 'request' ? await this.#read(operation, permit) : parseOperation(operation)
    if (this.#deletions.has(cellId)) await this.#deletions.idle(cellId)
    try {
      return (await this.#run(cellId, parsed, permit, requestId)) as ResultOf<O>
    } catch (error) {
      if (!isCellError(error, 'cell_restoring')) throw error
    }
    await this.#untilLocal(cellId)
    signal?.throwIfAborted()
    return (await this.#run(cellId, parsed, permit, requestId)) as ResultOf<O>
  }

  async watch(cellId: string, options: WatchOptions = {}, permit?: OperationPermit): Promise<ChangeStream> {
    this.#store.core.residence.assertHere(cellId)
    const stream = this.#store.openCell(cellId).watch(options)
    return await beginWatch(this, cellId, stream, { signal: options.signal, permit })
  }

  async describe(cellId: string): Promise<CellDescription> {
    this.#store.core.residence.assertHere(cellId)
    await this.#untilLocal(cellId)
    const { sizeBytes, quarantine } = this.#store.openCell(cellId)
    return { sizeBytes, quarantine }
  }

  async deleteCell(cellId: string, options: ServedDeleteOptions = {}): Promise<void> {
    await this.#store.core.residence.during(cellId, async () => {
      await this.#deletions.run(cellId, () => this.#delete(cellId, options))
      await this.#store.confirmRecord(cellId)
    })
  }

  /** All that is acknowledged is in the last backup: what comes meanwhile waits, and then finds no cell. */
  async #delete(cellId: string, { permit, ...options }: ServedDeleteOptions): Promise<void> {
    await this.#store.beforeDeletion(cellId)
    // What many deletions wait for ends for all of them at once.
    await this.#store.turns.next(this.#store.findCell(cellId)?.accountId ?? '')
    permit?.check()
    this.#store.deleteCell(cellId, options)
  }

  async exportCell(cellId: string, options: ServedExportOptions = {}): Promise<ExportedFile> {
    this.#store.core.residence.assertHere(cellId)
    await this.#untilLocal(cellId)
    return await this.#store.exportToSpool(cellId, options)
  }

  async importCell(source: AsyncIterable<Uint8Array>, options: ImportCellOptions = {}): Promise<string> {
    const { sqlPolicy } = this.#context
    return (await this.#store.importCell(source, { ...options, sqlPolicy })).id
  }

  async branchCell(options: BranchCellOptions): Promise<CreatedCell> {
    const { id, replayed } = await this.#store.createCell(options)
    return replayed === undefined ? { id } : { id, replayed }
  }

  confirmCell(cellId: string): Promise<void> {
    return this.#store.confirmCell(cellId)
  }

  confirmRecord(cellId: string): Promise<void> {
    return this.#store.confirmRecord(cellId)
  }

  /** What this node does when ranges of cells come and go. Undefined without an object store. */
  get host(): CellHost | undefined {
    return this.#store.host
  }

  get backups(): BackupManager {
    return this.#store.backups
  }

  #run(
    cellId: string,
    parsed: ParsedOperation,
    permit: OperationPermit | undefined,
    requestId: string | undefined,
  ): unknown {
    const cell = this.#cell(cellId)
    permit?.check()
    const context = this.#contextOf(parsed, cellId, requestId)
    if (needsSession(parsed)) return this.#runSession(cell, parsed, context)
    if (mayChange(parsed)) return cell.commit(() => applyOperation(cell, parsed, context))
    const result = applyOperation(cell, parsed, context)
    return mayCommitAlone(parsed) && this.#store.isRemote(cellId)
      ? cell.replicated().then(() => result)
      : result
  }

  /** One that goes on in a hold runs at once; others wait for the end of a hold that has the cell. */
  async #runSession(cell: Cell, parsed: ParsedOperation, context: ApplyContext): Promise<unknown> {
    const hold = parsed.hold as OperationHold
    if (!hold.isOpen) for (let over = cell.heldUntil; over !== undefined; over = cell.heldUntil) await over
    let hasCommitted = false
    const committing = () => {
      hasCommitted = true
    }
    const caller = { accountId: cell.accountId ?? '', committing, mayStay: parsed.mayStay }
    const result = this.#holds.run(cell, hold, caller, (session) =>
      applyOperation(session.cell, parsed, { ...context, session }),
    )
    if (hasCommitted && this.#store.isRemote(cell.id)) await cell.replicated()
    return result
  }

  /**
   * In a turn of its account: everything here shares one event loop. What reads requests takes long to load, and few programs that
   * use the library need it.
   */
  async #read(
    request: CellRequest & CellOperation,
    permit: OperationPermit | undefined,
  ): Promise<ParsedOperation> {
    const { body } = request
    if (body !== undefined) {
      const [{ turns }, accountId = ''] = [this.#store, permit?.accountId]
      await (body.length > TURN_BYTES ? turns.next(accountId) : turns.nextSmall(accountId, body.length))
    }
    this.#requests ??= await import('./requests/cell-routes.ts')
    return parseRequest(request, this.#requests.readRequest(request, this.#bounds))
  }

  #contextOf({ op }: ParsedOperation, cellId: string, requestId: string | undefined): ApplyContext {
    const fromMs = this.#slowMs
    if (fromMs === null || !RUNS_SQL.has(op)) return this.#context
    const { log } = this.#store.settings
    const tell = (sql: string, ms: number) =>
      logSlowStatement(log, { cellId, requestId, statement: sqlShape(sql), ms })
    return { ...this.#context, slow: { fromMs, tell } }
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
