import {
  callback,
  FLAG,
  having,
  maybe,
  oneOf,
  type Shape,
  SIGNAL,
  TEXT,
} from '../../base/options/option-shapes.ts'
import { PAGING } from '../../base/paging.ts'
import { CALL } from '../object-store/object-store.ts'
import type { BackupListOptions } from './backup-page.ts'
import type {
  BackupOptions,
  BackupOrigin,
  MakeBackupOptions,
  PlanOptions,
  RestoreOptions,
} from './backup-types.ts'
import { MOMENT } from './cell-source.ts'
import type { PruneOptions } from './retention/prune-result.ts'

export const BACKUP: Shape<BackupOptions> = {
  signal: maybe(SIGNAL),
  onProgress: maybe(callback()),
  permit: maybe(having('check')),
  requestId: maybe(TEXT),
}
export const MAKE_BACKUP: Shape<MakeBackupOptions> = {
  ...BACKUP,
  origin: maybe(oneOf<BackupOrigin>('schedule', 'owner', 'tenant')),
}
export const RESTORE: Shape<RestoreOptions> = { ...BACKUP, ...MOMENT, accountId: TEXT }
export const LIST: Shape<BackupListOptions> = { ...CALL, ...PAGING, accountId: TEXT }
export const PLAN: Shape<PlanOptions> = { ...CALL, ...MOMENT, accountId: TEXT }
export const PRUNE: Shape<PruneOptions> = { ...CALL, dryRun: FLAG }
