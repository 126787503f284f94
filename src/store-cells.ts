import type { Idempotency, IdempotencyKey } from './auth/idempotency.ts'
import type { BackupManager } from './backup/backup-manager.ts'
import { finishRestore } from './backup/restore-install.ts'
import { Cell } from './cell.ts'
import { CELL_SCHEMA, CellFiles } from './cell-files.ts'
import { cellHooks } from './cell-hooks.ts'
import type { Catalog } from './engine/catalog.ts'
import type { CellDatabaseSettings, Durability } from './engine/cell-database.ts'
import { newCellId, type StorePaths } from './engine/cell-path.ts'
import { CellPool } from './engine/cell-pool.ts'
import { type CellRecord, CellRegistry, cellNotFound } from './engine/cell-registry.ts'
import { checkDisplayName } from './engine/display-name.ts'
import type { LocalState } from './engine/local-state.ts'
import { CellError, isCellError } from './errors.ts'
import { forEachCell } from './for-each-cell.ts'
import { ExpiryHints } from './kv/expiry-hints.ts'
import { ExpirySweeper, type SweepTarget } from './kv/expiry-sweeper.ts'
import type { StoreSettings } from './settings.ts'

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

export interface StoreCellsParts {
  paths: StorePaths
  settings: StoreSettings
  state: LocalState
  catalog: Catalog
  idempotency: Idempotency
  /** None without an object store. */
  backups(): BackupManager | undefined
}

/** Within this time after the machine went down every cell is looked at for expired entries. */
const LOOK_WITHIN_MS = 60 * 60 * 1_000

/** The cells of a store, from their creation to their deletion: in the catalog, on this machine, and open. */
export class StoreCells {
  readonly registry: CellRegistry
  readonly pool: CellPool
  readonly #parts: StoreCellsParts
  readonly #files: CellFiles
  readonly #hints: ExpiryHints
  readonly #sweeper: ExpirySweeper
  #stopped = false

  constructor(parts: StoreCellsParts) {
    const { paths, settings, state, catalog, backups } = parts
    this.#parts = parts
    this.registry = new CellRegistry(catalog, settings.limits.pageMax)
    this.#files = new CellFiles(paths)
    this.#hints = new ExpiryHints(state)
    const target = { borrow: (id: string) => this.#borrow(id) }
    this.#sweeper = new ExpirySweeper(this.#hints, target, settings.clock, settings.log)
    this.pool = new CellPool(settings.openCellsMax, {
      paths: (id) => paths.cell(id),
      settings: (id) => databaseSettings(settings, this.registry.require(id).durability),
      hooks: (id) =>
        cellHooks(CELL_SCHEMA, settings.clock, () => backups()?.tracker(id), {
          failed: (err) => this.#failed(id, err),
          closed: () => this.#closed(id),
        }),
      beforeOpen: (id, cellPaths) =>
        finishRestore(cellPaths, { building: backups()?.isRestoring(id) ?? false }),
      missing: (id) => this.#missing(id),
    })
  }

  create(options: CreateCellOptions): Cell & { replayed?: true } {
    const { name, accountId, durability, idempotency } = options
    checkDisplayName(name)
    checkDurability(durability)
    const { catalog, idempotency: repeats, settings } = this.#parts
    catalog.assertOpen()
    const request = accountId === undefined ? undefined : idempotency && { accountId, key: idempotency }
    const first = request && repeats.find(request.accountId, request.key)
    if (first !== undefined) return Object.assign(this.#handle(first), { replayed: true as const })
    const record: CellRecord = {
      id: newCellId(),
      accountId: accountId ?? null,
      name: name ?? null,
      createdAt: settings.clock.now(),
      deletedAt: null,
      durability: durability ?? null,
    }
    // The file first: the catalog never names a cell that was not there.
    this.#files.write(record.id)
    try {
      catalog.change(() => {
        this.registry.insert(record)
        if (request !== undefined) repeats.insert(request.accountId, request.key, record.id)
      })
    } catch (error) {
      this.#removeLocal(record.id)
      throw error
    }
    return this.#handle(record.id)
  }

  open(id: string): Cell {
    this.registry.require(id)
    return this.#handle(id)
  }

  delete(id: string): void {
    this.registry.require(id)
    if (this.pool.peek(id)?.inTransaction) {
      throw new CellError('invalid_request', 'A cell can not be deleted inside a transaction of its own.')
    }
    this.registry.setDeleted(id, this.#parts.settings.clock.now())
    this.pool.close(id)
    this.#removeLocal(id)
  }

  sizeBytes(id: string): number {
    this.registry.require(id)
    return this.#files.sizeBytes(id)
  }

  async ensureLocal(id: string): Promise<void> {
    this.registry.require(id)
    if (this.pool.peek(id) !== undefined || this.#files.exists(id)) return
    const backups = this.#parts.backups()
    if (backups === undefined) throw noBackup()
    await backups.ensureLocal(id)
  }

  /** The cell was restored: nothing that was known of its content holds any more. */
  restored(id: string): void {
    this.#sweeper.lookAt(id)
  }

  /** Starts the collection of expired entries. */
  start(): void {
    this.#sweeper.start()
    if (!this.#parts.state.complete) void this.#lookAtAll()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#sweeper.stop()
  }

  #handle(id: string): Cell {
    const { clock, limits } = this.#parts.settings
    return new Cell(id, () => this.pool.open(id), {
      clock,
      limits,
      expiryNoted: (expiresAt) => this.#sweeper.note(id, expiresAt),
    })
  }

  #closed(id: string): void {
    this.#hints.forget(id)
    this.#parts.backups()?.closed(id)
  }

  #failed(id: string, err: unknown): void {
    const isDamaged = isCellError(err, 'cell_quarantined')
    const what = isDamaged ? 'the cell is damaged, and is kept closed' : 'upkeep of a cell has failed'
    this.#parts.settings.log.error({ cellId: id, err }, what)
  }

  #removeLocal(id: string): void {
    try {
      this.#parts.backups()?.forgetLocal(id)
      this.#hints.remove(id)
    } catch (err) {
      this.#parts.settings.log.warn(
        { cellId: id, err },
        'what is known of a deleted cell could not be removed',
      )
    }
    this.#files.remove(id)
  }

