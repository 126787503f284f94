import type { Accounts } from '../auth/accounts.ts'
import type { ApiKeys } from '../auth/api-keys.ts'
import type { Archiver } from '../backup/archiver/archiver.ts'
import { type BackupManager, objectStoreNotConfigured, orReason } from '../backup/backup-manager.ts'
import type { CallOptions } from '../backup/object-store/object-store.ts'
import type { VerificationTable } from '../backup/verify/verification-table.ts'
import type { Retention } from '../backup/versions/retention/retention.ts'
import { runAll } from '../base/async/run-all.ts'
import { type Clock, turnOfTheLoop } from '../base/clock.ts'
import type { Turns } from '../base/fairness/turns.ts'
import { checkOptions, type Given } from '../base/options/option-shapes.ts'
import type { Paged } from '../base/paging.ts'
import type { CellListOptions, CellRecord, RecordPage } from '../catalog/cell-registry.ts'
import type { RequestedBackups } from '../catalog/requested-backups.ts'
import { CellError } from '../errors.ts'
import { type BranchCellOptions, isBranch } from './cells/cell-branches.ts'
import type { CreatedCell } from './cells/cell-creations.ts'
import type {
  CellDirectory,
  CellPage,
  CreateCellOptions,
  FindByNameOptions,
  ListedCell,
  NamedCellOptions,
  PurgedCell,
} from './cells/cell-directory.ts'
import { copyCell, type ExportedFile, exportToSpool, type ServedExportOptions } from './cells/cell-export.ts'
import { type ImportCellOptions, importHere } from './cells/cell-imports.ts'
import { checkIsId } from './cells/cell-names.ts'
import { type Archiving, archivingInProcess } from './open/archiving.ts'
import type { Cell } from './open/cell.ts'
import { LocalCells } from './open/local-cells.ts'
import type { ConfirmOptions } from './open/replication.ts'
import { hostInProcess, type RangeHost } from './residence/range-host.ts'
import {
  CLOSE,
  type CloseOptions,
  checkNamedOptions,
  DELETE,
  type DeleteCellOptions,
  FIND,
} from './settings/call-options.ts'
import type { StoreSettings } from './settings/settings.ts'
import type { StoreOptions } from './settings/store-options.ts'
import { type StartMode, type StoreParts, startStore } from './start/start-store.ts'
import { CATALOG_SCHEMA, StoreCore } from './store-core.ts'
import { type StoreMetrics, storeMetrics } from './store-metrics.ts'
import { Upkeep } from './upkeep.ts'

const CLOSE_DEADLINE_MS = 10_000

/**
 * A directory of cells that this process owns and opens: no other process can open it meanwhile.
 *
 * ```ts
 * const store = await CellStore.create('./data', { objectStore: 'file:///var/backups/cells' })
 * const cell = store.cell('acme')
 * ```
 */
export class CellStore implements CellDirectory {
  /** @internal */
  readonly core: StoreCore
  readonly #cells: LocalCells
  readonly #upkeep: Upkeep
  /** Undefined without an object store. */
  readonly #archiving: Archiving<Archiver> | undefined
  /** @internal */
  readonly host: RangeHost | undefined
  #closing: Promise<void> | undefined

