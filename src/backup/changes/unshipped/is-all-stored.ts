import type { CellPaths } from '../../../base/files/store-paths.ts'
import type { BackupProgress } from '../backup-progress.ts'
import { fingerprintOf, sameFingerprint } from '../file-fingerprint.ts'
import { isUntouchedSince, unshippedSegments } from '../history.ts'
import { Segments } from '../log/segments.ts'

/**
 * Whether a cell's row and its files show that all that it has committed is in the object store. For a process that does not
 * ship: it cannot store what is not.
 */
export function isAllStored({ dirty, chain, history }: BackupProgress, paths: CellPaths): boolean {
  const database = fingerprintOf(paths.database)
  if (database === undefined || (fingerprintOf(paths.wal)?.size ?? 0) > 0) return false
  const known = chain?.database ?? history?.database
  if (!dirty) return known === undefined || sameFingerprint(known, database)
  if (!history?.isStored || !isUntouchedSince(history, database)) return false
  return unshippedSegments(history, new Segments(paths.segments).list())?.length === 0
}
