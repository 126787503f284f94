import type { Segment } from './segments.ts'

/** Versions that rest on one base: bounds what a restore has to read. */
const VERSIONS_MAX = 64
/** The logs of a chain may grow to the size of the database, but this much is always allowed. */
const BYTES_MIN = 1_048_576
/** Logs that are kept: each closing of a changed cell adds one, however small, and a manifest names them all. */
const LOGS_MAX = 1_000

/** With few versions to keep, long chains would keep many more alive. @param keep restorable versions; undefined keeps all */
export function chainVersionsMax(keep: number | undefined): number {
  return keep === undefined ? VERSIONS_MAX : Math.max(2, Math.min(VERSIONS_MAX, keep))
}

/**
 * True if a new base costs less than going on.
 *
 * @param logs that are not in the object store yet
 * @param storedBytes of the chain's logs that are
 */
export function outgrown(logs: readonly Segment[], storedBytes: number, databaseBytes: number): boolean {
  const bytes = logs.reduce((sum, { size }) => sum + size, storedBytes)
  return logs.length > LOGS_MAX || bytes > Math.max(databaseBytes, BYTES_MIN)
}
