import type { Idempotency, IdempotencyKey } from '../auth/idempotency.ts'
import type { BackupManager } from '../backup/backup-manager.ts'
import { checkDisplayName } from '../base/display-name.ts'
import { newCellId, type StorePaths } from '../base/store-paths.ts'
import type { Catalog } from '../catalog/catalog.ts'
import { type CellRecord, CellRegistry } from '../catalog/cell-registry.ts'
import type { LocalState } from '../catalog/local-state.ts'
import type { Durability } from '../engine/cell-settings.ts'
import type { QuarantineState } from '../engine/quarantine.ts'
import { CellError, isCellError } from '../errors.ts'
import { ExpirySweeper } from '../kv/expiry-sweeper.ts'
import { Cell } from './cell.ts'
import { forEachCell } from './for-each-cell.ts'
import { LocalCells } from './local-cells.ts'
import type { RemoteCells } from './remote-cells.ts'
import type { StoreSettings } from './settings.ts'

export interface CreateCellOptions {
  /** For people; need not be unique. */
  name?: string | undefined
  /** The account that it belongs to. A cell without one is not visible over HTTP. */
  accountId?: string | undefined
  /** Instead of the store's. */
  durability?: Durability | undefined
  /** A repeated call within 24 hours returns the first one's cell. Only with an account. */
  idempotency?: IdempotencyKey | undefined
}

export interface StoreCellsParts {
  paths: StorePaths
  settings: StoreSettings
  state: LocalState
  catalog: Catalog
  idempotency: Idempotency
  /** Where the cells are open, if not here. */
  remote: RemoteCells | undefined
  /** None without an object store. */
  backups(): BackupManager | undefined
}

/** Within this time after the machine went down every cell is looked at for expired entries. */
const INSPECT_WITHIN_MS = 60 * 60 * 1_000

/** The cells of a store, from their creation to their deletion: in the catalog, on this machine, and open. */
export class StoreCells {
  readonly registry: CellRegistry
  readonly local: LocalCells
  readonly #parts: StoreCellsParts
  readonly #sweeper: ExpirySweeper
  #stopped = false

  constructor(parts: StoreCellsParts) {
    const { paths, settings, state, catalog, remote, backups } = parts
    this.#parts = parts
    this.registry = new CellRegistry(catalog, settings.limits.pageMax)
    this.local = new LocalCells({
      paths,
      settings,
      state,
      record: (id) => this.registry.find(id),
      backups,
      expiryNoted: (id, expiresAt) => this.#sweeper.note(id, expiresAt),
    })
    const collect = (id: string, signal: AbortSignal) => (remote ?? this.local).collect(id, signal)
    this.#sweeper = new ExpirySweeper(this.local.hints, collect, settings.clock, settings.log)
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
    this.local.files.write(record.id)
    try {
      catalog.change(() => {
        this.registry.insert(record)
        if (request !== undefined) repeats.insert(request.accountId, request.key, record.id)
      })
    } catch (error) {
      // A commit that the disk has failed may be found in the catalog's log at the next start, and with it the cell.
      if (!isCellError(error, 'cell_quarantined')) this.local.files.remove(record.id)
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
    if (this.local.pool.peek(id)?.inTransaction) {
      throw new CellError('invalid_request', 'A cell can not be deleted inside a transaction of its own.')
    }
    this.registry.setDeleted(id, this.#parts.settings.clock.now())
    this.local.release(id)
    this.local.files.remove(id)
  }

  /** The same where the cell is open in another process. */
  async deleteRemote(id: string, remote: RemoteCells): Promise<void> {
    const record = this.registry.require(id)
    const deletedAt = this.#parts.settings.clock.now()
    this.registry.setDeleted(id, deletedAt)
    await remote.release({ ...record, deletedAt })
    // Restored in between: these files are new ones.
    if (this.registry.find(id)?.deletedAt !== deletedAt) return
    this.local.release(id)
    this.local.files.remove(id)
  }

  sizeBytes(id: string): number {
    this.registry.require(id)
    return this.local.files.sizeBytes(id)
  }

  quarantineOf(id: string): QuarantineState | undefined {
    this.registry.require(id)
    return this.local.pool.quarantine.state(id)
  }

  /** The cell was restored: nothing that was known of its content holds any more. */
  restored(id: string): void {
    this.#sweeper.sweepSoon(id)
    // What the table says from here on is the worker's to change.
    if (this.#parts.remote !== undefined) this.local.hints.forget(id)
  }

  /** Something may expire earlier than was known here. */
  expiryChanged(): void {
    this.#sweeper.reschedule()
  }

  /** Starts the collection of expired entries. */
  start(): void {
    this.#sweeper.reschedule()
    if (!this.#parts.state.complete) void this.#inspectAll()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    await this.#sweeper.stop()
  }

  #handle(id: string): Cell {
    if (this.#parts.remote === undefined) return this.local.handle(id)
    const open = () => {
      throw new CellError(
        'invalid_request',
        'The cell is open in a worker process. Use it through its service.',
      )
    }
    const { clock, limits } = this.#parts.settings
    return new Cell(id, open, { clock, limits, expiryNoted: () => {} })
  }

  /** After the machine went down, rows of the local state may be missing: what they told shows in the cells' files. */
  async #inspectAll(): Promise<void> {
    const { state, settings } = this.#parts
    try {
      const inspect = (id: string) => this.#inspect(id)
      await forEachCell(this.registry, inspect, () => this.#stopped)
      if (this.#stopped) return
      state.markComplete()
      this.#sweeper.reschedule()
    } catch (err) {
      settings.log.error({ err }, 'not all cells could be looked at after the machine went down')
    }
  }

  #inspect(id: string): void {
    const { clock, random } = this.#parts.settings
    this.local.hints.setIfAbsent(id, clock.now() + Math.floor(random() * INSPECT_WITHIN_MS))
    const backups = this.#parts.backups()
    const tracker = backups?.tracker(id)
    if (tracker?.differsFromFiles()) tracker.foundChanged()
    if (this.local.pool.peek(id) === undefined) backups?.closed(id)
  }
}

function checkDurability(durability: Durability | undefined): void {
  if (durability === undefined || durability === 'full' || durability === 'relaxed') return
  throw new CellError('invalid_request', 'durability is full or relaxed.', { field: 'durability' })
}
