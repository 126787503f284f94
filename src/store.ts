import fs from 'node:fs'
import { ACCOUNTS_SCHEMA, Accounts } from './auth/accounts.ts'
import { API_KEYS_SCHEMA, ApiKeys } from './auth/api-keys.ts'
import { FirstKey } from './auth/first-key.ts'
import { IDEMPOTENCY_SCHEMA, Idempotency, type IdempotencyKey } from './auth/idempotency.ts'
import type { BackupManager } from './backup/backup-manager.ts'
import type { ObjectStore } from './backup/object-store.ts'
import { finishRestore } from './backup/restore-install.ts'
import { Cell } from './cell.ts'
import { CELL_SCHEMA, CellFiles } from './cell-files.ts'
import { cellHooks, trackedBy } from './cell-hooks.ts'
import { Catalog } from './engine/catalog.ts'
import type { CellDatabaseSettings, CellHooks, Durability } from './engine/cell-database.ts'
import { newCellId } from './engine/cell-path.ts'
import { CellPool } from './engine/cell-pool.ts'
import {
  CELLS_SCHEMA,
  type CellListOptions,
  type CellPage,
  type CellRecord,
  CellRegistry,
  cellNotFound,
} from './engine/cell-registry.ts'
import type { Clock } from './engine/clock.ts'
import type { DirectoryLock } from './engine/directory-lock.ts'
import { checkDisplayName } from './engine/display-name.ts'
import { LocalState } from './engine/local-state.ts'
import { CellError, isCellError } from './errors.ts'
import { forEachCell } from './for-each-cell.ts'
import { ExpiryHints } from './kv/expiry-hints.ts'
import { ExpirySweeper } from './kv/expiry-sweeper.ts'
import type { StoreOptions, StoreSettings } from './settings.ts'
import { type StoreParts, startStore } from './start-store.ts'
import { StoreBackups } from './store-backups.ts'

export interface CreateCellOptions {
  /** For people; need not be unique. */
  name?: string | undefined
  /** Whose it is. Without one, only the library sees it. */
  accountId?: string | undefined
  /** In place of the store's. */
  durability?: Durability | undefined
  /** Makes a repeated call return the first one's cell. Only with an account. */
  idempotency?: IdempotencyKey | undefined
}

export interface CloseOptions {
  /** How long backups that are under way may take, in milliseconds; 10,000 by default. */
  deadlineMs?: number | undefined
}

const CLOSE_DEADLINE_MS = 10_000
/** Within this time after the machine went down every cell is looked at for expired entries. */
const LOOK_WITHIN_MS = 60 * 60 * 1_000

/** What the catalog holds beside its own table. */
const CATALOG_TABLES = [CELLS_SCHEMA, ACCOUNTS_SCHEMA, API_KEYS_SCHEMA, IDEMPOTENCY_SCHEMA]

/**
 * A directory of cells, owned by this process (invariant 2). The composition root: it wires the parts together and holds
 * no logic of theirs.
 *
 * ```ts
 * const store = await CellStore.create('./data', { objectStore: 'file:///var/backups/cells' })
 * const cell = store.createCell({ name: 'acme' })
 * ```
 */
export class CellStore {
  readonly settings: StoreSettings
  readonly accounts: Accounts
  readonly apiKeys: ApiKeys
  readonly firstKey: FirstKey
  readonly #lock: DirectoryLock
  readonly #objectStore: ObjectStore | undefined
  readonly #state: LocalState
  readonly #catalog: Catalog
  readonly #registry: CellRegistry
  readonly #idempotency: Idempotency
  readonly #files: CellFiles
  readonly #pool: CellPool
  readonly #hints: ExpiryHints
  readonly #sweeper: ExpirySweeper
  readonly #backups: StoreBackups | undefined
  #closing: Promise<void> | undefined

