import fs from 'node:fs'
import { ACCOUNTS_SCHEMA, Accounts } from '../auth/accounts.ts'
import { API_KEYS_SCHEMA, ApiKeys } from '../auth/api-keys.ts'
import { FirstKey } from '../auth/first-key.ts'
import { IDEMPOTENCY_SCHEMA, Idempotency } from '../auth/idempotency.ts'
import type { BackupManager } from '../backup/backup-manager.ts'
import type { ObjectStore } from '../backup/object-store/object-store.ts'
import type { Clock } from '../base/clock.ts'
import { Catalog } from '../catalog/catalog.ts'
import {
  CELLS_SCHEMA,
  type CellListOptions,
  type CellPage,
  type CellRecord,
} from '../catalog/cell-registry.ts'
import type { DirectoryLock, ProcessIdentity } from '../catalog/directory-lock.ts'
import { LocalState } from '../catalog/local-state.ts'
import type { QuarantineState } from '../engine/quarantine.ts'
import { CellError } from '../errors.ts'
import type { Cell } from './cell.ts'
import { trackedBy } from './cell-hooks.ts'
import { databaseSettings } from './local-cells.ts'
import type { RemoteCells, WorkerEvents } from './remote-cells.ts'
import type { StoreOptions, StoreSettings } from './settings.ts'
import { type StoreParts, startStore } from './start-store.ts'
import { StoreBackups } from './store-backups.ts'
import { type CreateCellOptions, StoreCells } from './store-cells.ts'

export interface CloseOptions {
  /** How long backups that are under way may take, in milliseconds; 10,000 by default. */
  deadlineMs?: number | undefined
}

const CLOSE_DEADLINE_MS = 10_000

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
  readonly #cells: StoreCells
  readonly #backups: StoreBackups | undefined
  readonly #remote: RemoteCells | undefined
  #closing: Promise<void> | undefined

  /** @internal Use {@link CellStore.create}, {@link CellStore.open} or {@link CellStore.openOrCreate}. */
  constructor({ paths, settings, lock, objectStore }: StoreParts, remote?: RemoteCells) {
    this.settings = settings
    this.#remote = remote
    this.#lock = lock
    this.#objectStore = objectStore
    const { clock, log } = settings
    fs.rmSync(paths.spool, { recursive: true, force: true })
    this.#catalog = new Catalog(
      paths.catalog,
      { ...databaseSettings(settings, 'full'), sqlPolicy: 'trusted' },
      {
        ...trackedBy(() => this.#backups?.manager.tracker(this.id)),
        failed: (err) => log.error({ err }, 'upkeep of the catalog has failed'),
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
    this.accounts = new Accounts(this.#catalog, clock)
    this.apiKeys = new ApiKeys(this.#catalog, clock)
    this.firstKey = new FirstKey(this.#catalog, this.accounts, this.apiKeys)
    const parts = { paths, settings, state: this.#state, catalog: this.#catalog, remote }
    this.#cells = new StoreCells({
      ...parts,
      idempotency: new Idempotency(this.#catalog, clock),
      backups: () => this.#backups?.manager,
    })
    if (objectStore === undefined) return
    const { registry, local } = this.#cells
    const onRestored = (id: string) => this.#cells.restored(id)
    this.#backups = new StoreBackups({ ...parts, objectStore, registry, pool: local.pool, onRestored })
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

  /**
   * The same, with the cells open in other processes. @internal For `cellstore serve`.
   */
  static openWithWorkers(directory: string, options: StoreOptions, remote: RemoteCells): Promise<CellStore> {
    const build = (parts: StoreParts) => new CellStore(parts, remote)
    return startStore('open-or-create', directory, options, CATALOG_TABLES, build)
  }

  get id(): string {
    return this.#catalog.storeId
  }

  /** Epoch milliseconds. */
  get createdAt(): number {
    return Number(this.#catalog.meta('created_at') ?? 0)
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
    return this.#cells.create(options)
  }

  /** @throws `cell_not_found` */
  openCell(id: string): Cell {
    return this.#cells.open(id)
  }

  /**
   * Deletes a cell and its local files. Its backups stay, and restoring one brings it back.
   *
   * @throws `cell_not_found`, `invalid_request` inside a transaction of the cell
   */
  deleteCell(id: string): void {
    this.#cells.delete(id)
  }

  /**
   * Deletes a cell that is open in another process. @internal
   *
   * @throws `cell_not_found`
   */
  async deleteCellInWorker(id: string): Promise<void> {
    if (this.#remote === undefined) this.#cells.delete(id)
    else await this.#cells.deleteRemote(id, this.#remote)
  }

  /** What the catalog says of a cell, also of a deleted one. */
  findCell(id: string): CellRecord | undefined {
    return this.#cells.registry.find(id)
  }

  /** The cells that are there, in the order they were made, a page at a time. @throws `invalid_request` */
  cells(options: CellListOptions = {}): CellPage {
    return this.#cells.registry.list(options)
  }

  /** Bytes of the cell's database and log on this machine; 0 while its data is not here. @throws `cell_not_found` */
  cellSizeBytes(id: string): number {
    return this.#cells.sizeBytes(id)
  }

  /** Why a cell is kept closed; undefined if it is not. @throws `cell_not_found` */
  quarantineOf(id: string): QuarantineState | undefined {
    return this.#cells.quarantineOf(id)
  }

  /**
   * Brings a cell's data back from its newest backup if it is not on this machine.
   *
   * @throws `cell_not_found`, `no_backup`, and as `backups.restore()`
   */
  async ensureLocal(id: string): Promise<void> {
    await this.#cells.local.ensureLocal(id)
  }

  /** Resolves once every change of the catalog so far is in the object store; at once if there is none. */
  async catalogStored(): Promise<void> {
    await this.#backups?.catalogStored()
  }

  /** What a worker has to tell: see {@link WorkerEvents}. @internal */
  get workerEvents(): WorkerEvents {
    return {
      changed: (id) => this.#backups?.cellChanged(id),
      expiryChanged: () => this.#cells.expiryChanged(),
      restored: (id, manifest) => this.#backups?.cellRestored(id, manifest),
    }
  }

  /** Tells commands on this machine where the node listens. */
  publishSocket(path: string | null): void {
    this.#lock.publishSocket(path)
  }

  /** Puts processes on record that are about to open cells for this store. @internal */
  publishWorkers(workers: readonly ProcessIdentity[]): void {
    this.#lock.publishWorkers(workers)
  }

  /** Starts what runs by itself: expiry, the catalog's backup, the schedule. @internal */
  start(): void {
    this.#cells.start()
    this.#backups?.start()
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
      () => this.#cells.stop(),
      () => this.#backups?.finish(deadline.signal),
      () => this.apiKeys.flush(),
      () => this.#backups?.stop(deadline.signal),
      () => this.#remote?.stop(deadlineMs),
      () => this.#cells.local.pool.closeAll(),
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
}
