import type { Accounts } from '../../auth/accounts.ts'
import type { Idempotency } from '../../auth/idempotency.ts'
import { toBackupError } from '../../backup/archive/backup-errors.ts'
import type { Clock } from '../../base/clock.ts'
import { KeyedQueue } from '../../base/fairness/keyed-queue.ts'
import type { Turns } from '../../base/fairness/turns.ts'
import { checkDisplayName } from '../../base/options/display-name.ts'
import type { AccountQuotas } from '../../catalog/account-quotas.ts'
import type { Catalog } from '../../catalog/catalog.ts'
import { type CellRegistry, cellNotFound, type NewCellRecord } from '../../catalog/cell-registry.ts'
import type { Durability } from '../../engine/cell-settings.ts'
import { isClosedConnection } from '../../engine/sqlite-errors.ts'
import { isCellError } from '../../errors.ts'
import { type CellFiles, orNoRoom } from '../open/cell-files.ts'
import type { Residence } from '../residence/residence.ts'
import { checkCreateOptions } from '../settings/call-options.ts'
import type { CellsFolder } from '../start/cells-folder.ts'
import type { UnfinishedCells } from '../start/left-files.ts'
import type { CreateCellOptions } from './cell-directory.ts'

export interface CellCreationsParts {
  accounts: Accounts
  catalog: Catalog
  registry: CellRegistry
  idempotency: Idempotency
  quotas: AccountQuotas
  turns: Turns
  files: CellFiles
  cellsFolder: CellsFolder
  unfinished: UnfinishedCells
  /** Cells that no backup has. */
  unstored: UnstoredCells
  clock: Clock
  residence: Residence
  /** An id that this node may give. @throws `cell_moving` if it has none to give */
  newCellId(): string
  /** Called once the catalog has a cell, whose file is there. */
  made(id: string, accountId: string | null): void
  /** @throws `invalid_request` if no cell can have this durability here */
  checkDurability(durability: Durability): void
}

/** Notes which new cells no backup has: such a cell gets a first version also if nobody changes it. */
export interface UnstoredCells {
  /** Call it before the catalog has the cell: a process that ends in between leaves no cell without a note. */
  add(id: string, createdAt: number, isEmpty: boolean): void
  /** There is no such cell after all. */
  remove(id: string): void
}

type Replayed = { id: string; replayed: true }
/** A cell that was made, or that an earlier call with the same idempotency key has made. */
export type CreatedCell = { id: string; replayed?: true }

/** Makes new cells: first the file, then the record in the catalog; each within its account's quota, and once. */
export class CellCreations {
  readonly #parts: CellCreationsParts
  readonly #queue = new KeyedQueue()
  readonly #returning: ReturningCells

  constructor(parts: CellCreationsParts) {
    this.#parts = parts
    this.#returning = new ReturningCells(parts.registry)
  }

  /** @throws as `CellDirectory.createCell` */
  create(options: CreateCellOptions = {}): CreatedCell {
    const creation = this.#begin(options)
    if ('replayed' in creation) return creation
    this.#parts.files.write(creation.id)
    return this.#register(creation, options, true)
  }

  /** {@link create} without blocking the event loop for the disk. @throws as {@link create} */
  async createAside(options: CreateCellOptions = {}): Promise<CreatedCell> {
    const creation = this.#begin(options)
    if ('replayed' in creation) return creation
    const { residence, files } = this.#parts
    return await residence.during(creation.id, () =>
      this.#finish(creation, options, true, (id) => files.writeAside(id)),
    )
  }