  /** @internal Use {@link CellStore.create}, {@link CellStore.open} or {@link CellStore.openOrCreate}. */
  constructor({ paths, settings, lock, objectStore }: StoreParts) {
    this.settings = settings
    this.#lock = lock
    this.#objectStore = objectStore
    const { clock, log } = settings
    fs.rmSync(paths.spool, { recursive: true, force: true })
    this.#catalog = new Catalog(
      paths.catalog,
      { ...this.#cellSettings('full'), sqlPolicy: 'trusted' },
      {
        ...trackedBy(() => this.#backups?.manager.tracker(this.id)),
        failed: (err) => this.#failed('catalog', err),
      },
      () => this.#backups?.catalogChanged(),
    )
    try {
      this.#state = new LocalState(paths.localState, objectStore?.url)
    } catch (error) {
      this.#catalog.close()
      throw error
    }
    const { movedFrom } = this.#state
    if (movedFrom !== undefined) {
      log.warn({ from: movedFrom }, 'backups go to another object store than before: there they begin anew')
    }
    this.#registry = new CellRegistry(this.#catalog, settings.limits.pageMax)
    this.accounts = new Accounts(this.#catalog, clock)
    this.apiKeys = new ApiKeys(this.#catalog, clock)
    this.firstKey = new FirstKey(this.#catalog, this.accounts, this.apiKeys)
    this.#idempotency = new Idempotency(this.#catalog, clock)
    this.#files = new CellFiles(paths)
    this.#pool = new CellPool(settings.openCellsMax, {
      paths: (id) => paths.cell(id),
      settings: (id) => this.#cellSettings(this.#registry.require(id).durability ?? settings.durability),
      hooks: (id) => this.#cellHooks(id),
      beforeOpen: (id, cellPaths) =>
        finishRestore(cellPaths, { building: this.#backups?.manager.isRestoring(id) ?? false }),
      missing: (id) => this.#missing(id),
    })
    this.#hints = new ExpiryHints(this.#state)
    this.#sweeper = new ExpirySweeper(this.#hints, { borrow: (id) => this.#borrow(id) }, clock, log)
    if (objectStore === undefined) return
    this.#backups = new StoreBackups({
      objectStore,
      paths,
      settings,
      state: this.#state,
      catalog: this.#catalog,
      registry: this.#registry,
      pool: this.#pool,
      onRestored: (id) => this.#sweeper.lookAt(id),
    })
  }

  /**
   * Makes a new store in a directory that holds none; the directory is made if need be.
   *
   * @throws `store_exists` if there is one here or in the object store, `store_locked`, `object_store_unavailable`,
   * `object_store_mismatch`, `invalid_setting`, `unsupported_runtime`; nothing is left then
   */
  static create(directory: string, options: StoreOptions = {}): Promise<CellStore> {
    return startStore('create', directory, options, CATALOG_TABLES, (parts) => new CellStore(parts))
  }

  /**
   * Opens a store. If the directory is empty and the object store has this store's backups, the catalog comes back from
   * there, and each cell with its first use.
   *
   * @throws `store_not_found`, `store_locked`, `backup_corrupt`, and as {@link create}
   */
  static open(directory: string, options: StoreOptions = {}): Promise<CellStore> {
    return startStore('open', directory, options, CATALOG_TABLES, (parts) => new CellStore(parts))
  }

  /**
   * Opens the store that is here or in the object store; makes a new one only if both are proven empty (invariant 14).
   *
   * @throws as {@link open}
   */
  static openOrCreate(directory: string, options: StoreOptions = {}): Promise<CellStore> {
    return startStore('open-or-create', directory, options, CATALOG_TABLES, (parts) => new CellStore(parts))
  }

  get id(): string {
    return this.#catalog.storeId
  }

  get clock(): Clock {
    return this.settings.clock
  }

  /** @throws `object_store_not_configured` if the store was opened without one */
  get backups(): BackupManager {
    if (this.#backups !== undefined) return this.#backups.manager
    throw new CellError(
      'object_store_not_configured',
      'The store has no object store. Open it with the objectStore option.',
    )
  }

  /** True if backups can be made. */
  get hasBackups(): boolean {
    return this.#backups !== undefined
  }

  /**
   * Makes a cell; it is on disk when this returns.
   *
   * @throws `idempotency_key_reused`, `invalid_request`, `disk_full`
   */
  createCell(options: CreateCellOptions = {}): Cell & { replayed?: true } {
    const { name, accountId, durability, idempotency } = options
    checkDisplayName(name)
    checkDurability(durability)
    this.#catalog.assertOpen()
    if (accountId !== undefined && idempotency !== undefined) {
      const first = this.#idempotency.find(accountId, idempotency)
      if (first !== undefined) return Object.assign(this.#handle(first), { replayed: true as const })
    }
    const record: CellRecord = {
      id: newCellId(),
      accountId: accountId ?? null,
      name: name ?? null,
      createdAt: this.clock.now(),
      deletedAt: null,
      durability: durability ?? null,
    }
    // The file first: the catalog never names a cell that was not there.
    this.#files.write(record.id)
    try {
      this.#catalog.change(() => {
        this.#registry.insert(record)
        if (accountId !== undefined && idempotency !== undefined)
          this.#idempotency.insert(accountId, idempotency, record.id)
      })
    } catch (error) {
      this.#removeLocal(record.id)
      throw error
    }
    return this.#handle(record.id)
  }

  /** @throws `cell_not_found` */
  openCell(id: string): Cell {
    this.#registry.require(id)
    return this.#handle(id)
  }

  /**
   * Deletes a cell and its local files. Its backups stay, and restoring one brings it back.
   *
   * @throws `cell_not_found`, `invalid_request` inside a transaction of the cell
   */
  deleteCell(id: string): void {
    this.#registry.require(id)
    if (this.#pool.peek(id)?.inTransaction) {
      throw new CellError('invalid_request', 'A cell can not be deleted inside a transaction of its own.')
    }
    this.#registry.setDeleted(id, this.clock.now())
    this.#pool.close(id)
    this.#removeLocal(id)
  }

  /** What the catalog says of a cell, also of a deleted one. */
  findCell(id: string): CellRecord | undefined {
    return this.#registry.find(id)
  }

  /** The cells that are there, in the order they were made, a page at a time. @throws `invalid_request` */
  cells(options: CellListOptions = {}): CellPage {
    return this.#registry.list(options)
  }

  /** Bytes of the cell's database and log on this machine; 0 while its data is not here. @throws `cell_not_found` */
  cellSizeBytes(id: string): number {
    this.#registry.require(id)
    return this.#files.sizeBytes(id)
  }

  /**
   * Brings a cell's data back from its newest backup if it is not on this machine.
   *
   * @throws `cell_not_found`, `no_backup`, and as `backups.restore()`
   */
  async ensureLocal(id: string): Promise<void> {
    this.#registry.require(id)
    if (this.#isLocal(id)) return
    if (this.#backups === undefined) throw noBackup()
    await this.#backups.manager.ensureLocal(id)
  }

  /** Resolves once every change of the catalog so far is in the object store; at once if there is none. */
  async catalogStored(): Promise<void> {
    await this.#backups?.catalogStored()
  }

  /** Tells commands on this machine where the node listens. */
  publishSocket(path: string | null): void {
    this.#lock.publishSocket(path)
  }

  /** Starts what runs by itself: expiry, the catalog's backup, the schedule. @internal */
  start(): void {
    this.#sweeper.start()
    this.#backups?.start()
    if (this.#state.complete) return
    const look = (id: string) => this.#lookAt(id)
    forEachCell(this.#registry, look, () => this.#closing !== undefined)
      .then(() => {
        if (this.#closing !== undefined) return
        this.#state.markComplete()
        this.#sweeper.start()
      })
      .catch((err) =>
        this.settings.log.error({ err }, 'not all cells could be looked at after the machine went down'),
      )
  }

  /** Ends what is under way, checkpoints and closes every cell, and gives the directory free. A repeat is the same call. */
  close(options: CloseOptions = {}): Promise<void> {
    this.#closing ??= this.#close(options.deadlineMs ?? CLOSE_DEADLINE_MS)
    return this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Goes on to the end whatever fails on the way, and throws the first failure. */
  async #close(deadlineMs: number): Promise<void> {
    const deadline = new AbortController()
    const timer = this.clock.setTimer(() => deadline.abort(), deadlineMs)
    const steps: (() => void | Promise<void> | undefined)[] = [
      () => this.#sweeper.stop(),
      () => this.#backups?.finish(deadline.signal),
      () => this.apiKeys.flush(),
      () => this.#backups?.stop(deadline.signal),
      () => this.#pool.closeAll(),
      () => this.#catalog.close(),
      () => this.#state.close(),
      () => this.#objectStore?.close(),
      () => timer.cancel(),
      () => this.#lock.release(),
    ]
    const failures: unknown[] = []
    for (const step of steps) {
      try {
        await step()
      } catch (error) {
        failures.push(error)
      }
    }
    if (failures.length > 0) throw failures[0]
  }

  #handle(id: string): Cell {
    return new Cell(id, () => this.#pool.open(id), {
      clock: this.clock,
      limits: this.settings.limits,
      expiryNoted: (expiresAt) => this.#sweeper.note(id, expiresAt),
    })
  }

  #cellSettings(durability: Durability): CellDatabaseSettings {
    const { sqlPolicy, limits, pageCacheBytes, checkpointBytes } = this.settings
    return { durability, sqlPolicy, limits, pageCacheBytes, checkpointBytes }
  }

  #removeLocal(id: string): void {
    this.#backups?.manager.forgetLocal(id)
    this.#hints.remove(id)
    this.#files.remove(id)
  }

  #isLocal(id: string): boolean {
    return this.#pool.peek(id) !== undefined || this.#files.exists(id)
  }

  /** A cell that the catalog names has no file: lost, unless it was deleted. Its restore begins at once. */
  #missing(id: string): CellError {
    const record = this.#registry.find(id)
    if (record === undefined || record.deletedAt !== null) return cellNotFound()
    if (this.#backups === undefined) return noBackup()
    this.#backups.manager
      .ensureLocal(id)
      .catch((err) => this.settings.log.error({ cellId: id, err }, 'a lost cell could not be restored'))
    return new CellError(
      'cell_restoring',
      "The cell's data is being restored from its newest backup. Try again, or await ensureLocal() first.",
      { retryAfterMs: 1_000 },
    )
  }

  #cellHooks(id: string): CellHooks {
    return cellHooks(CELL_SCHEMA, this.clock, () => this.#backups?.manager.tracker(id), {
      failed: (err) => this.#failed(id, err),
      closed: () => {
        this.#hints.forget(id)
        this.#backups?.manager.closed(id)
      },
    })
  }

