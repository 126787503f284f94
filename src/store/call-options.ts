import { type Accounts, assertAccount } from '../auth/accounts.ts'
import type { IdempotencyKey } from '../auth/idempotency.ts'
import { checkNames, type Known } from '../base/known-names.ts'
import { CellError } from '../errors.ts'
import type { CreateCellOptions, FindByNameOptions, NamedCellOptions } from './cell-directory.ts'

/** Options of `store.close()`. */
export interface CloseOptions {
  /** Milliseconds that running backups may still take; 10,000 by default. */
  deadlineMs?: number | undefined
}

/** Options of `store.deleteCell()`. */
export interface DeleteCellOptions {
  /** An id of yours, for the line of the log. */
  requestId?: string | undefined
}

const CLOSE_NAMES: Known<CloseOptions> = { deadlineMs: true }
export const DELETE_NAMES: Known<DeleteCellOptions> = { requestId: true }
const CREATE_NAMES: Known<CreateCellOptions> = {
  name: true,
  accountId: true,
  durability: true,
  idempotency: true,
  admit: true,
}
const NAMED_NAMES: Known<NamedCellOptions> = { accountId: true, durability: true }
export const FIND_NAMES: Known<FindByNameOptions> = { accountId: true }
const IDEMPOTENCY_NAMES: Known<IdempotencyKey> = { method: true, path: true, key: true, fingerprint: true }

/** @throws `invalid_request` */
export function checkCloseOptions(options: CloseOptions): void {
  checkNames(options, CLOSE_NAMES)
  const { deadlineMs } = options
  if (deadlineMs === undefined || (Number.isFinite(deadlineMs) && deadlineMs >= 0)) return
  throw new CellError('invalid_request', 'deadlineMs must be a number of milliseconds, 0 or more.', {
    field: 'deadlineMs',
  })
}

/** @throws `invalid_request`; `account_not_found`: nobody could use its cell over HTTP */
export function checkCreateOptions(options: CreateCellOptions, accounts: Accounts): void {
  checkNames(options, CREATE_NAMES)
  const { accountId, idempotency } = options
  if (idempotency !== undefined) checkNames(idempotency, IDEMPOTENCY_NAMES, { at: 'idempotency.' })
  if (accountId !== undefined) assertAccount(accounts, accountId)
}

/** @throws as {@link checkCreateOptions} */
export function checkNamedOptions(options: NamedCellOptions, accounts: Accounts): void {
  checkNames(options, NAMED_NAMES)
  if (options.accountId !== undefined) assertAccount(accounts, options.accountId)
}
