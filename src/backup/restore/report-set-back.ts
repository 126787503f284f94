import type { Log } from '../../base/log.ts'
import type { BackupProgress } from '../changes/progress-table.ts'

/**
 * Says what was lost with a cell's local files. Says nothing if this machine never knew the cell: then it is a new one, and
 * the restore is what its owner expects.
 *
 * @param before what was known of the cell before its restore
 * @param version what it was restored to
 */
export function reportSetBack(
  log: Log,
  { cellId, dirty, lastVersion, lastBackupAt }: BackupProgress,
  version: string,
): void {
  if (dirty) {
    const lostSince = lastBackupAt === null ? null : new Date(lastBackupAt).toISOString()
    log.error(
      { cellId, version, lostSince },
      'the local files of a cell are lost, with changes that no backup has; the cell is set back to its newest backup',
    )
  } else if (lastVersion !== null) {
    log.warn(
      { cellId, version },
      'the local files of a cell are lost; the cell is restored from its newest backup, and no change is known to be lost',
    )
  }
}
