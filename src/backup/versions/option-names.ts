import type { Known } from '../../base/known-names.ts'
import type { CallOptions } from '../object-store/object-store.ts'
import type { BackupListOptions } from './backup-page.ts'
import type { BackupOptions, MakeBackupOptions, PlanOptions, RestoreOptions } from './backup-types.ts'
import type { PruneOptions } from './prune-result.ts'

/** The names of the options of backups and restores, for `checkNames`. */

const BACKUP_NAMES: Known<BackupOptions> = {
  signal: true,
  onProgress: true,
  permit: true,
  requestId: true,
}
export const MAKE_BACKUP_NAMES: Known<MakeBackupOptions> = { ...BACKUP_NAMES, origin: true }
export const RESTORE_NAMES: Known<RestoreOptions> = {
  ...BACKUP_NAMES,
  version: true,
  timestamp: true,
  accountId: true,
}
export const LIST_NAMES: Known<BackupListOptions> = {
  cursor: true,
  limit: true,
  accountId: true,
  signal: true,
}
export const PLAN_NAMES: Known<PlanOptions> = {
  version: true,
  timestamp: true,
  accountId: true,
  signal: true,
}
export const CALL_NAMES: Known<CallOptions> = { signal: true }
export const PRUNE_NAMES: Known<PruneOptions> = { ...CALL_NAMES, dryRun: true }
