import type { Accounts } from '../../auth/accounts.ts'
import type { ApiKeys } from '../../auth/api-keys.ts'
import type { IdempotencyKey } from '../../auth/idempotency.ts'
import type { CallOptions } from '../../backup/object-store/object-store.ts'
import type { VerificationTable } from '../../backup/verify/verification-table.ts'
import type { Retention } from '../../backup/versions/retention/retention.ts'
import type { Emitter } from '../../base/async/emitter.ts'
import type { Clock } from '../../base/clock.ts'
import type { Turns } from '../../base/fairness/turns.ts'
import type { Paged } from '../../base/paging.ts'
import type { Catalog } from '../../catalog/catalog.ts'
import type { CellListOptions, CellRecord, RecordPage } from '../../catalog/cell-registry.ts'
import type { RequestedBackups } from '../../catalog/requested-backups.ts'
import type { Durability } from '../../engine/cell-settings.ts'
import type { StoreSettings } from '../settings/settings.ts'
import type { CellLook } from './cell-census.ts'

/** What {@link CellStore.purgeCell} removed. */
export interface PurgedCell {
  id: string
  /** Objects that were removed, and their bytes. */
  objects: number
  bytes: number
}

/** What a new cell is. */
export interface CreateCellOptions {
  /** Unique among the cells of its account, or among those without one. At most 255 characters. */
  name?: string | undefined
  /** The account that owns the cell. Without one, the cell is visible only in the library. */
  accountId?: string
  /** Overrides the store's. */
  durability?: Durability | undefined
  /** A repeated call returns the cell of the first one. Only with an account. */
  idempotency?: IdempotencyKey | undefined
  /** Called before a cell is made, but not if a repeated call returns the first one; may throw. @internal */
  admit?: (() => void) | undefined
}

/** Whose cell `store.cell()` opens, and what it is made with if it does not exist. */
export type NamedCellOptions = Pick<CreateCellOptions, 'accountId' | 'durability'>

/** Whose cell `store.findCellByName()` looks up. */
export interface FindByNameOptions {
  /** The account's; left out or null: among the cells without an account. */
  accountId?: string | null
}

/** A cell in a listing. */
export interface ListedCell extends CellRecord {
  /** Bytes of the database and its write-ahead log on this machine; 0 while the local data is missing. */
  sizeBytes: number
}

/** A page of a listing. */
export interface CellPage {
  /** Oldest first. */
  cells: ListedCell[]
  /** Pass as `cursor` for the next page; null after the last. */
  nextCursor: string | null
}

/** The cells, accounts and keys of a store. A `CellService` gives access to the contents of the cells. */
export interface CellDirectory {
  /** The store's. */
  readonly id: string
  readonly settings: StoreSettings
  readonly clock: Clock
  readonly accounts: Accounts
  readonly apiKeys: ApiKeys
  /** @internal */
  readonly requestedBackups: RequestedBackups
  /** Undefined without an object store. */
  readonly retention: Retention | undefined
  /** Undefined without an object store. @internal */
  readonly verifications: VerificationTable | undefined
  /** Of accounts, at this process's event loop. @internal */
  readonly turns: Turns
  /** Creates a cell; it is on disk when this returns. @throws `name_taken`, `idempotency_key_reused`, `invalid_request`, `quota_exceeded`, `rate_limited`, `disk_full` */
  createCell(options?: CreateCellOptions): { readonly id: string; readonly replayed?: true }
  /**
   * Runs a creation of the account in its turn at the event loop, one at a time: more of them would fill the queue of the
   * thread pool, which serves them in the order in which they came.
   *
   * @internal
   */
  inTurn<T>(accountId: string, creation: () => Promise<T>): Promise<T>
  /** {@link createCell} without blocking the event loop for the disk: the cell is on disk when this resolves. @internal */
  addCell(options?: CreateCellOptions): Promise<{ readonly id: string; readonly replayed?: true }>
  /** Runs changes of accounts and keys, and resolves once they are on disk: see {@link Catalog.durably}. @internal */
  durably<T>(change: () => T): Promise<T>
  /** Before a deleted cell is restored. @throws `quota_exceeded` if the account has its quota of cells @internal */
  checkRoomForCell(accountId: string): void
  /** Counts a cell that a restore brings back until it is called. @throws as {@link checkRoomForCell} @internal */
  holdRoomForCell(accountId: string, cellId: string): () => void
  /** Emitted when a cell's file has come, has gone or is another one, with the account that has the cell. @internal */
  readonly filesReplaced: Emitter<[cellId: string, accountId: string | null]>
  /** Size of a cell's database file; 0 if there is none. @internal */
  databaseBytes(id: string): number
  /** {@link databaseBytes}, and what its log takes beyond what checkpoints leave to it: a transaction that was never committed can. @internal */
  storedBytes(id: string): number
  /** A cell's record in the catalog, also of a deleted cell. */
  findCell(id: string): CellRecord | undefined
  /**
   * Up to when everything that the cell has committed is in the object store, in epoch milliseconds; null if nothing of it is.
   * It is as this machine knows: the object store is not asked.
   */
  backedUpTo(id: string): number | null
  /**
   * Removes all backups of a deleted cell; nothing can bring the cell back after that. Log objects hold what it has committed until
   * they go with their age. Waits for the
   * end of a backup that began before the deletion.
   *
   * @throws `cell_not_found`, `invalid_request` for a cell that is not deleted, `object_store_not_configured`
   */
  purgeCell(id: string, options?: CallOptions): Promise<PurgedCell>
  /** Gives a cell another name; null: none. @throws `cell_not_found`, `name_taken`, `invalid_request` */
  renameCell(id: string, name: string | null): void
  /** Before an account renames a cell: its renames count as creations. @throws `rate_limited`, `busy` @internal */
  chargeRename(accountId: string): void
  /** One page of the cells that are not deleted, in order of creation. @throws `invalid_request` */
  cells(options?: CellListOptions): Paged<CellPage, ListedCell>
  /** {@link cells} without their sizes. @internal */
  cellRecords(options?: CellListOptions): Paged<RecordPage, CellRecord>
  /** What the files of cells say, read in the thread pool. @internal */
  lookAt(ids: readonly string[]): Promise<CellLook[]>
}
