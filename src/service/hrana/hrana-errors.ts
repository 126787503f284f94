import { CellError, type CellErrorCode } from '../../errors.ts'

/** An error as Hrana writes it. */
export interface HranaError {
  message: string
  code: string
}

/** Codes of statements that Hrana, or SQLite, has a name for. */
const STATEMENT_CODES: Partial<Record<CellErrorCode, string>> = {
  sql_error: 'SQLITE_ERROR',
  multiple_statements: 'SQL_MANY_STATEMENTS',
  param_count_mismatch: 'ARGS_INVALID',
  invalid_parameter: 'ARGS_INVALID',
  statement_not_allowed: 'SQLITE_AUTH',
  forbidden: 'SQLITE_READONLY',
  sql_too_long: 'SQLITE_TOOBIG',
  result_too_large: 'RESPONSE_TOO_LARGE',
  cell_full: 'SQLITE_FULL',
  busy: 'SQLITE_BUSY',
}
/** Of errors that a whole request has. */
const CODES: Partial<Record<CellErrorCode, string>> = { transaction_lost: 'STREAM_EXPIRED' }
/** Nothing of a transaction remains. */
const ENDED: ReadonlySet<CellErrorCode> = new Set<CellErrorCode>([
  'transaction_timeout',
  'transaction_lost',
  'transaction_too_large',
])

/** SQLite's base code: clients compare with these. */
const BASE = /^SQLITE_[A-Z]+/

/** An error of ours in Hrana's words. What has no name there has ours, in capitals. */
export function hranaErrorOf(
  { code, message, details: { sqliteCode = '' } }: CellError,
  names: Partial<Record<CellErrorCode, string>> = CODES,
): HranaError {
  return { message, code: BASE.exec(sqliteCode)?.[0] ?? names[code] ?? code.toUpperCase() }
}

/** What a statement or a request is refused with, by a code of Hrana's that we have none for. */
export class HranaRefusal extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/**
 * What a step, or a request of a pipeline, that failed is answered with.
 *
 * @param hasCommitted something of the pipeline stays: its client has to be told of that
 * @returns undefined for an error that the whole pipeline has: nothing of it counts
 */
export function stepErrorOf(error: unknown, hasCommitted: boolean): HranaError | undefined {
  if (error instanceof HranaRefusal) return { message: error.message, code: error.code }
  if (!(error instanceof CellError)) return undefined
  if (hasCommitted && error.kind !== 'internal') return hranaErrorOf(error, STATEMENT_CODES)
  // A full cell undoes the transaction, and a quota may give more room to a second run.
  if (error.details.sqliteCode === 'SQLITE_FULL' || ENDED.has(error.code)) return undefined
  const isOfStep = error.kind === 'request' || error.kind === 'conflict'
  return isOfStep ? hranaErrorOf(error, STATEMENT_CODES) : undefined
}
