import {
  callback,
  having,
  type Kind,
  maybe,
  oneOf,
  required,
  type Shape,
  SIGNAL,
  TEXT,
} from '../../base/options/option-shapes.ts'
import { PAGING } from '../../base/paging.ts'
import { CellError } from '../../errors.ts'
import { CALL } from '../object-store/object-store.ts'
import type {
  BackupListOptions,
  BackupOptions,
  BackupOrigin,
  MakeBackupOptions,
  PlanOptions,
  RestoreOptions,
} from './backup-types.ts'
import { checkVersion } from './object-keys.ts'

/** The state that a new cell begins with: one that another cell had, and that its backups hold. */
export interface CellSource {
  /** The other cell. It may be deleted, and stays as it is. */
  cellId: string
  /**
   * Default: the cell as it is now; what is pending is shipped before. What cannot be shipped, because the cell has had no
   * backup since it was restored, for example, is not in it. Not together with `timestamp`.
   */
  version?: string
  /** Epoch milliseconds: the cell as it was then. Not together with `version`. */
  timestamp?: number
}

/** Stamps have four digits for the year. */
const TIMESTAMP_MAX = Date.UTC(9999, 0)

const TIME: Kind<number> = {
  what: 'a time in epoch milliseconds, before the year 9999',
  fits: (value) => Number.isSafeInteger(value) && Number(value) >= 0 && Number(value) < TIMESTAMP_MAX,
}
/** Which state of a cell. */
export const MOMENT: Shape<Pick<CellSource, 'version' | 'timestamp'>> = {
  version: TEXT,
  timestamp: TIME,
}
export const SOURCE: Shape<CellSource> = { cellId: required(), ...MOMENT }

/** @throws `invalid_request` */
export function checkSource(source: CellSource): void {
  if (typeof source.cellId === 'string') return
  throw new CellError('invalid_request', 'from.cellId must be the id of a cell.', { field: 'from.cellId' })
}

/** @throws `invalid_request`, `invalid_version`; `backup_not_found` for a version of another cell */
export function checkMoment(
  { version, timestamp }: Pick<PlanOptions, 'version' | 'timestamp'>,
  cellId: string,
): void {
  if (version !== undefined && timestamp !== undefined)
    throw new CellError('invalid_request', 'version and timestamp exclude each other: leave one out.', {
      field: 'timestamp',
    })
  if (version !== undefined) checkVersion(version, cellId)
}

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
