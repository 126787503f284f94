import fs from 'node:fs'
import { ACCOUNTS_SCHEMA, Accounts } from '../auth/accounts.ts'
import { API_KEYS_SCHEMA, ApiKeys } from '../auth/api-keys.ts'
import { FirstKey } from '../auth/first-key.ts'
import { IDEMPOTENCY_SCHEMA, Idempotency } from '../auth/idempotency.ts'
import type { ManifestHead } from '../backup/archive/manifest.ts'
import { BackupDestination } from '../backup/backup-destination.ts'
import { CatalogBackup } from '../backup/catalog-backup.ts'
import { BackupProgressTable } from '../backup/changes/progress-table.ts'
import type { ObjectStore } from '../backup/object-store/object-store.ts'
import type { Clock } from '../base/clock.ts'
import { checkDisplayName } from '../base/display-name.ts'
import { newCellId, type StorePaths } from '../base/store-paths.ts'
import { Catalog } from '../catalog/catalog.ts'
import {
  CELLS_SCHEMA,
  type CellListOptions,
  type CellPage,
  type CellRecord,
  CellRegistry,
} from '../catalog/cell-registry.ts'
import type { DirectoryLock, ProcessIdentity } from '../catalog/directory-lock.ts'
import { LocalState } from '../catalog/local-state.ts'
import { CellError, isCellError } from '../errors.ts'
import { ExpiryHints } from '../kv/expiry-hints.ts'
import type { CellDirectory, CreateCellOptions } from './cell-directory.ts'
import { CellFiles } from './cell-files.ts'
import { databaseSettings, type StoreOptions, type StoreSettings } from './settings.ts'
import { type StoreParts, startStore } from './start-store.ts'

/** The tables of a catalog next to its own. */
export const CATALOG_TABLES = [CELLS_SCHEMA, ACCOUNTS_SCHEMA, API_KEYS_SCHEMA, IDEMPOTENCY_SCHEMA]

/**
 * What the process that owns a store's directory has, wherever the cells are open: the directory's lock, the catalog with
 * accounts and keys, the local state, the object store, and the catalog's backup. It opens no cell.
 */
export class StoreCore implements CellDirectory {
  readonly paths: StorePaths
  readonly settings: StoreSettings
  readonly state: LocalState
  readonly files: CellFiles
  readonly registry: CellRegistry
  readonly hints: ExpiryHints
  readonly accounts: Accounts
  readonly apiKeys: ApiKeys
  readonly firstKey: FirstKey
  /** Undefined without an object store, as the next. */
  readonly destination: BackupDestination | undefined
  readonly catalogBackup: CatalogBackup | undefined
  readonly #catalog: Catalog
  readonly #idempotency: Idempotency
  readonly #lock: DirectoryLock
  readonly #objectStore: ObjectStore | undefined
  #closing: Promise<void> | undefined

