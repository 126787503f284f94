import type { Accounts } from '../auth/accounts.ts'
import type { ApiKeys } from '../auth/api-keys.ts'
import type { IdempotencyKey } from '../auth/idempotency.ts'
import type { Clock } from '../base/clock.ts'
import type { CellListOptions, CellPage, CellRecord } from '../catalog/cell-registry.ts'
import type { Durability } from '../engine/cell-settings.ts'
import type { StoreSettings } from './settings.ts'

export interface CreateCellOptions {
  /** For people; need not be unique. */
  name?: string | undefined
  /** The account that owns the cell. Without one, only the library sees it. */
  accountId?: string | undefined
  /** In place of the store's. */
  durability?: Durability | undefined
  /** Makes a repeated call return the first one's cell. Only with an account. */
  idempotency?: IdempotencyKey | undefined
}

/** The cells, accounts and keys of a store, without the contents of its cells: those are a `CellService`'s. */
export interface CellDirectory {
  readonly settings: StoreSettings
  readonly clock: Clock
  readonly accounts: Accounts
  readonly apiKeys: ApiKeys
  /** Creates a cell; it is on disk when this returns. @throws `idempotency_key_reused`, `invalid_request`, `disk_full` */
  createCell(options?: CreateCellOptions): { readonly id: string; readonly replayed?: true }
  /** What the catalog says of a cell, also of a deleted one. */
  findCell(id: string): CellRecord | undefined
  /** The cells that are not deleted, in the order of their creation, a page at a time. @throws `invalid_request` */
  cells(options?: CellListOptions): CellPage
}
