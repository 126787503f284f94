import type { Operations } from './operation.ts'
import { ACCOUNT_OPERATIONS } from './operations/account-operations.ts'
import { API_KEY_OPERATIONS } from './operations/api-key-operations.ts'
import { BACKUP_OPERATIONS } from './operations/backup-operations.ts'
import { CELL_OPERATIONS } from './operations/cell-operations.ts'
import { CHANGE_OPERATIONS } from './operations/change-operations.ts'
import { HRANA_OPERATIONS } from './operations/hrana-operations.ts'
import { KV_OPERATIONS } from './operations/kv-operations.ts'
import { NODE_OPERATIONS } from './operations/node-operations.ts'
import { SQL_OPERATIONS } from './operations/sql-operations.ts'

/** Every row of routes.ts, by its method and path, in the order of the document. */
export const OPERATIONS: Operations = {
  ...NODE_OPERATIONS,
  ...API_KEY_OPERATIONS,
  ...ACCOUNT_OPERATIONS,
  ...CELL_OPERATIONS,
  ...SQL_OPERATIONS,
  ...HRANA_OPERATIONS,
  ...CHANGE_OPERATIONS,
  ...KV_OPERATIONS,
  ...BACKUP_OPERATIONS,
}
