import { type FileFingerprint, sameFingerprint } from './file-fingerprint.ts'
import type { IncrementalCut } from './log/cell-cuts.ts'
import type { Segment } from './log/segments.ts'

/** A base and its incrementals: what the next incremental continues. */
export interface BackupChain {
  /** All versions, oldest first; the first holds the database image. */
  versions: string[]
  /** Bytes of write-ahead log in the versions after the first. */
  walBytes: number
  /** Segments up to this sequence number are in the object store. */
  through: number
  /** The newest sequence number in use. */
  newest: number
  /** The database file after our own last checkpoint. Another program's checkpoint shows as a difference. */
  database: FileFingerprint
}

/** The most versions of one chain: bounds what a restore has to read. */
export const CHAIN_VERSIONS_MAX = 64
/** The logs of a chain may grow to the size of the database, but always to this size. */
const BYTES_MIN = 1_048_576
/** The most kept logs: each close of a changed cell adds one, however small, and a manifest names them all. */
const LOGS_MAX = 1_000

/**
 * Whether a new base costs less than the next incremental.
 *
 * @param logs not in the object store yet
 * @param storedBytes bytes of the chain's logs in the object store
 */
export function isOutgrown(
  logs: readonly Pick<Segment, 'size'>[],
  storedBytes: number,
  databaseBytes: number,
): boolean {
  const bytes = logs.reduce((sum, { size }) => sum + size, storedBytes)
  return logs.length > LOGS_MAX || bytes > Math.max(databaseBytes, BYTES_MIN)
}

/**
 * The segments that the next incremental holds.
 *
 * @param kept all kept segments, in order
 * @param database the database file as it is now
 * @returns undefined if the chain can't continue, and a new base is due
 */
export function nextSegments(
  chain: BackupChain,
  kept: readonly Segment[],
  database: FileFingerprint | undefined,
): Segment[] | undefined {
  if (database === undefined || !sameFingerprint(database, chain.database)) return undefined
  const segments = kept.filter(({ sequence }) => sequence > chain.through)
  // Sequence numbers have no gaps, so a gap means that a segment is missing.
  const isComplete = segments.every(({ sequence }, i) => sequence === chain.through + 1 + i)
  if (!isComplete || chain.through + segments.length !== chain.newest) return undefined
  return isOutgrown(segments, chain.walBytes, database.size) ? undefined : segments
}

/** An incremental is stored. If the chain has ended since its cut, nothing continues this version. */
export function extendChain(chain: BackupChain, version: string, cut: IncrementalCut): void {
  if (chain.versions.at(-1) !== cut.chain.at(-1)) return
  chain.versions.push(version)
  chain.through = cut.segments.at(-1)?.sequence ?? chain.through
  chain.walBytes += cut.segments.reduce((sum, { size }) => sum + size, 0)
}

/** Whether what was read is one. */
export function isBackupChain({ versions, walBytes, through, newest, database }: BackupChain): boolean {
  const isList = Array.isArray(versions) && versions.length > 0
  const numbers = [walBytes, through, newest]
  return (
    isList &&
    versions.every((version) => typeof version === 'string') &&
    numbers.every((each) => Number.isSafeInteger(each) && each >= 0) &&
    typeof database?.size === 'number'
  )
}
