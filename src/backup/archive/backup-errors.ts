import { isError } from '../../base/any-realm.ts'
import { isClosedConnection } from '../../engine/sqlite-errors.ts'
import { CellError, type CellErrorCode } from '../../errors.ts'

/** The error code of a backup or restore for a failed system call in the data directory. */
const ERRNO_CODES: Readonly<Record<string, CellErrorCode>> = {
  ENOSPC: 'disk_full',
  EDQUOT: 'disk_full',
  EMFILE: 'busy',
  ENFILE: 'busy',
  ENOMEM: 'busy',
  EAGAIN: 'busy',
  EBUSY: 'busy',
}

const MESSAGES: Partial<Record<CellErrorCode, string>> = {
  disk_full: 'The disk is full; the backup or restore was stopped.',
  busy: 'The machine has no memory or file descriptors left for the backup or restore. Try again.',
}

/**
 * Turns the error of a failed backup or restore into a `CellError`.
 *
 * @param signal the caller's; a `CellError` as its reason is returned unchanged
 */
export function toBackupError(error: unknown, signal?: AbortSignal): CellError {
  if (signal?.aborted) return cancelled(signal.reason)
  if (error instanceof CellError) return error
  // What it was to note has no place any more.
  if (isClosedConnection(error))
    return new CellError('store_closed', 'The store is closed.', { cause: error })
  const code = localFailure(error) ?? 'internal'
  const message = MESSAGES[code] ?? 'The backup or restore failed unexpectedly.'
  return new CellError(code, message, { cause: error })
}

/** @returns undefined if the error is not about this machine's disk or memory */
export function localFailure(error: unknown): CellErrorCode | undefined {
  if (!isError(error) || !('code' in error)) return undefined
  const code = String(error.code)
  // SQLite's shared memory is a file, too.
  if (code === 'SQLITE_FULL' || code === 'SQLITE_IOERR_SHMSIZE') return 'disk_full'
  if (code.startsWith('SQLITE_NOMEM') || code.startsWith('SQLITE_CANTOPEN')) return 'busy'
  if (code.startsWith('SQLITE_IOERR')) return 'internal'
  return 'syscall' in error ? (ERRNO_CODES[code] ?? 'internal') : undefined
}

function cancelled(reason: unknown): CellError {
  if (reason instanceof CellError) return reason
  return new CellError('busy', 'The backup or restore was cancelled by its caller.', { cause: reason })
}

/**
 * The error with the object that it is about. A missing object is named already.
 *
 * @param version whose object was read
 */
export function inObject(version: string, error: CellError): CellError {
  const { message, details, cause } = error
  if (details.version !== undefined) return error
  const object = details.member?.includes('/') ? details.member : version
  const text = message.includes(object) ? message : `${object}: ${message}`
  return new CellError(error.code, text, { ...details, version: object, cause })
}

/** @param member the part of the backup that did not match */
export function corrupt(member: string, why: string, cause?: unknown): CellError {
  return new CellError('backup_corrupt', `The backup object is damaged: ${member}: ${why}.`, {
    member,
    cause,
  })
}
