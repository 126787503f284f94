import fs from 'node:fs'
import { ACCOUNTS_SCHEMA, Accounts } from '../auth/accounts.ts'
import { API_KEYS_SCHEMA, ApiKeys } from '../auth/api-keys.ts'
import { FirstKey } from '../auth/first-key.ts'
import { IDEMPOTENCY_SCHEMA, Idempotency } from '../auth/idempotency.ts'
import type { ManifestHead } from '../backup/archive/manifest.ts'
import { BackupDestination } from '../backup/archiver/backup-destination.ts'
import { CatalogBackup } from '../backup/catalog-backup.ts'
import { BackupProgressTable } from '../backup/changes/progress-table.ts'
import type { ObjectStore } from '../backup/object-store/object-store.ts'
import type { Clock } from '../base/clock.ts'
import { checkDisplayName } from '../base/display-name.ts'
import { newCellId, type StorePaths } from '../base/store-paths.ts'
import { AccountQuotas } from '../catalog/account-quotas.ts'
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

/** The tables that the catalog's users add to it. */
export const CATALOG_TABLES = [CELLS_SCHEMA, ACCOUNTS_SCHEMA, API_KEYS_SCHEMA, IDEMPOTENCY_SCHEMA]

/**
 * The parts of the process that owns a store's directory: the directory's lock, the catalog with accounts and keys, the
 * local state, the object store, and the catalog's backup. It opens no cell: this process or its workers do.
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
  /** Undefined without an object store, as is `catalogBackup`. */
  readonly destination: BackupDestination | undefined
  readonly catalogBackup: CatalogBackup | undefined
  readonly #catalog: Catalog
  readonly #idempotency: Idempotency
  readonly #quotas: AccountQuotas
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
    const failed = (err: unknown) => log.error({ err }, 'upkeep of the catalog failed')
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
        'the object store has changed: all backups start from the beginning there',
      )
    }
    this.accounts = new Accounts(this.#catalog, clock)
    this.#quotas = new AccountQuotas(settings.quotas, clock)
    this.apiKeys = new ApiKeys(this.#catalog, clock, this.#quotas)
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
      threadsKept: settings.backups.restoreConcurrency,
      clock,
      log,
    })
    this.catalogBackup = new CatalogBackup(this.#catalog, this.state, this.destination)
  }

  /**
   * Opens the store in the directory or the object store. Creates a new one only if both are proven empty
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
    if (accountId !== undefined) {
      this.#quotas.checkCells(() => this.registry.count(accountId))
      this.#quotas.chargeCreation(accountId)
    }
    const record: CellRecord = {
      id: newCellId(),
      accountId: accountId ?? null,
      name: name ?? null,
      createdAt: this.clock.now(),
      deletedAt: null,
      durability: durability ?? null,
    }
    // The file first: the catalog never names a cell whose file did not exist.
    this.files.write(record.id)
    try {
      this.registry.insert(record, () => {
        if (request !== undefined) this.#idempotency.insert(request.accountId, request.key, record.id)
      })
    } catch (error) {
      // If the disk failed, the next start may still find the commit in the catalog's WAL, and then needs the file.
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

  /** Deletes the cell in the catalog; its files stay. @returns epoch milliseconds @throws `cell_not_found` */
  markDeleted(id: string): number {
    const deletedAt = this.clock.now()
    this.registry.delete(id, deletedAt)
    return deletedAt
  }

  /** Removes a deleted cell's files and local state. No process has the cell open. */
  removeLocal(id: string): void {
    try {
      this.destination?.forget(id)
      this.hints.remove(id)
    } catch (err) {
      this.settings.log.warn({ cellId: id, err }, 'could not remove the local state of a deleted cell')
    }
    this.files.remove(id)
  }

  /** Records a restored cell: if the catalog lacks it, or has it as deleted, the cell exists again. */
  recordRestored(id: string, manifest: ManifestHead): void {
    const record = this.registry.find(id)
    if (record === undefined) {
      this.registry.insert({
        id,
        accountId: manifest.account_id,
        name: manifest.name,
        createdAt: Date.parse(manifest.cell_created_at),
        deletedAt: null,
        durability: manifest.durability,
      })
    } else if (record.deletedAt !== null) this.registry.undelete(record)
  }

  /** Resolves once every change of the catalog so far is in the object store; at once without an object store. */
  async catalogStored(): Promise<void> {
    await this.catalogBackup?.stored()
  }

  /** Publishes where the node listens for commands on this machine. */
  publishSocket(path: string | null): void {
    this.#lock.publishSocket(path)
  }

  /** Records the worker processes before they open cells of this store. */
  publishWorkers(workers: readonly ProcessIdentity[]): void {
    this.#lock.publishWorkers(workers)
  }

  /** Records the archiver process before it writes to this store; undefined without one. */
  publishArchiver(identity: ProcessIdentity | undefined): void {
    this.#lock.publishArchiver(identity)
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

/** Runs every step, also after a failure, and throws the first failure. */
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
  throw new CellError('invalid_request', `durability must be full or relaxed, not ${durability}.`, {
    field: 'durability',
  })
}
