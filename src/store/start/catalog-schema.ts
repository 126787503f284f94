import { ACCOUNTS_SCHEMA, ACCOUNTS_UPGRADE } from '../../auth/accounts.ts'
import { API_KEYS_SCHEMA, API_KEYS_UPGRADE } from '../../auth/api-key-table.ts'
import { IDEMPOTENCY_SCHEMA } from '../../auth/idempotency.ts'
import type { CatalogSchema } from '../../catalog/catalog.ts'
import { CELLS_SCHEMA } from '../../catalog/cell-registry.ts'
import { REQUESTED_BACKUPS_SCHEMA } from '../../catalog/requested-backups.ts'

/** The tables that the catalog's users add to it. */
export const CATALOG_SCHEMA: CatalogSchema = {
  tables: [CELLS_SCHEMA, ACCOUNTS_SCHEMA, API_KEYS_SCHEMA, IDEMPOTENCY_SCHEMA, REQUESTED_BACKUPS_SCHEMA],
  // 2: keys have scopes and expire, and accounts can be suspended. An earlier version of cellstore would ignore all that.
  upgrades: [ACCOUNTS_UPGRADE + API_KEYS_UPGRADE],
}