  /** A cell that the catalog names has no file: lost, unless it was deleted. Its restore begins at once. */
  #missing(id: string): CellError {
    const record = this.registry.find(id)
    if (record === undefined || record.deletedAt !== null) return cellNotFound()
    const backups = this.#parts.backups()
    if (backups === undefined) return noBackup()
    backups
      .ensureLocal(id)
      .catch((err) =>
        this.#parts.settings.log.error({ cellId: id, err }, 'a lost cell could not be restored'),
      )
    return new CellError(
      'cell_restoring',
      "The cell's data is being restored from its newest backup. Try again, or await ensureLocal() first.",
      { retryAfterMs: 1_000 },
    )
  }

  /** After the machine went down, rows of the local state may be missing: what they told shows in the cells' files. */
  async #lookAtAll(): Promise<void> {
    const { state, settings } = this.#parts
    try {
      const look = (id: string) => this.#lookAt(id)
      await forEachCell(this.registry, look, () => this.#stopped)
      if (this.#stopped) return
      state.markComplete()
      this.#sweeper.start()
    } catch (err) {
      settings.log.error({ err }, 'not all cells could be looked at after the machine went down')
    }
  }

  #lookAt(id: string): void {
    const { clock, random } = this.#parts.settings
    this.#hints.setIfAbsent(id, clock.now() + Math.floor(random() * LOOK_WITHIN_MS))
    const backups = this.#parts.backups()
    const tracker = backups?.tracker(id)
    if (tracker?.differsFromFiles()) tracker.foundChanged()
    if (this.pool.peek(id) === undefined) backups?.closed(id)
  }

  #borrow(id: string): ReturnType<SweepTarget['borrow']> {
    const wasOpen = this.pool.peek(id) !== undefined
    const { database, unpin } = this.pool.pin(id)
    const { usedAt } = database
    const done = () => {
      unpin()
      if (!wasOpen && !database.busy && database.usedAt === usedAt) this.pool.close(id)
    }
    return { database, done }
  }
}

/** @param durability in place of the store's */
export function databaseSettings(
  settings: StoreSettings,
  durability: Durability | null,
): CellDatabaseSettings {
  const { sqlPolicy, limits, pageCacheBytes, checkpointBytes } = settings
  return { durability: durability ?? settings.durability, sqlPolicy, limits, pageCacheBytes, checkpointBytes }
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
