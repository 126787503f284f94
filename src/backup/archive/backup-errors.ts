import { CellError, type CellErrorCode } from '../../errors.ts'

/** What a system call's failure in the data directory means to whoever asked for a backup or a restore. */
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
  disk_full: 'The disk is full; the backup or restore was given up.',
  busy: 'The machine has no memory or file descriptors left for the backup or restore. Try again.',
}

/**
 * Makes a `CellError` of whatever a backup or restore failed with.
 *
 * @param signal the caller's, whose own `CellError` comes back as it is
 */
export function toBackupError(error: unknown, signal?: AbortSignal): CellError {
  if (signal?.aborted) return cancelled(signal.reason)
  if (error instanceof CellError) return error
  const code = localFailure(error) ?? 'internal'
  const message = MESSAGES[code] ?? 'The backup or restore failed unexpectedly.'
  return new CellError(code, message, { cause: error })
}

/** @returns undefined for what is no failure of this machine's disk or memory */
export function localFailure(error: unknown): CellErrorCode | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  const code = String(error.code)
  if (code === 'SQLITE_FULL') return 'disk_full'
  if (code.startsWith('SQLITE_NOMEM') || code.startsWith('SQLITE_CANTOPEN')) return 'busy'
  if (code.startsWith('SQLITE_IOERR')) return 'internal'
  return 'syscall' in error ? (ERRNO_CODES[code] ?? 'internal') : undefined
}

function cancelled(reason: unknown): CellError {
  if (reason instanceof CellError) return reason
  return new CellError('busy', 'The backup or restore was cancelled by its caller.', { cause: reason })
}

/** @param member the part of the backup that did not match */
export function corrupt(member: string, why: string, cause?: unknown): CellError {
  return new CellError('backup_corrupt', `The backup object is damaged: ${member}: ${why}.`, {
    member,
    cause,
  })
}
