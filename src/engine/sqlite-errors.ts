import { CellError, type CellErrorDetails } from '../errors.ts'
import type { Limits } from './limits.ts'

interface SqliteErrorShape {
  code: string
  message: string
}

/**
 * Turns what the driver throws into a `CellError`; a `CellError` passes through. RangeErrors and TypeErrors are the
 * driver's way to refuse a statement or its parameters.
 */
export function toCellError(error: unknown, limits: Limits): CellError {
  if (error instanceof CellError) return error
  if (isSqliteError(error)) return fromSqlite(error, limits)
  if (error instanceof RangeError || error instanceof TypeError) return fromDriver(error)
  return new CellError('internal', 'An unexpected error occurred in the engine.', { cause: error })
}

function isSqliteError(error: unknown): error is Error & SqliteErrorShape {
  return error instanceof Error && error.name === 'SqliteError' && 'code' in error
}

function fromSqlite(error: Error & SqliteErrorShape, limits: Limits): CellError {
  const details: CellErrorDetails = { sqliteCode: error.code, cause: error }
  const code = error.code
  if (code.startsWith('SQLITE_CONSTRAINT')) return new CellError('constraint_violation', error.message, details)
  if (code.startsWith('SQLITE_IOERR') || code.startsWith('SQLITE_CORRUPT') || code.startsWith('SQLITE_NOTADB')) {
    return new CellError('cell_quarantined', `The cell's file can't be used: ${error.message}.`, details)
  }
  if (code.startsWith('SQLITE_BUSY') || code.startsWith('SQLITE_LOCKED')) {
    return new CellError('busy', 'Another program holds a lock on the cell. Try again.', details)
  }
  if (code.startsWith('SQLITE_CANTOPEN')) {
    return new CellError('busy', "The cell's file can't be opened now. Try again.", details)
  }
  switch (code) {
    case 'SQLITE_FULL':
      return new CellError(
        'cell_full',
        `The cell or its disk is full (limit ${limits.cellBytesMax} bytes a cell). Delete something, or raise the limit.`,
        { ...details, limit: limits.cellBytesMax },
      )
    case 'SQLITE_TOOBIG':
    case 'SQLITE_NOMEM':
      return new CellError(
        'result_memory_exceeded',
        'The statement makes a value that is larger than a cell may hold in memory.',
        details,
      )
    default:
      return new CellError('sql_error', error.message, details)
  }
}

function fromDriver(error: Error): CellError {
  const text = error.message
  if (/more than one statement/i.test(text)) {
    return new CellError('multiple_statements', 'One statement a call. Use a batch or a transaction for several.', {
      cause: error,
    })
  }
  if (/contains no statements/i.test(text)) return new CellError('sql_error', 'The text holds no SQL statement.')
  if (/parameter|named/i.test(text)) return new CellError('param_count_mismatch', `${text}.`, { cause: error })
  return new CellError('sql_error', text, { cause: error })
}
