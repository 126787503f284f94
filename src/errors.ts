/**
 * What a caller can do about an error, coarser than the code:
 *
 * - `request`: change the call (bad input, a refused statement, a limit).
 * - `absent`: the thing named does not exist, or not for this caller.
 * - `conflict`: the state is in the way; look at it, then decide.
 * - `retry`: nothing is wrong with the call; try again later.
 * - `data`: stored data is damaged; choose another version, or look at the disk.
 * - `closed`: the object was closed; open it again.
 * - `internal`: a bug of ours; report it.
 */
export type CellErrorKind = 'request' | 'absent' | 'conflict' | 'retry' | 'data' | 'closed' | 'internal'

/** Every code, with its kind. Codes are API, and docs/errors.md explains each one; messages are not API. */
export const ERROR_KINDS = {
  // Cells and the store's directory
  cell_not_found: 'absent',
  cell_full: 'request',
  cell_quarantined: 'data',
  cell_restoring: 'retry',
  name_taken: 'conflict',
  name_ambiguous: 'conflict',
  invalid_database: 'request',
  cells_missing: 'data',
  disk_full: 'retry',
  no_backup: 'data',
  store_exists: 'conflict',
  store_not_found: 'absent',
  store_locked: 'conflict',
  store_closed: 'closed',
  invalid_setting: 'request',
  unsupported_runtime: 'request',
  // SQL
  sql_error: 'request',
  sql_too_long: 'request',
  multiple_statements: 'request',
  param_count_mismatch: 'request',
  invalid_parameter: 'request',
  statement_not_allowed: 'request',
  statement_timeout: 'request',
  constraint_violation: 'conflict',
  result_too_large: 'request',
  result_memory_exceeded: 'request',
  transaction_too_large: 'request',
  stream_expired: 'conflict',
  transaction_timeout: 'request',
  transaction_lost: 'conflict',
  // KV
  invalid_key: 'request',
  invalid_ttl: 'request',
  value_too_large: 'request',
  not_an_integer: 'request',
  integer_overflow: 'request',
  key_not_found: 'absent',
  precondition_failed: 'conflict',
  // Backups and the object store
  backup_not_found: 'absent',
  backup_corrupt: 'data',
  invalid_version: 'request',
  restore_in_progress: 'conflict',
  restore_not_found: 'absent',
  restore_canceled: 'conflict',
  object_store_not_configured: 'request',
  object_store_mismatch: 'conflict',
  object_store_unavailable: 'retry',
  not_replicated: 'conflict',
  object_store_error: 'retry',
  object_exists: 'conflict',
  object_store_in_use: 'conflict',
  store_outdated: 'conflict',
  taken_over: 'closed',
  // Many nodes
  cluster_unavailable: 'retry',
  // Accounts and API keys
  quota_exceeded: 'request',
  unauthorized: 'request',
  forbidden: 'request',
  account_suspended: 'request',
  account_not_found: 'absent',
  api_key_not_found: 'absent',
  // The command, on a remote node
  node_unreachable: 'retry',
  // Many nodes
  cell_moving: 'retry',
  not_serving: 'retry',
  // HTTP and requests in general
  not_found: 'absent',
  method_not_allowed: 'request',
  unsupported_media_type: 'request',
  body_too_large: 'request',
  headers_too_large: 'request',
  request_timeout: 'retry',
  invalid_json: 'request',
  invalid_request: 'request',
  idempotency_not_supported: 'request',
  idempotency_in_progress: 'retry',
  idempotency_key_reused: 'conflict',
  rate_limited: 'retry',
  busy: 'retry',
  shutting_down: 'retry',
  internal: 'internal',
} as const satisfies Record<string, CellErrorKind>

/** What went wrong, for programs: switch on it. */
export type CellErrorCode = keyof typeof ERROR_KINDS

/** Why a cell is kept closed. */
export type QuarantineReason = 'io_error' | 'damaged'

/** What an error can carry beside its message. Each member is safe to show to the tenant that caused it. */
export interface CellErrorDetails {
  /** The input that was wrong, by its name in the library: `ttlSeconds`, `params[2]`. */
  field?: string
  /** The limit that was reached, in the unit that the message names. */
  limit?: number
  /** What the caller's account has of what the limit bounds, in the same unit. */
  usage?: number
  /** SQLite's extended result code, for example `SQLITE_CONSTRAINT_UNIQUE`. */
  sqliteCode?: string
  /** Why a cell is kept closed: the disk failed under it (`io_error`), or its file is `damaged`. */
  reason?: QuarantineReason
  /** The part of a backup that did not match. */
  member?: string
  /** The backup, of a chain, that did not match. */
  version?: string
  /** Epoch milliseconds: the newest moment before the damage, or before the time asked for, that can be restored. */
  restorableTo?: number
  /** The methods a route does take. */
  allowed?: string[]
  /** Which operation of a batch, or statement of a script, failed, from 0. */
  index?: number
  /** How long to wait before trying again, in milliseconds. */
  retryAfterMs?: number
  cause?: unknown
}

/**
 * The one error class of cellstore. Switch on {@link CellError.code}. A message is for people: it names what was wrong,
 * with the limit or the remedy, and never holds a key or a value. Only the codes that opening a store throws
 * (`store_…`, `invalid_setting`, `object_store_mismatch`) name paths in it.
 */
export class CellError extends Error {
  override readonly name = 'CellError'
  /** What went wrong, for programs. */
  readonly code: CellErrorCode
  /** Which input or limit it was, and the like. Safe to show to the tenant that caused the error. */
  readonly details: Omit<CellErrorDetails, 'cause'>

  constructor(code: CellErrorCode, message: string, { cause, ...details }: CellErrorDetails = {}) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.details = details
  }

  /** What the caller can do about it. */
  get kind(): CellErrorKind {
    return ERROR_KINDS[this.code]
  }
}

/** True for a {@link CellError}, and if a code is given, only for one with that code. */
export function isCellError(error: unknown, code?: CellErrorCode): error is CellError {
  return error instanceof CellError && (code === undefined || error.code === code)
}

/** For the owner of a store: messages leave out what tenants must not see, and an error's cause may hold it. */
export function messageWithCause({ message, cause }: CellError): string {
  // Not `instanceof Error`: see base/any-realm.ts, which this file must not import.
  const { message: why } = Object(cause) as { message?: unknown }
  if (typeof why !== 'string' || why === '' || message.includes(why)) return message
  return `${message} (${why})`
}
