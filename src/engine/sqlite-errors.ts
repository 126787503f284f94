import path from 'node:path'
import { isError } from '../base/any-realm.ts'
import { freeBytes } from '../base/machine/free-bytes.ts'
import type { Limits } from '../base/options/limits.ts'
import { CellError, type CellErrorDetails } from '../errors.ts'

interface SqliteErrorShape {
  code: string
  message: string
}

/** What the translation of an error needs to know of the cell. */
export interface ErrorContext {
  /** The database file. */
  path: string
  limits: Limits
}

/**
 * Turns what the driver or the file system throws into a `CellError`; a `CellError` passes through. RangeErrors and
 * TypeErrors are the driver's way to refuse a statement or its parameters.
 */
export function toCellError(error: unknown, context: ErrorContext): CellError {
  if (error instanceof CellError) return error
  if (isSqliteError(error)) return fromSqlite(error, context)
  if (isFileError(error)) return fromFile(error)
  if (error instanceof RangeError || error instanceof TypeError) return fromDriver(error)
  return new CellError('internal', 'An unexpected error occurred in the engine.', { cause: error })
}

export function isSqliteError(error: unknown): error is Error & SqliteErrorShape {
  return isError(error) && error.name === 'SqliteError' && 'code' in error
}

/** The driver's error for a statement whose connection was closed. */
export function isClosedConnection(error: unknown): boolean {
  return error instanceof TypeError && error.message.includes('connection is not open')
}

function isFileError(error: unknown): error is NodeJS.ErrnoException {
  return isError(error) && 'errno' in error && 'syscall' in error
}

/** The file is unreliable: written pages may be missing, or it is not a database. */
const DAMAGED = /^SQLITE_(CORRUPT|NOTADB|IOERR)/
/**
 * These say nothing about the file: locks, memory, temporary and shared-memory files. And tenants can themselves bring a
 * virtual table's index out of step.
 */
const NOT_DAMAGED =
  /^SQLITE_(CORRUPT_VTAB|IOERR_(NOMEM|BLOCKED|LOCK|RDLOCK|UNLOCK|CHECKRESERVEDLOCK|GETTEMPPATH|CONVPATH|ACCESS|DELETE|DELETE_NOENT|SHMOPEN|SHMSIZE|SHMLOCK|SHMMAP))$/
/** The file, or its log, can't be accessed now. */
const OUT_OF_REACH = /^SQLITE_(CANTOPEN|PROTOCOL|IOERR)/
const LOCKED = /^SQLITE_(BUSY|LOCKED)/
/** If SQLite can't open a file for writing, it opens it for reading, until it is closed. */
const OPENED_FOR_READING = /^SQLITE_READONLY/

/** Whether a SQLite result code means a damaged file. */
export function isDamage(code: string): boolean {
  return DAMAGED.test(code) && !NOT_DAMAGED.test(code)
}

function fromSqlite(error: Error & SqliteErrorShape, context: ErrorContext): CellError {
  const { code, message } = error
  const details: CellErrorDetails = { sqliteCode: code, cause: error }
  if (code.startsWith('SQLITE_CONSTRAINT')) return new CellError('constraint_violation', message, details)
  if (isDamage(code)) {
    const reason = code.startsWith('SQLITE_IOERR') ? 'io_error' : 'damaged'
    return new CellError('cell_quarantined', `The cell's file can't be used: ${message}.`, {
      ...details,
      reason,
      // By then the cell is being checked.
      ...(reason === 'io_error' ? { retryAfterMs: 2_000 } : {}),
    })
  }
  if (OPENED_FOR_READING.test(code)) {
    const text =
      "The cell's file could not be opened for writing. It stays closed until that succeeds. Try again."
    return new CellError('cell_quarantined', text, { ...details, reason: 'io_error' })
  }
  switch (code) {
    case 'SQLITE_FULL':
      return full(context, details)
    case 'SQLITE_TOOBIG':
    case 'SQLITE_NOMEM':
    case 'SQLITE_IOERR_NOMEM':
      return new CellError(
        'result_memory_exceeded',
        'The statement makes a value that is too large for the memory of a cell.',
        details,
      )
  }
  if (LOCKED.test(code)) {
    return new CellError('busy', 'Another program holds a lock on the cell. Try again.', details)
  }
  if (OUT_OF_REACH.test(code)) {
    if (isDiskFull(path.dirname(context.path))) return diskFull(details)
    return outOfReach(details)
  }
  return new CellError('sql_error', message, details)
}

/** SQLite has one code for a database at its limit and for a disk without room. */
function full({ path: file, limits }: ErrorContext, details: CellErrorDetails): CellError {
  if (isDiskFull(path.dirname(file))) return diskFull(details)
  const limit = limits.cellBytesMax
  return new CellError(
    'cell_full',
    `The cell is full: its limit is ${limit} bytes (limits.cellBytesMax). Delete something, or raise the limit.`,
    { ...details, limit },
  )
}

function fromFile(error: NodeJS.ErrnoException): CellError {
  return error.code === 'ENOSPC' ? diskFull({ cause: error }) : outOfReach({ cause: error })
}

function outOfReach(details: CellErrorDetails): CellError {
  return new CellError(
    'busy',
    "The cell's files can't be opened now: the server may be out of descriptors or memory. Try again.",
    details,
  )
}

function diskFull(details: CellErrorDetails): CellError {
  return new CellError('disk_full', 'The disk is full; nothing of the change was kept.', details)
}

/** A write that fails on a full disk leaves its part of the log behind, so that the disk stays full. */
const DISK_FULL_BYTES = 1_048_576

function isDiskFull(directory: string): boolean {
  try {
    return freeBytes(directory) < DISK_FULL_BYTES
  } catch {
    return false
  }
}

/** The driver's messages; any other error of these classes is our own bug. */
const PARAMETERS = /parameter|named|can only bind/i

function fromDriver(error: Error): CellError {
  const text = error.message
  if (text.includes('more than one statement')) {
    return new CellError(
      'multiple_statements',
      'Only one statement per call is allowed. Use a batch or a transaction for several.',
      { cause: error },
    )
  }
  if (text.includes('contains no statements')) {
    return new CellError('sql_error', 'The text contains no SQL statement.', { cause: error })
  }
  if (isClosedConnection(error))
    return new CellError('store_closed', 'The cell was closed.', { cause: error })
  if (text.includes('is too big')) {
    return new CellError('invalid_parameter', `${text}.`, { field: 'params', cause: error })
  }
  if (PARAMETERS.test(text)) return new CellError('param_count_mismatch', `${text}.`, { cause: error })
  return new CellError('internal', 'An unexpected error occurred in the engine.', { cause: error })
}
