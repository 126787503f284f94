import { ACCOUNT_ROWS } from './account-rows.ts'
import { API_KEY_ROWS } from './api-key-rows.ts'
import { BACKUP_ROWS } from './backup-rows.ts'
import { BATCH_ROWS } from './batch-rows.ts'
import { CELL_ROWS } from './cell-rows.ts'
import { HRANA_ROWS } from './hrana-rows.ts'
import { KV_BULK_ROWS } from './kv-bulk-rows.ts'
import { KV_COUNTER_ROWS } from './kv-counter-rows.ts'
import { KV_ENTRY_ROWS } from './kv-entry-rows.ts'
import type { Row } from './row.ts'
import { SETTING_ROWS } from './setting-rows.ts'
import { SQL_ROWS } from './sql-rows.ts'

/** Every row of the contract, by what it is about. */
export const AREAS: [name: string, rows: Row[]][] = [
  ['API keys', API_KEY_ROWS],
  ['accounts', ACCOUNT_ROWS],
  ['cells', CELL_ROWS],
  ['SQL', SQL_ROWS],
  ['batches', BATCH_ROWS],
  ['Hrana', HRANA_ROWS],
  ['KV entries', KV_ENTRY_ROWS],
  ['KV counters and times to live', KV_COUNTER_ROWS],
  ['KV in bulk', KV_BULK_ROWS],
  ['backups', BACKUP_ROWS],
  ['settings', SETTING_ROWS],
]