  #failed(id: string, err: unknown): void {
    const isDamaged = isCellError(err, 'cell_quarantined')
    const what = isDamaged ? 'the cell is damaged, and is kept closed' : 'upkeep of a cell has failed'
    this.settings.log.error({ cellId: id, err }, what)
  }

  /** After the machine went down, rows of the local state may be missing: what they told shows in the cell's files. */
  #lookAt(id: string): void {
    this.#hints.setIfAbsent(id, this.clock.now() + Math.floor(this.settings.random() * LOOK_WITHIN_MS))
    const tracker = this.#backups?.manager.tracker(id)
    if (tracker?.differsFromFiles()) tracker.foundChanged()
    if (this.#pool.peek(id) === undefined) this.#backups?.manager.closed(id)
  }

  #borrow(id: string): ReturnType<ConstructorParameters<typeof ExpirySweeper>[1]['borrow']> {
    const wasOpen = this.#pool.peek(id) !== undefined
    const { database, unpin } = this.#pool.pin(id)
    const done = () => {
      unpin()
      if (!wasOpen && !database.busy && database.usedAt === usedAt) this.#pool.close(id)
    }
    const usedAt = database.usedAt
    return { database, done }
  }
}

function checkDurability(durability: Durability | undefined): void {
  if (durability === undefined || durability === 'full' || durability === 'relaxed') return
  throw new CellError('invalid_request', 'durability is full or relaxed.', { field: 'durability' })
}

function noBackup(): CellError {
  return new CellError(
    'no_backup',
    "The cell's local data is lost, and there is no object store to restore it from.",
  )
}
