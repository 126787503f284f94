import { isCellId } from '../../base/store-paths.ts'
import { CellError } from '../../errors.ts'

/** The only file that builds or parses object keys. A version *is* the object's key. */

/** Says whose prefix this is (invariant 14). Created once, never replaced. */
export const STORE_OBJECT = 'store.json'

/** Everything that this project ever stores, for the question whether a prefix is empty. */
export const BACKUPS_PREFIX = 'snapshots/'

const VERSION = /^snapshots\/([^/]+)\/backup-(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})(?:\.(\d{3}))?Z$/

export interface ParsedVersion {
  cellId: string
  /** Epoch milliseconds. */
  time: number
}

/** Where a cell's backups lie. An id that is no UUID must never get here: it would share another cell's prefix. */
export function cellPrefix(cellId: string): string {
  if (!isCellId(cellId))
    throw new CellError('internal', 'A backup was asked of something that is no cell id.')
  return `${BACKUPS_PREFIX}${cellId}/`
}

/** @param time epoch milliseconds */
export function versionOf(cellId: string, time: number): string {
  const stamp = new Date(time).toISOString().replaceAll(/[-:]/g, '')
  return `${cellPrefix(cellId)}backup-${stamp}`
}

/** The key right before a version of this store's making: a listing after it begins with that version. */
export function keyBefore(version: string): string {
  const { cellId, time } = parseVersion(version) as ParsedVersion
  return versionOf(cellId, time - 1)
}

/** @returns undefined for what is no version */
export function parseVersion(version: string): ParsedVersion | undefined {
  const match = VERSION.exec(version)
  if (match === null) return undefined
  const [, cellId, year, month, day, hour, minute, second, ms] = match as unknown as string[]
  const iso = `${year}-${month}-${day}T${hour}:${minute}:${second}.${ms ?? '000'}Z`
  const time = Date.parse(iso)
  if (cellId === undefined || !isCellId(cellId) || Number.isNaN(time)) return undefined
  // Date.parse takes the 30th of February for the 2nd of March.
  return new Date(time).toISOString() === iso ? { cellId, time } : undefined
}

/** Newest first. */
export function compareVersions(a: string, b: string): number {
  const difference = (parseVersion(b)?.time ?? 0) - (parseVersion(a)?.time ?? 0)
  if (difference !== 0) return difference
  return a < b ? 1 : a > b ? -1 : 0
}

/**
 * @throws `invalid_version` if it is malformed, `backup_not_found` if it is another cell's
 */
export function checkVersion(version: string, cellId: string): void {
  const parsed = parseVersion(version)
  if (parsed === undefined) {
    throw new CellError(
      'invalid_version',
      'version looks like snapshots/<cell id>/backup-20261121T020213.123Z; list the backups to see those there are.',
      { field: 'version' },
    )
  }
  if (parsed.cellId !== cellId) throw backupNotFound()
}

export function backupNotFound(): CellError {
  return new CellError('backup_not_found', 'This cell has no such backup.')
}
