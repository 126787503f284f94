import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { Manifest } from './manifest.ts'

/** What a manifest says of the cell itself. */
export type CellIdentity = Pick<
  Manifest,
  'store_id' | 'cell_id' | 'account_id' | 'name' | 'cell_created_at' | 'durability'
>

export function identityOfCell(storeId: string, record: CellRecord): CellIdentity {
  return {
    store_id: storeId,
    cell_id: record.id,
    account_id: record.accountId,
    name: record.name,
    cell_created_at: new Date(record.createdAt).toISOString(),
    durability: record.durability,
  }
}

/** The catalog is a cell of its own, under the store's id. @param createdAt epoch milliseconds */
export function identityOfCatalog(storeId: string, createdAt: number): CellIdentity {
  return {
    store_id: storeId,
    cell_id: storeId,
    account_id: null,
    name: 'catalog',
    cell_created_at: new Date(createdAt).toISOString(),
    durability: null,
  }
}
