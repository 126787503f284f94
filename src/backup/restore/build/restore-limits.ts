import { freeBytes } from '../../../base/machine/free-bytes.ts'
import type { Limits } from '../../../base/options/limits.ts'
import { bytesWithReserve } from '../../../engine/files/delete-reserve.ts'
import { CellError } from '../../../errors.ts'
import type { Expected, Manifest } from '../../archive/manifest.ts'

/** An incremental's logs may have this size even if the database is smaller: changes/backup-chain.ts. */
const LOGS_BYTES_MIN = 1_048_576

/**
 * Checks what a manifest declares before any byte is written: a few compressed kilobytes can declare, and unpack to,
 * terabytes.
 *
 * @throws `cell_full`
 */
export function checkDeclared({ database, wals }: Manifest, limits: Limits): void {
  checkSize(database?.size ?? 0, limits)
  const logs = wals.reduce((sum, { size }) => sum + size, 0)
  checkWal(logs, limits)
}

/** @throws `cell_full` for logs that no cell can have at a time */
export function checkWal(bytes: number, limits: Limits): void {
  const max = Math.max(bytesWithReserve(limits.cellBytesMax), LOGS_BYTES_MIN) + limits.walBytesMax
  if (bytes > max) throw tooLarge('logs', bytes, limits)
}

/**
 * Checks that the disk has room for what a manifest declares, with bytes to spare for everybody else.
 *
 * @throws `disk_full`
 */
export function checkRoom({ database, wals }: Manifest, directory: string, spareBytes: number): void {
  const needed = wals.reduce((sum, { size }) => sum + size, database?.size ?? 0)
  const free = freeBytes(directory)
  if (needed + spareBytes <= free) return
  throw new CellError(
    'disk_full',
    `The backup unpacks to ${needed} bytes, the disk has ${free}, and ${spareBytes} of them stay free. Make room on the disk.`,
  )
}

/** @throws `cell_full` for a database that is larger than a cell may become */
export function checkSize(bytes: number, limits: Limits): void {
  if (bytes > bytesWithReserve(limits.cellBytesMax) + limits.walBytesMax)
    throw tooLarge('a database', bytes, limits)
}

function tooLarge(what: string, bytes: number, { cellBytesMax }: Limits): CellError {
  return new CellError(
    'cell_full',
    `The backup holds ${what} of ${bytes} bytes, and a cell may have ${cellBytesMax} (limits.cellBytesMax). Nothing was restored. Raise the limit to restore it.`,
    { limit: cellBytesMax },
  )
}

/** Whose backup it has to be, and how large it may be. */
export interface Acceptable extends Expected {
  limits: Limits
  /** Bytes that the restore must leave free on the disk. Undefined: it may fill the disk. */
  spareBytes?: number | undefined
}

/** An archive of a chain, and where its database goes. Plain data: it can be sent to a thread. */
export interface ArchivePlace {
  /** The database under restore. */
  file: string
  version: string
  /** The versions that were applied to it, in their order. */
  before: readonly string[]
  expected: Acceptable
}
