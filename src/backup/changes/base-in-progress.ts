import { CellError } from '../../errors.ts'
import { type BackupChain, isOutgrown } from './backup-chain.ts'
import { type FileFingerprint, sameFingerprint } from './file-fingerprint.ts'
import type { Segment } from './log/segments.ts'

/** Why a base is worthless, or cannot be continued. */
type BreakReason = 'foreign write' | 'log not kept' | 'logs outgrown'

/**
 * A base from the start of its copy until it is stored. It is part of the cell's row: if the process that has the cell open
 * dies, the next one keeps the logs that the copy needs, and makes the cut.
 *
 *     copying ── cut ──▶ cut ── stored ──▶ the chain's base
 *        │                └── broken: is stored, but nothing continues it
 *        └── broken: is refused at its cut
 */
export interface BaseInProgress {
  id: string
  /** Segments after this sequence number hold every change since the copy began. */
  from: number
  /** The newest sequence number in use. */
  newest: number
  /** Segments up to this one belong to the base; null until its cut. */
  through: number | null
  /** The database file as the copy found it, or after our own last checkpoint since then. */
  database: FileFingerprint
  broken: BreakReason | null
}

/**
 * The logs kept during a copy may grow to the size of the database, but always to this size: a small cell may be written
 * fast while its copy waits.
 */
const COPY_LOGS_BYTES_MIN = 64 * 1_048_576

/** The segments that the copy needs, or that the chain after it would continue with. */
export function isNeededBy(base: BaseInProgress, { sequence }: Segment): boolean {
  if (sequence <= base.from) return false
  return base.broken === null || (base.through !== null && sequence <= base.through)
}

/** Breaks the base if its logs cost more than another copy of the database. */
export function boundLogs(base: BaseInProgress, kept: readonly Segment[], databaseBytes: number): void {
  const logs = kept.filter(({ sequence }) => sequence > (base.through ?? base.from))
  const bytes = logs.reduce((sum, { size }) => sum + size, 0)
  const tooMuch =
    base.through === null
      ? bytes > Math.max(databaseBytes, COPY_LOGS_BYTES_MIN)
      : isOutgrown(logs, 0, databaseBytes)
  if (tooMuch) base.broken ??= 'logs outgrown'
}

/**
 * The segments of a copy that ends now: they turn it into the database as it is at this moment.
 *
 * @param kept all kept segments, in order
 * @param database the database file as it is now
 * @throws `busy`
 */
export function segmentsOfCopy(
  base: BaseInProgress,
  kept: readonly Segment[],
  database: FileFingerprint | undefined,
): Segment[] {
  if (database === undefined || !sameFingerprint(database, base.database)) base.broken ??= 'foreign write'
  const segments = kept.filter(({ sequence }) => sequence > base.from)
  const isComplete = segments.every(({ sequence }, i) => sequence === base.from + 1 + i)
  if (!isComplete || base.from + segments.length !== base.newest) base.broken ??= 'log not kept'
  if (base.broken !== null) throw new CellError('busy', MESSAGES[base.broken])
  return segments
}

/** The chain that begins with the stored base; null if nothing can continue it. */
export function chainOf(
  { broken, through, newest, database }: BaseInProgress,
  version: string,
): BackupChain | null {
  if (broken !== null || through === null) return null
  return { versions: [version], walBytes: 0, through, newest, database }
}

/** The base was given up, or another has begun since. @throws `busy` */
export function noSuchBase(): CellError {
  return new CellError('busy', 'The backup was given up meanwhile. Try again.')
}

export function isBaseInProgress({ id, from, newest, through, database }: BaseInProgress): boolean {
  const numbers = [from, newest, through ?? 0]
  return (
    typeof id === 'string' &&
    numbers.every((each) => Number.isSafeInteger(each) && each >= 0) &&
    typeof database?.size === 'number'
  )
}

const MESSAGES: Readonly<Record<BreakReason, string>> = {
  'foreign write': 'Another program wrote to the cell during its backup. Try again.',
  'log not kept': 'A log that the backup needs could not be kept. Look at the disk, and try again.',
  'logs outgrown':
    'The backup was cancelled: more was written to the cell meanwhile than the cell is large. Try again.',
}
