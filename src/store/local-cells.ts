import type { BackupManager } from '../backup/backup-manager.ts'
import { finishRestore } from '../backup/restore/restore-install.ts'
import type { StorePaths } from '../base/store-paths.ts'
import { type CellRecord, cellNotFound } from '../catalog/cell-registry.ts'
import type { LocalState } from '../catalog/local-state.ts'
import { type CellOpener, CellPool } from '../engine/cell-pool.ts'
import type { CellDatabaseSettings, Durability } from '../engine/cell-settings.ts'
import { CellError, isCellError } from '../errors.ts'
import { collectExpired } from '../kv/expiry-collector.ts'
import { ExpiryHints } from '../kv/expiry-hints.ts'
import { Cell } from './cell.ts'
import { CELL_SCHEMA, CellFiles } from './cell-files.ts'
import { cellHooks } from './cell-hooks.ts'
import type { StoreSettings } from './settings.ts'

export interface LocalCellsParts {
  paths: StorePaths
  settings: StoreSettings
  state: LocalState
  /** What the catalog says of a cell; undefined for an id that it does not know. */
  record(id: string): CellRecord | undefined
  /** None without an object store. */
  backups(): BackupManager | undefined
  /** In memory where something bounds that; otherwise in files. */
  temporary?: CellDatabaseSettings['temporary']
  /** Told of every time to live that is set. Must not throw. */
  expiryNoted(id: string, expiresAt: number): void
}

/** The cells whose files this process opens, and what it does with them whoever asked. */
export class LocalCells {
  readonly pool: CellPool
  readonly files: CellFiles
  readonly hints: ExpiryHints
  readonly #parts: LocalCellsParts

  constructor(parts: LocalCellsParts) {
    const { paths, settings, state, backups } = parts
    this.#parts = parts
    this.files = new CellFiles(paths)
    this.hints = new ExpiryHints(state)
    const opener: CellOpener = {
      paths: (id) => paths.cell(id),
      settings: (id) => ({
        ...databaseSettings(settings, this.require(id).durability),
        temporary: parts.temporary,
      }),
      hooks: (id) =>
        cellHooks(CELL_SCHEMA, settings.clock, () => backups()?.tracker(id), {
          failed: (err) => this.#failed(id, err),
          closed: () => this.#closed(id),
        }),
      beforeOpen: (id, cellPaths) =>
        finishRestore(cellPaths, { building: backups()?.isRestoring(id) ?? false }),
      missing: (id) => this.#missing(id),
    }
    this.pool = new CellPool(settings.openCellsMax, opener, settings)
  }

  /** @throws `cell_not_found` for a cell that is absent or deleted */
  require(id: string): CellRecord {
    const record = this.#parts.record(id)
    if (record === undefined || record.deletedAt !== null) throw cellNotFound()
    return record
  }

  /** A handle; nothing is opened before it is used. */
  handle(id: string): Cell {
    const { settings, expiryNoted } = this.#parts
    return new Cell(id, () => this.pool.open(id), {
      clock: settings.clock,
      limits: settings.limits,
      expiryNoted: (expiresAt) => expiryNoted(id, expiresAt),
    })
  }

  /** Brings a cell's data back from its newest backup if it is not on this machine. @throws `no_backup` */
  async ensureLocal(id: string): Promise<void> {
    this.require(id)
    if (this.pool.peek(id) !== undefined || this.files.exists(id)) return
    const backups = this.#parts.backups()
    if (backups === undefined) throw noBackup()
    await backups.ensureLocal(id)
  }

  /** Collects the expired entries of a cell, which is left open or closed as it was found. */
  async collect(id: string, signal: AbortSignal): Promise<void> {
    const wasOpen = this.pool.peek(id) !== undefined
    const { database, unpin } = this.pool.pin(id)
    const { usedAt } = database
    try {
      const next = await collectExpired(database, this.#parts.settings.clock, signal)
      if (next === null) this.hints.remove(id)
      else if (next !== undefined) this.hints.set(id, next)
    } finally {
      unpin()
      if (!wasOpen && !database.busy && database.usedAt === usedAt) this.pool.close(id)
    }
  }

  /** Ends all use of a cell that was deleted: nothing of it is open or remembered afterwards. */
  release(id: string): void {
    this.pool.replace(id, () => {})
    try {
      this.#parts.backups()?.forgetLocal(id)
      this.hints.remove(id)
    } catch (err) {
      this.#parts.settings.log.warn(
        { cellId: id, err },
        'what is known of a deleted cell could not be removed',
      )
    }
  }

  #closed(id: string): void {
    this.hints.forget(id)
    this.#parts.backups()?.closed(id)
  }

  #failed(id: string, err: unknown): void {
    const isQuarantined = isCellError(err, 'cell_quarantined')
    const reason = isQuarantined ? err.details.reason : undefined
    const what =
      reason === 'io_error'
        ? 'the disk has failed under a cell: it is kept closed until it is proven whole'
        : isQuarantined
          ? 'a cell is damaged, and is kept closed until it is restored'
          : 'upkeep of a cell has failed'
    this.#parts.settings.log.error({ cellId: id, err }, what)
  }

  /** A cell that the catalog names has no file: lost, unless it was deleted. Its restore begins at once. */
  #missing(id: string): CellError {
    const record = this.#parts.record(id)
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
}

/** @param durability in place of the store's */
export function databaseSettings(
  settings: StoreSettings,
  durability: Durability | null,
): CellDatabaseSettings {
  const { sqlPolicy, limits, pageCacheBytes, checkpointBytes } = settings
  return { durability: durability ?? settings.durability, sqlPolicy, limits, pageCacheBytes, checkpointBytes }
}

function noBackup(): CellError {
  return new CellError(
    'no_backup',
    "The cell's local data is lost, and there is no object store to restore it from.",
  )
}
