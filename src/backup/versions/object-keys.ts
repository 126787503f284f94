import { isCellId } from '../../base/files/store-paths.ts'
import { CellError } from '../../errors.ts'

/** The only file that builds or parses object keys. A version *is* the object's key. */

/** Names the store that owns the prefix (invariant 14). Created once, never replaced. */
export const STORE_OBJECT = 'store.json'

/** The prefix of all backups; also shows whether the object store is empty. */
export const BACKUPS_PREFIX = 'snapshots/'

/** A small object that shows whether the object store takes objects; removed at once. */
export function probeKey(id: string): string {
  return `probes/${id}`
}

/** One object for each start of a node that uses the prefix. None is ever removed, so no epoch becomes free again. */
export const FENCE_PREFIX = 'fence/'
/** What the node of the newest epoch says of itself from time to time. */
const HOLDER_PREFIX = 'holder/'

const EPOCH_DIGITS = 10
const FENCE = /^fence\/(\d{10})$/
const HOLDER = /^holder\/(\d{10})-(\d{10})$/

export function fenceKey(epoch: number): string {
  return `${FENCE_PREFIX}${digits(epoch)}`
}

/** Where the object store cannot refuse the second of two puts, a ticket of its own shows who may put the fence. */
export function fenceTicketKey(epoch: number, id: string): string {
  return `${fenceKey(epoch)}-${id}`
}

/** The prefix of an epoch's fence and of its tickets. */
export function fencesOf(epoch: number): string {
  return fenceKey(epoch)
}

/** @param sequence counts an epoch's records, from 1 */
export function holderKey(epoch: number, sequence: number): string {
  return `${holdersOf(epoch)}${digits(sequence)}`
}

export function holdersOf(epoch: number): string {
  return `${HOLDER_PREFIX}${digits(epoch)}-`
}

/** @returns the epoch; undefined for a ticket and for what is no fence */
export function parseFence(key: string): number | undefined {
  const [, epoch] = FENCE.exec(key) ?? []
  return epoch === undefined ? undefined : Number(epoch)
}

/** @returns undefined if it is no such object */
export function parseHolder(key: string): { epoch: number; sequence: number } | undefined {
  const [, epoch, sequence] = HOLDER.exec(key) ?? []
  return epoch === undefined ? undefined : { epoch: Number(epoch), sequence: Number(sequence) }
}

/** What all cells of a node have committed, one object per tick (docs/decisions/0021). */
export const LOG_PREFIX = 'log/'
const LOG_OBJECT = /^log\/(\d{10})-(\d{10})$/

/** The order of keys is that of epochs, and in an epoch that of numbers. */
export interface LogNumber {
  epoch: number
  /** Counts the log objects of an epoch from 1, without gaps. */
  number: number
}

/** Whether a key, or the beginning of some, is of objects that each node of a cluster has for itself. */
export function isOfNode(key: string): boolean {
  return [FENCE_PREFIX, HOLDER_PREFIX, LOG_PREFIX].some((prefix) => key.startsWith(prefix))
}

export function logKey({ epoch, number }: LogNumber): string {
  return `${logsOf(epoch)}${digits(number)}`
}

/** The prefix of an epoch's log objects. */
function logsOf(epoch: number): string {
  return `${LOG_PREFIX}${digits(epoch)}-`
}

/** @returns undefined if it is no log object */
export function parseLogKey(key: string): LogNumber | undefined {
  const [, epoch, number] = LOG_OBJECT.exec(key) ?? []
  return epoch === undefined ? undefined : { epoch: Number(epoch), number: Number(number) }
}

/** Of one length, so that the order of keys is that of numbers. */
function digits(number: number): string {
  return String(number).padStart(EPOCH_DIGITS, '0')
}

/** Stamps have four digits for the year. The year 9999 stays free, so that each version has room for a later one. */
const TIME_MAX = Date.UTC(9999, 0)

const VERSION = /^snapshots\/([^/]+)\/backup-(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})(?:\.(\d{3}))?Z$/

/**
 * A mark's name has two times: when the cell was restored, and that of the version which it was restored to. A third one says up
 * to when the log was restored that comes after the version.
 */
const RESTORED_MARK = /^(snapshots\/[^/]+\/)restored-([^-]+)-to-([^-]+?)(?:-at-([^-]+))?$/

/** Says that a cell was restored to a state that was not its newest one. */
export interface RestoredMark {
  key: string
  /** Epoch milliseconds; it has a place in the order of the cell's versions. */
  time: number
  /** What the cell was restored to. */
  version: string
  /** Epoch milliseconds: with what the cell had committed after the version up to then. Undefined: the version alone. */
  at: number | undefined
}
const NOTE = /^(snapshots\/[^/]+\/)(pin|marks|proven|plan)-(\d{8}T\d{6}\.\d{3}Z)$/