  constructor({ paths, settings, lock, objectStore }: StoreParts) {
    const { clock, log, limits } = settings
    this.paths = paths
    this.settings = settings
    this.#lock = lock
    this.#objectStore = objectStore
    fs.rmSync(paths.spool, { recursive: true, force: true })
    const catalogSettings = { ...databaseSettings(settings, 'full'), sqlPolicy: 'trusted' } as const
    const failed = (err: unknown) => log.error({ err }, 'upkeep of the catalog has failed')
    this.#catalog = new Catalog(paths.catalog, catalogSettings, failed)
    try {
      this.state = new LocalState(paths.localState, objectStore?.url)
    } catch (error) {
      this.#catalog.close()
      throw error
    }
    const { movedFrom } = this.state
    if (movedFrom !== undefined) {
      log.warn(
        { from: movedFrom },
        'backups go to another object store than before, and start from the beginning there',
      )
    }
    this.accounts = new Accounts(this.#catalog, clock)
    this.apiKeys = new ApiKeys(this.#catalog, clock)
    this.firstKey = new FirstKey(this.#catalog, this.accounts, this.apiKeys)
    this.#idempotency = new Idempotency(this.#catalog, clock)
    this.registry = new CellRegistry(this.#catalog, limits.pageMax)
    this.files = new CellFiles(paths)
    this.hints = new ExpiryHints(this.state)
    if (objectStore === undefined) return
    const { storeId } = this.#catalog
    this.destination = new BackupDestination({
      objectStore,
      storeId,
      paths: (id) => (id === storeId ? paths.catalogCell : paths.cell(id)),
      progress: new BackupProgressTable(this.state),
      spoolDirectory: paths.spool,
      clock,
      log,
    })
    this.catalogBackup = new CatalogBackup(this.#catalog, this.state, this.destination)
  }

  /**
   * Opens the store that is in the directory or in the object store; creates a new one only if both are proven empty
   * (invariant 14).
   *
   * @throws as `CellStore.openOrCreate`
   */
  static openOrCreate(directory: string, options: StoreOptions): Promise<StoreCore> {
    return startStore('open-or-create', directory, options, CATALOG_TABLES, (parts) => new StoreCore(parts))
  }

  get id(): string {
    return this.#catalog.storeId
  }

  /** Epoch milliseconds. */
  get createdAt(): number {
    return this.#catalog.createdAt
  }

  get clock(): Clock {
    return this.settings.clock
  }

  createCell(options: CreateCellOptions = {}): { id: string; replayed?: true } {
    const { name, accountId, durability, idempotency } = options
    checkDisplayName(name)
    checkDurability(durability)
    this.#catalog.assertOpen()
    const request = accountId === undefined ? undefined : idempotency && { accountId, key: idempotency }
    const first = request && this.#idempotency.find(request.accountId, request.key)
    if (first !== undefined) return { id: first, replayed: true }
    const record: CellRecord = {
      id: newCellId(),
      accountId: accountId ?? null,
      name: name ?? null,
      createdAt: this.clock.now(),
      deletedAt: null,
      durability: durability ?? null,
    }
    // The file first: the catalog never names a cell that was not there.
    this.files.write(record.id)
    try {
      this.#catalog.change(() => {
        this.registry.insert(record)
        if (request !== undefined) this.#idempotency.insert(request.accountId, request.key, record.id)
      })
    } catch (error) {
      // A commit that the disk has failed may be found in the catalog's log at the next start, and with it the cell.
      if (!isCellError(error, 'cell_quarantined')) this.files.remove(record.id)
      throw error
    }
    return { id: record.id }
  }

  findCell(id: string): CellRecord | undefined {
    return this.registry.find(id)
  }

  cells(options: CellListOptions = {}): CellPage {
    return this.registry.list(options)
  }

  /** From here on the cell is deleted; its files are still there. @returns epoch milliseconds @throws `cell_not_found` */
  markDeleted(id: string): number {
    this.registry.require(id)
    const deletedAt = this.clock.now()
    this.registry.setDeleted(id, deletedAt)
    return deletedAt
  }

  /** Removes a deleted cell's files and all that this machine knows of it. No process has the cell open. */
  removeLocal(id: string): void {
    try {
      this.destination?.forget(id)
      this.hints.remove(id)
    } catch (err) {
      this.settings.log.warn({ cellId: id, err }, 'the local state of a deleted cell could not be removed')
    }
    this.files.remove(id)
  }

  /** A cell was restored: the catalog knows it again, whatever it said before. */
  recordRestored(id: string, manifest: ManifestHead): void {
    const record = this.registry.find(id)
    if (record === undefined) {
      this.#catalog.change(() =>
        this.registry.insert({
          id,
          accountId: manifest.account_id,
          name: manifest.name,
          createdAt: Date.parse(manifest.cell_created_at),
          deletedAt: null,
          durability: manifest.durability,
        }),
      )
    } else if (record.deletedAt !== null) this.registry.setDeleted(id, null)
  }

  /** Resolves once every change of the catalog so far is in the object store; at once if there is none. */
  async catalogStored(): Promise<void> {
    await this.catalogBackup?.stored()
  }

  /** Tells commands on this machine where the node listens. */
  publishSocket(path: string | null): void {
    this.#lock.publishSocket(path)
  }

  /** Puts processes on record that are about to open cells for this store. */
  publishWorkers(workers: readonly ProcessIdentity[]): void {
    this.#lock.publishWorkers(workers)
  }

  /** Starts the catalog's backup. */
  start(): void {
    this.catalogBackup?.start()
  }

  /**
   * Stores the catalog a last time within the deadline, and releases the directory. No process has a cell open. A repeat
   * is the same call.
   */
  close(deadline: AbortSignal = AbortSignal.abort()): Promise<void> {
    this.#closing ??= this.#close(deadline)
    return this.#closing
  }

  async #close(deadline: AbortSignal): Promise<void> {
    await runAll([
      () => this.apiKeys.flush(),
      () => this.catalogBackup?.stop(deadline),
      () => this.destination?.close(),
      () => this.#catalog.close(),
      () => this.state.close(),
      () => this.#objectStore?.close(),
      () => this.#lock.release(),
    ])
  }
}

/** Runs every step, whatever fails on the way, and throws the first failure. */
export async function runAll(steps: readonly (() => void | Promise<void> | undefined)[]): Promise<void> {
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

function checkDurability(durability: string | undefined): void {
  if (durability === undefined || durability === 'full' || durability === 'relaxed') return
  throw new CellError('invalid_request', `durability is full or relaxed, not ${durability}.`, {
    field: 'durability',
  })
}
