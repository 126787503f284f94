import { STATUS_CODES } from 'node:http'
import { CellError, type CellErrorCode, messageWithCause } from '../../errors.ts'
import type { ProblemDocument } from '../answers/problem-document.ts'
import { type HttpResponse, RequestAborted } from './http-message.ts'

/**
 * The one place where an error's code becomes a status. Codes that only opening a store can throw, and those that the
 * layers below take care of themselves, are bugs of ours when they get here: 500, and shown as `internal`.
 */
export const STATUS_OF_CODE: Readonly<Record<CellErrorCode, number>> = {
  cell_not_found: 404,
  cell_full: 507,
  cell_quarantined: 503,
  cell_restoring: 503,
  name_taken: 409,
  name_ambiguous: 500,
  invalid_database: 422,
  cells_missing: 503,
  disk_full: 507,
  no_backup: 409,
  store_exists: 500,
  store_not_found: 500,
  store_locked: 500,
  store_closed: 503,
  invalid_setting: 500,
  unsupported_runtime: 500,
  sql_error: 400,
  sql_too_long: 413,
  multiple_statements: 400,
  param_count_mismatch: 400,
  invalid_parameter: 400,
  statement_not_allowed: 403,
  statement_timeout: 408,
  constraint_violation: 409,
  result_too_large: 400,
  result_memory_exceeded: 400,
  transaction_too_large: 400,
  stream_expired: 409,
  transaction_timeout: 408,
  transaction_lost: 409,
  invalid_key: 400,
  invalid_ttl: 400,
  value_too_large: 413,
  not_an_integer: 400,
  integer_overflow: 400,
  key_not_found: 404,
  precondition_failed: 412,
  backup_not_found: 404,
  backup_corrupt: 422,
  invalid_version: 400,
  restore_in_progress: 409,
  restore_not_found: 404,
  restore_canceled: 409,
  object_store_not_configured: 501,
  object_store_mismatch: 500,
  object_store_unavailable: 503,
  not_replicated: 503,
  object_store_error: 502,
  object_exists: 500,
  object_store_in_use: 500,
  store_outdated: 500,
  taken_over: 503,
  cluster_unavailable: 503,
  quota_exceeded: 403,
  unauthorized: 401,
  forbidden: 403,
  account_suspended: 403,
  account_not_found: 404,
  api_key_not_found: 404,
  node_unreachable: 500,
  cell_moving: 503,
  not_serving: 503,
  not_found: 404,
  method_not_allowed: 405,
  unsupported_media_type: 415,
  body_too_large: 413,
  headers_too_large: 431,
  request_timeout: 408,
  invalid_json: 400,
  invalid_request: 400,
  idempotency_not_supported: 400,
  idempotency_in_progress: 409,
  idempotency_key_reused: 422,
  rate_limited: 429,
  busy: 503,
  shutting_down: 503,
  internal: 500,
}

/** Seconds, where the error itself names none. Every 429 and 503 carries a `Retry-After`. */
const RETRY_AFTER_DEFAULT = 1
const RETRY_AFTER: Partial<Record<CellErrorCode, number>> = {
  cell_quarantined: 60,
  cell_restoring: 2,
  cells_missing: 60,
  object_store_unavailable: 5,
  shutting_down: 2,
}

/**
 * An error as an RFC 9457 problem document.
 *
 * @param show what of the error its reader may see
 * @returns the response without the headers that every response has
 */
export function problemResponse(
  error: unknown,
  requestId: string,
  show: (error: unknown) => CellError = asTenantsSee,
): HttpResponse & { body: string; code: CellErrorCode } {
  const { code, message, details } = inHttpTerms(show(error))
  const status = STATUS_OF_CODE[code]
  const headers: Record<string, string> = { 'Content-Type': 'application/problem+json' }
  if (status === 429 || status === 503)
    headers['Retry-After'] = String(retryAfterSeconds(code, details.retryAfterMs))
  if (details.allowed !== undefined) headers['Allow'] = details.allowed.join(', ')
  if (code === 'unauthorized') headers['WWW-Authenticate'] = 'Bearer'
  const { field, limit, usage, sqliteCode, reason, member, version, allowed, index } = details
  const document: ProblemDocument = {
    type: 'about:blank',
    title: STATUS_CODES[status] as string,
    status,
    detail: message,
    code,
    request_id: requestId,
    field,
    limit,
    usage,
    sqlite_code: sqliteCode,
    reason,
    member,
    version,
    allowed,
    index,
  }
  return { status, headers, body: JSON.stringify(document), code }
}

/** Options of the library that bodies call something else. */
const FIELD_OF_OPTION = new Map([
  ['ttlSeconds', 'ttl_seconds'],
  ['keepTtl', 'keep_ttl'],
  ['ifVersion', 'if_version'],
])
/** An option, in an operation or an entry where there are several. A tenant's own names, as in `params.a`, never match. */
const OPTION_FIELD = /^((?:\w+\[\d+\]\.)*)(\w+)$/

/** The library calls an option `ttlSeconds`, and a body `ttl_seconds`: an error names what its reader wrote. */
function inHttpTerms(error: CellError): CellError {
  // Any other code with such a name is about what the sender wrote.
  if (error.code !== 'invalid_ttl' && error.code !== 'precondition_failed') return error
  const [, at, option = ''] = OPTION_FIELD.exec(error.details.field ?? '') ?? []
  const field = FIELD_OF_OPTION.get(option)
  if (field === undefined) return error
  // Only the whole word: the setting limits.ttlSecondsMax keeps its name.
  const message = error.message.replaceAll(new RegExp(`\\b${option}\\b`, 'g'), field)
  return new CellError(error.code, message, { ...error.details, field: `${at}${field}` })
}

/**
 * What a tenant may see of an error. What is not foreseen is shown as `internal` and nothing else: its message may name
 * paths or hold another tenant's data.
 */
export function asTenantsSee(error: unknown): CellError {
  if (error instanceof RequestAborted) return new CellError('invalid_request', 'The request was cut off.')
  if (!(error instanceof CellError) || STATUS_OF_CODE[error.code] === 500) {
    return new CellError('internal', 'An unexpected error occurred. It was logged with the request id.')
  }
  if (error.code === 'store_closed' || error.code === 'taken_over') return shuttingDown()
  return error
}

/** The owner of the store sees also which setting or path was wrong, and what was behind an error. */
export function asOwnerSees(error: unknown): CellError {
  if (!(error instanceof CellError) || error.code === 'internal' || error.code === 'store_closed') {
    return asTenantsSee(error)
  }
  return new CellError(error.code, messageWithCause(error), error.details)
}

export function shuttingDown(): CellError {
  return new CellError('shutting_down', 'The service is shutting down. Try again: another one takes over.')
}

function retryAfterSeconds(code: CellErrorCode, retryAfterMs: number | undefined): number {
  if (retryAfterMs !== undefined) return Math.max(1, Math.ceil(retryAfterMs / 1_000))
  return RETRY_AFTER[code] ?? RETRY_AFTER_DEFAULT
}