export interface ParsedVersion {
  cellId: string
  /** Epoch milliseconds. */
  time: number
}

/** The prefix of a cell's backups. An id that is not a UUID could share another cell's prefix. */
export function cellPrefix(cellId: string): string {
  if (!isCellId(cellId)) throw new CellError('internal', 'A backup key was requested for an invalid cell id.')
  return `${BACKUPS_PREFIX}${cellId}/`
}

/** @param time epoch milliseconds. @throws `internal` for a time that no version can have */
export function versionOf(cellId: string, time: number): string {
  if (!(time >= 0 && time < TIME_MAX)) throw new CellError('internal', 'A backup has no room for its time.')
  return `${cellPrefix(cellId)}backup-${stampOf(time)}`
}

function stampOf(time: number): string {
  return new Date(time).toISOString().replaceAll(/[-:]/g, '')
}

/**
 * Small objects next to a cell's versions, for the retention of them. `pin` has the stamp of its version; the others have a
 * stamp of their own, and the newest counts.
 */
export type NoteKind = 'pin' | 'marks' | 'proven' | 'plan'

/** @param time epoch milliseconds */
export function noteKey(cellId: string, kind: NoteKind, time: number): string {
  return `${cellPrefix(cellId)}${kind}-${stampOf(time)}`
}

/** @returns undefined if it is no such object */
export function parseNote(key: string): { kind: NoteKind; time: number } | undefined {
  const [, folder = '', kind, stamp = ''] = NOTE.exec(key) ?? []
  const parsed = kind === undefined ? undefined : parseVersion(`${folder}backup-${stamp}`)
  return parsed && { kind: kind as NoteKind, time: parsed.time }
}

/** @param version of the same cell */
export function restoredMarkOf(
  time: number,
  { version, at }: Pick<RestoredMark, 'version' | 'at'>,
): RestoredMark {
  const { cellId } = parseVersion(version) as ParsedVersion
  const to = version.slice(version.lastIndexOf('-') + 1)
  const log = at === undefined ? '' : `-at-${stampOf(at)}`
  return { key: `${cellPrefix(cellId)}restored-${stampOf(time)}-to-${to}${log}`, time, version, at }
}

/** @returns undefined if it is malformed */
export function parseRestoredMark(key: string): RestoredMark | undefined {
  const [, prefix, stamp, to, until] = RESTORED_MARK.exec(key) ?? []
  const version = `${prefix}backup-${to}`
  const time = parseVersion(`${prefix}backup-${stamp}`)?.time
  const at = until === undefined ? undefined : parseVersion(`${prefix}backup-${until}`)?.time
  if (time === undefined || parseVersion(version) === undefined) return undefined
  return until !== undefined && at === undefined ? undefined : { key, time, version, at }
}

/** A key right before a version that this store made: a listing after the key starts with that version. */
export function keyBefore(version: string): string {
  const { cellId, time } = parseVersion(version) as ParsedVersion
  return versionOf(cellId, time - 1)
}

/** @returns undefined if it is malformed */
export function parseVersion(version: string): ParsedVersion | undefined {
  const match = VERSION.exec(version)
  if (match === null) return undefined
  const [, cellId, year, month, day, hour, minute, second, ms] = match as unknown as string[]
  const iso = `${year}-${month}-${day}T${hour}:${minute}:${second}.${ms ?? '000'}Z`
  const time = Date.parse(iso)
  if (cellId === undefined || !isCellId(cellId) || !(time < TIME_MAX)) return undefined
  // Date.parse accepts the 30th of February as the 2nd of March.
  return new Date(time).toISOString() === iso ? { cellId, time } : undefined
}

/** Whether an object changes what a restore brings back. */
export function extendsHistory(key: string): boolean {
  return [parseVersion, parseRestoredMark, parseLogKey].some((parse) => parse(key) !== undefined)
}

/** Newest first. */
export function compareVersions(a: string, b: string): number {
  const difference = (parseVersion(b)?.time ?? 0) - (parseVersion(a)?.time ?? 0)
  if (difference !== 0) return difference
  return a < b ? 1 : a > b ? -1 : 0
}

/** @throws `invalid_version` if it is malformed, `backup_not_found` if it belongs to another cell */
export function checkVersion(version: string, cellId: string): void {
  const parsed = typeof version === 'string' ? parseVersion(version) : undefined
  if (parsed === undefined) {
    throw new CellError(
      'invalid_version',
      'version must look like snapshots/<cell id>/backup-20261121T020213.123Z. List the backups to find the right one.',
      { field: 'version' },
    )
  }
  if (parsed.cellId !== cellId) throw backupNotFound()
}

export function backupNotFound(): CellError {
  return new CellError('backup_not_found', 'The cell has no such backup.')
}

/** Where the newest one is asked for. */
export function noBackup(): CellError {
  return new CellError('backup_not_found', 'The cell has no backup.')
}