  private constructor(core: StoreCore) {
    const { paths, settings, hints, cellsFolder, destination } = core
    this.core = core
    this.#upkeep = new Upkeep(core)
    this.#cells = new LocalCells({
      paths,
      spool: core.spool,
      settings,
      hints,
      folder: cellsFolder,
      changes: destination,
      record: (id) => core.findCell(id),
      expiryNoted: (id, expiresAt) => this.#upkeep.expiryNoted(id, expiresAt),
      commits: core.changes,
      recover: destination && ((id) => this.backups.ensureLocal(id)),
      replicated: (id, options) => this.#replicated(id, options),
    })
    core.guard?.lost.listen((error) => this.#takenOver(error))
    this.#archiving = archivingInProcess(core, this.#cells, this.#upkeep)
    this.host = hostInProcess(core, this.#archiving, this.#cells, this.#upkeep)
  }

  /**
   * Creates a store in a directory that holds none. The directory is created if necessary.
   *
   * @throws `store_exists` if the directory or the object store holds one, `store_locked`, `object_store_unavailable`,
   * `object_store_mismatch`, `invalid_setting`, `unsupported_runtime`; nothing new is left on disk then
   */
  static create(directory: string, options: StoreOptions = {}): Promise<CellStore> {
    return CellStore.#start('create', directory, options)
  }

  /**
   * Opens a store. If the directory is empty and the object store has this store's backups, the catalog is restored from
   * there, and its cells after it: in the background, and each one at once with its first use.
   *
   * @throws `store_not_found`, `store_locked`, `backup_corrupt`, `object_store_in_use`, `store_outdated`, and as {@link create}
   */
  static open(directory: string, options: StoreOptions = {}): Promise<CellStore> {
    return CellStore.#start('open', directory, options)
  }

  /**
   * Opens the store in the directory or the object store. Creates a new one only if both are proven empty.
   *
   * @throws as {@link open}
   */
  static openOrCreate(directory: string, options: StoreOptions = {}): Promise<CellStore> {
    return CellStore.#start('open-or-create', directory, options)
  }

  static #start(mode: StartMode, directory: string, options: StoreOptions): Promise<CellStore> {
    const build = (parts: StoreParts) => new CellStore(new StoreCore(parts))
    return startStore(mode, directory, options, CATALOG_SCHEMA, build)
  }

  /** A UUID. */
  get id(): string {
    return this.core.id
  }

  /** Epoch milliseconds. */
  get createdAt(): number {
    return this.core.createdAt
  }

  /** The options, with every default filled in. */
  get settings(): StoreSettings {
    return this.core.settings
  }

  /** The clock that times to live and schedules follow. */
  get clock(): Clock {
    return this.core.clock
  }

  /** Owners of cells and API keys. */
  get accounts(): Accounts {
    return this.core.accounts
  }

  /** The keys of accounts, which give access over HTTP. */
  get apiKeys(): ApiKeys {
    return this.core.apiKeys
  }

  /** @internal */
  get requestedBackups(): RequestedBackups {
    return this.core.requestedBackups
  }

  /** @internal */
  get filesReplaced(): CellDirectory['filesReplaced'] {
    return this.core.filesReplaced
  }

  /** @internal */
  databaseBytes(id: string): number {
    return this.core.databaseBytes(id)
  }

  /** @internal */
  storedBytes(id: string): number {
    return this.core.storedBytes(id)
  }

  /** @internal */
  checkRoomForCell(accountId: string): void {
    this.core.checkRoomForCell(accountId)
  }

  /** @internal */
  holdRoomForCell(accountId: string, cellId: string): () => void {
    return this.core.holdRoomForCell(accountId, cellId)
  }

  /** @internal */
  get turns(): Turns {
    return this.core.turns
  }

  /** @internal */
  inTurn<T>(accountId: string, creation: () => Promise<T>): Promise<T> {
    return this.core.inTurn(accountId, creation)
  }

  /** @internal */
  addCell(options?: CreateCellOptions): Promise<{ id: string; replayed?: true }> {
    return this.core.addCell(options)
  }

  /** @internal */
  durably<T>(change: () => T): Promise<T> {
    return this.core.durably(change)
  }

  /** @internal */
  isRemote(id: string): boolean {
    return this.#cells.isRemote(id)
  }

  /** @throws `object_store_not_configured` if the store was opened without one */
  get backups(): BackupManager {
    if (this.#archiving === undefined) throw objectStoreNotConfigured()
    return this.#archiving.backups
  }

  get retention(): Retention | undefined {
    return this.core.retention
  }

  /** @internal */
  get verifications(): VerificationTable | undefined {
    return this.core.verifications
  }

  /**
   * Opens the cell of a name, and creates it if there is none: of an account, or without `accountId` among the cells that
   * only the library uses. Another account's cell of the same name is another cell.
   *
   * ```ts
   * store.cell('acme').kv.put('greeting', 'Hello')
   * ```
   *
   * @param name 1 to 255 characters
   * @throws `name_ambiguous` if an earlier version made several cells of this name; as {@link createCell}
   */
  cell<O extends NamedCellOptions & Given<O, NamedCellOptions>>(name: string, options?: O): Cell
  cell(name: string, options: NamedCellOptions = {}): Cell {
    checkNamedOptions(options, this.core.accounts)
    const id = this.core.names.find(options.accountId ?? null, name)
    return id === undefined ? this.createCell({ ...options, name }) : this.#cells.handle(id)
  }

  /**
   * Creates a cell with a state of another cell, from its backups. The other cell may be deleted, and stays as it is. The new
   * cell has its durability, unless another one is given, and an id of its own. If anything fails, there is no new cell.
   *
   * ```ts
   * const copy = await store.createCell({ from: { cellId: cell.id }, name: 'acme-test' })
   * ```
   *
   * @throws `cell_not_found` if there is no such cell of the account, `backup_not_found`, `backup_corrupt`, `invalid_version`,
   * `cell_full`, `idempotency_in_progress`, `object_store_not_configured`, `object_store_unavailable`, `object_store_error`;
   * as without `from`
   */
  createCell<O extends BranchCellOptions & Given<O, BranchCellOptions>>(
    options: O,
  ): Promise<Cell & { replayed?: true }>
  /**
   * Creates a cell; it is on disk when this returns.
   *
   * @throws `name_taken` if the account has a cell of this name, `account_not_found`, `idempotency_key_reused`, `invalid_request`, `quota_exceeded`, `rate_limited`, `disk_full`
   */
  createCell<O extends CreateCellOptions & Given<O, CreateCellOptions>>(
    options?: O,
  ): Cell & { replayed?: true }
  createCell(
    options: CreateCellOptions | BranchCellOptions = {},
  ): (Cell & { replayed?: true }) | Promise<Cell & { replayed?: true }> {
    if (isBranch(options)) return this.#branch(options)
    return this.#created(this.core.createCell(options))
  }

  /**
   * Makes a cell of a SQLite database that was made elsewhere, or by `cell.export()`. The database is checked and rebuilt in
   * another thread. Then there is a whole cell; if anything fails, there is none.
   *
   * ```ts
   * const cell = await store.importCell('acme.db', { name: 'acme' })
   * ```
   *
   * @param source a path, or a stream of the file's bytes
   * @throws `invalid_database` for a file that is none, that is damaged, or whose schema is not allowed; `body_too_large`,
   * `cell_full`; `invalid_request` for a path that can't be read; the signal's reason; `not_replicated`: the cell is on this machine; as {@link createCell}
   */
  importCell<O extends ImportCellOptions & Given<O, ImportCellOptions>>(
    source: string | AsyncIterable<Uint8Array>,
    options?: O,
  ): Promise<Cell>
  async importCell(
    source: string | AsyncIterable<Uint8Array>,
    options: ImportCellOptions = {},
  ): Promise<Cell> {
    const { id } = await this.core.imports.import(source, options, importHere)
    await this.confirmCell(id).finally(() => this.#upkeep.cellMade(id))
    return this.#cells.handle(id)
  }

  /** @internal */
  exportToSpool(id: string, { permit, ...options }: ServedExportOptions): Promise<ExportedFile> {
    const cell = { database: () => this.#cells.open(id), assertExists: () => void this.#cells.record(id) }
    const copy = (file: string) => copyCell(cell, file, options)
    return exportToSpool(this.#cells.spool, this.#cells.sizeBytes(id), copy, permit)
  }

  /** @throws `cell_not_found` */
  openCell(id: string): Cell {
    checkIsId(id)
    this.#cells.record(id)
    return this.#cells.handle(id)
  }

  /** With the durability `remote`: resolves once the cell and its record are in the object store. @internal */
  async confirmCell(id: string): Promise<void> {
    await this.#archiving?.replication.confirmCell(id)
  }

  /** The same of the cell's record alone: its name, its deletion, its return. @internal */
  async confirmRecord(id: string): Promise<void> {
    await this.#archiving?.replication.confirmRecord(id)
  }

  /** Stores what a cell has not stored yet, if the object store takes it in time; also what waits for a hold or a group commit. @internal */
  async beforeDeletion(id: string): Promise<void> {
    await this.#cells.pool.peek(id)?.holds.released()
    await turnOfTheLoop()
    await this.#archiving?.backups.beforeDeletion(id)
  }

  /**
   * Deletes a cell and its local files, at once. Its backups stay; a restore from one brings the cell back. What is not stored yet
   * goes with the files: make a backup before, with `store.backups.incremental(id)`, for its last state.
   *
   * @param options.requestId an id of yours, for the line of the log
   * @throws `cell_not_found`, `invalid_request` inside a transaction of the cell
   */
  deleteCell(id: string, options: DeleteCellOptions = {}): void {
    checkOptions(options, DELETE)
    const { accountId } = this.#cells.record(id)
    const open = this.#cells.pool.peek(id)
    const text = 'The cell has an open transaction. Delete the cell after its end.'
    if (open?.inTransaction && open.held?.isRunning !== false) throw new CellError('invalid_request', text)
    const { lifecycle } = this.core
    lifecycle.noteDeletionNow(id)
    lifecycle.setDeleted(id, options.requestId)
    this.#cells.release(id)
    lifecycle.removeLocal(id, accountId)
  }

  /**
   * Removes all backups of a deleted cell; nothing can bring the cell back after that. Log objects hold what it has committed until they go with their age (`historyMs`).
   *
   * @throws `cell_not_found`, `invalid_request` for a cell that is not deleted, `restore_in_progress`, `busy` during another
   * purge of it, `object_store_not_configured`
   */
  purgeCell(id: string, options: CallOptions = {}): Promise<PurgedCell> {
    return this.core.purgeCell(id, options)
  }

  /** A cell's record in the catalog, also of a deleted cell. */
  findCell(id: string): CellRecord | undefined {
    return this.core.findCell(id)
  }

  /**
   * The record of the cell that {@link cell} would open; undefined where it would make one. For names that come from outside.
   *
   * ```ts
   * const record = store.findCellByName('acme')
   * const cell = record && store.openCell(record.id)
   * ```
   *
   * @throws `invalid_request`, `name_ambiguous` if an earlier version made several cells of this name
   */
  findCellByName<O extends FindByNameOptions & Given<O, FindByNameOptions>>(
    name: string,
    options?: O,
  ): CellRecord | undefined
  findCellByName(name: string, options: FindByNameOptions = {}): CellRecord | undefined {
    checkOptions(options, FIND)
    const id = this.core.names.lookUp(options.accountId ?? null, name)
    return id === undefined ? undefined : this.core.findCell(id)
  }

  /**
   * Up to when everything that the cell has committed is in the object store, in epoch milliseconds; null if nothing of it is.
   * It is as this machine knows: the object store is not asked.
   */
  backedUpTo(id: string): number | null {
    return this.core.backedUpTo(id)
  }

  /**
   * Gives a cell another name; null: none. A handle shows it at once, and the cell's next backup has it.
   *
   * @throws `cell_not_found`, `name_taken`, `invalid_request`
   */
  renameCell(id: string, name: string | null): void {
    this.core.renameCell(id, name)
  }

  /** A page of the cells that exist, in order of creation; with `for await`, all of them. @throws `invalid_request` */
  cells<O extends CellListOptions & Given<O, CellListOptions, 'name'>>(
    options?: O,
  ): Paged<CellPage, ListedCell>
  cells(options: CellListOptions = {}): Paged<CellPage, ListedCell> {
    return this.core.cells(options)
  }

  /** What the store has done since it was opened, and what it has now: plain data, for a monitoring system of yours. */
  metrics(): StoreMetrics {
    const { statements, commits } = this.#cells.counts
    const ofCells = { statements, commits, cellsOpen: this.#cells.pool.size, workers: undefined }
    return storeMetrics(this.core, ofCells, this.#archiving?.backups)
  }

  /** @internal */
  chargeRename(accountId: string): void {
    this.core.chargeRename(accountId)
  }

  /** @internal */
  cellRecords(options?: CellListOptions): Paged<RecordPage, CellRecord> {
    return this.core.cellRecords(options)
  }

  /** @internal */
  lookAt(ids: readonly string[]): ReturnType<CellDirectory['lookAt']> {
    return this.core.lookAt(ids)
  }

  /** @internal Starts the background work. */
  start(): void {
    this.core.start()
    this.#upkeep.start({
      backup: (id, kind, options, need) => this.backups.backup(id, kind, options, need),
      prove: (id, options) => this.backups.prove(id, options, 'background'),
      collect: (id, signal) => this.#cells.collect(id, signal),
      recover: (id, signal) => this.backups.recoverIfLost(id, 'background', signal),
    })
    void this.#archiving?.search.search()
  }

  /**
   * Ends the background work and imports, checkpoints and closes every cell, and releases the directory. A second call returns
   * the promise of the first.
   *
   * @throws `invalid_request` for an option that is not known, or a deadline below 0
   */
  close(options: CloseOptions = {}): Promise<void> {
    checkOptions(options, CLOSE)
    this.#closing ??= this.#close(options.deadlineMs ?? CLOSE_DEADLINE_MS)
    return this.#closing
  }

  async #branch(options: BranchCellOptions): Promise<Cell & { replayed?: true }> {
    checkIsId(options.from?.cellId)
    const created = await orReason(options.signal, this.core.branches.branch(options, this.backups.branches))
    await this.confirmCell(created.id).finally(() => this.#upkeep.cellMade(created.id))
    return this.#created(created)
  }

  #created({ id, replayed }: CreatedCell): Cell & { replayed?: true } {
    return Object.assign(this.#cells.handle(id), replayed && { replayed })
  }

  /** {@link close}, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #replicated(id: string, options: ConfirmOptions): Promise<void> {
    if (this.#archiving === undefined) throw objectStoreNotConfigured()
    await this.#archiving.replication.confirm(id, options)
  }

  /** A read would show what may have changed elsewhere, so nothing is served any more. */
  #takenOver(error: CellError): void {
    this.#cells.closeFor(error)
    void this.#upkeep.stop()
  }

  async #close(deadlineMs: number): Promise<void> {
    const deadline = new AbortController()
    const timer = this.clock.setTimer(() => deadline.abort(), deadlineMs)
    await runAll([
      // A backup under way may wait for them.
      () => this.#cells.pool.endHolds('the store was closed'),
      () => this.#archiving?.backups.stop(),
      () => this.core.imports.stop(deadline.signal),
      () => this.#upkeep.stop(),
      () => this.#archiving?.search.stop(),
      () => this.#archiving?.archiver.stop(deadline.signal),
      () => this.#cells.close(),
      () => this.core.close(deadline.signal),
      () => timer.cancel(),
    ])
  }
}
