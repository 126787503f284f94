import { type Accounts, assertAccount } from '../../auth/accounts.ts'
import type { IdempotencyKey } from '../../auth/idempotency.ts'
import {
  callback,
  checkOptions,
  group,
  judgedByReader,
  MILLISECONDS,
  maybe,
  orNull,
  type Shape,
  TEXT,
} from '../../base/options/option-shapes.ts'
import { DURABILITY } from '../../engine/cell-settings.ts'
import type { CreateCellOptions, FindByNameOptions, NamedCellOptions } from '../cells/cell-directory.ts'

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

export const CLOSE: Shape<CloseOptions> = { deadlineMs: maybe(MILLISECONDS) }
export const DELETE: Shape<DeleteCellOptions> = { requestId: maybe(TEXT) }
const IDEMPOTENCY: Shape<IdempotencyKey> = { method: TEXT, path: TEXT, key: TEXT, fingerprint: TEXT }
export const CREATE: Shape<CreateCellOptions> = {
  name: maybe(judgedByReader('a name')),
  accountId: TEXT,
  durability: maybe(DURABILITY),
  idempotency: maybe(group(IDEMPOTENCY)),
  admit: maybe(callback()),
}
const { accountId, durability } = CREATE
const NAMED: Shape<NamedCellOptions> = { accountId, durability }
export const FIND: Shape<FindByNameOptions> = { accountId: orNull(TEXT) }

/** @throws `invalid_request`; `account_not_found`: nobody could use its cell over HTTP */
export function checkCreateOptions(options: CreateCellOptions, accounts: Accounts): void {
  checkOptions(options, CREATE)
  const { accountId } = options
  if (accountId !== undefined) assertAccount(accounts, accountId)
}

/** @throws as {@link checkCreateOptions} */
export function checkNamedOptions(options: NamedCellOptions, accounts: Accounts): void {
  checkOptions(options, NAMED)
  if (options.accountId !== undefined) assertAccount(accounts, options.accountId)
}