  /**
   * Makes a cell of what `build` writes. A crash during the build leaves nothing behind the next start.
   *
   * @param build makes the cell's file, and leaves none if it fails
   * @throws what `build` throws; as {@link create}
   */
  async createBuilt(options: CreateCellOptions, build: (id: string) => Promise<void>): Promise<CreatedCell> {
    const creation = this.#begin(options)
    if ('replayed' in creation) return creation
    try {
      const { residence, unfinished } = this.#parts
      return await residence.during(creation.id, () =>
        unfinished.during(creation.id, () => this.#finish(creation, options, false, build)),
      )
    } catch (error) {
      // The store was closed during the build.
      throw isClosedConnection(error) ? toBackupError(error) : orNoRoom(error)
    }
  }

  /** One creation of an account at a time, in its turn at the event loop. */
  inTurn<T>(accountId: string, creation: () => Promise<T>): Promise<T> {
    return this.#queue.run(accountId, async () => {
      await this.#parts.turns.next(accountId)
      return await creation()
    })
  }

  /** @throws `rate_limited`, `busy` */
  charge(accountId: string): void {
    this.#parts.quotas.chargeCreation(accountId)
  }

  /** @throws `quota_exceeded` */
  checkRoom(accountId: string): void {
    const { quotas, registry } = this.#parts
    quotas.checkCells(accountId, () => registry.count(accountId) + this.#returning.count(accountId))
  }

  /** Before a cell is restored that comes back. @returns call it when the restore has ended @throws `quota_exceeded` */
  holdRoom(accountId: string, cellId: string): () => void {
    const release = () => this.#returning.delete(accountId, cellId)
    release()
    this.checkRoom(accountId)
    this.#returning.add(accountId, cellId)
    return release
  }

  /** @throws `cell_not_found` if the cell was deleted so long ago that it is forgotten */
  madeBefore({
    accountId,
    idempotency,
  }: Pick<CreateCellOptions, 'accountId' | 'idempotency'>): Replayed | undefined {
    if (accountId === undefined || idempotency === undefined) return undefined
    const id = this.#parts.idempotency.find(accountId, idempotency)
    if (id === undefined) return undefined
    if (this.#parts.registry.find(id) === undefined) throw cellNotFound()
    return { id, replayed: true }
  }

  async #finish(
    record: NewCellRecord,
    options: CreateCellOptions,
    isEmpty: boolean,
    write: (id: string) => Promise<void>,
  ): Promise<CreatedCell> {
    await write(record.id)
    await this.#parts.turns.next(record.accountId ?? '')
    let hasBegun = false
    try {
      return await this.#parts.catalog.durably(() => {
        hasBegun = true
        return this.#register(record, options, isEmpty)
      })
    } catch (error) {
      // The store was closed or taken over meanwhile. What fails later undoes itself, or the record may be there.
      if (!hasBegun) this.#undo(record.id)
      throw error
    }
  }

  /** Refuses a creation, or charges for it. @returns the cell to be made, or the one that a repeated call has made */
  #begin(options: CreateCellOptions): NewCellRecord | Replayed {
    checkCreateOptions(options, this.#parts.accounts)
    const { name, accountId, durability, admit } = options
    checkDisplayName(name)
    if (durability !== undefined) this.#parts.checkDurability(durability)
    this.#parts.catalog.assertOpen()
    const first = this.madeBefore(options)
    if (first !== undefined) return first
    this.#parts.cellsFolder.assertHere()
    this.#parts.registry.checkName(accountId ?? null, name ?? null)
    admit?.()
    if (accountId !== undefined) {
      this.checkRoom(accountId)
      this.#parts.quotas.chargeCreation(accountId)
    }
    return {
      id: this.#parts.newCellId(),
      accountId: accountId ?? null,
      name: name ?? null,
      createdAt: this.#parts.clock.now(),
      durability: durability ?? null,
    }
  }

  /** Adds a cell to the catalog, after its file: the catalog never names a cell whose file did not exist. */
  #register(record: NewCellRecord, options: CreateCellOptions, isEmpty: boolean): CreatedCell {
    const { accountId, idempotency } = options
    try {
      this.#parts.cellsFolder.noteCell()
      // Others can have been made while the file was written.
      const first = this.madeBefore(options)
      if (first !== undefined) {
        this.#undo(record.id)
        return first
      }
      if (accountId !== undefined) this.checkRoom(accountId)
      this.#parts.registry.checkName(record.accountId, record.name)
      this.#noteUnstored(record, isEmpty)
      this.#parts.registry.insert(record, () => {
        if (accountId !== undefined && idempotency !== undefined)
          this.#parts.idempotency.insert(accountId, idempotency, record.id)
      })
    } catch (error) {
      // If the disk failed, the next start may still find the commit in the catalog's WAL, and then needs the file.
      if (!isCellError(error, 'cell_quarantined')) this.#undo(record.id)
      throw error
    }
    this.#parts.made(record.id, record.accountId)
    return { id: record.id }
  }

  /** @throws `disk_full` */
  #noteUnstored({ id, createdAt }: NewCellRecord, isEmpty: boolean): void {
    try {
      this.#parts.unstored.add(id, createdAt, isEmpty)
    } catch (error) {
      throw orNoRoom(error)
    }
  }

  #undo(id: string): void {
    this.#parts.files.remove(id)
    try {
      this.#parts.unstored.remove(id)
    } catch {
      // On a full disk, for example. The next start removes it.
    }
  }
}

/** Cells whose restore brings them back. Each has room in its account's quota before the catalog has it. */
class ReturningCells {
  readonly #registry: CellRegistry
  readonly #ofAccounts = new Map<string, Set<string>>()

  constructor(registry: CellRegistry) {
    this.#registry = registry
  }

  /** Those that are not in the catalog's count yet. */
  count(accountId: string): number {
    let count = 0
    for (const id of this.#ofAccounts.get(accountId) ?? [])
      if (this.#registry.find(id)?.deletedAt !== null) count++
    return count
  }

  add(accountId: string, cellId: string): void {
    const cells = this.#ofAccounts.get(accountId) ?? new Set()
    this.#ofAccounts.set(accountId, cells.add(cellId))
  }

  delete(accountId: string, cellId: string): void {
    const cells = this.#ofAccounts.get(accountId)
    cells?.delete(cellId)
    if (cells?.size === 0) this.#ofAccounts.delete(accountId)
  }
}
