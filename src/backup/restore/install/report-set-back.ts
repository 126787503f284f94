import type { Log } from '../../../base/log.ts'
import type { BackupProgress } from '../../changes/backup-progress.ts'
import { compareVersions, versionOf } from '../../versions/object-keys.ts'
import type { VersionIndex } from '../../versions/version-index.ts'

/**
 * Says what was lost with a cell's local files. If this machine never stored the cell, it is a new one, and the restore is
 * what its owner expects: a line of the level info.
 *
 * @param before what was known of the cell before its restore
 * @param version what it was restored to
 */
export async function reportSetBack(
  log: Log,
  index: VersionIndex,
  before: BackupProgress,
  version: string,
): Promise<void> {
  const { cellId, dirty, lastVersion, lastBackupAt } = before
  const missing = await missingVersion(index, before, version)
  if (missing !== undefined) {
    log.error(
      { cellId, version, missing },
      'the local files of a cell are lost, and the backup that this machine stored or restored last is no longer listed; the cell is set back to an older one, and what was changed between the two is lost',
    )
  } else if (dirty) {
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
  } else {
    log.info({ cellId, version }, 'a cell comes from its newest backup; this machine had no files of it')
  }
}

/** What this machine stored last, if an older version came back because nobody lists it. */
async function missingVersion(
  index: VersionIndex,
  { cellId, chain, dirty, lastVersion }: BackupProgress,
  version: string,
): Promise<string | undefined> {
  // Of a changed cell without a chain, the last name may be that of a backup that failed.
  const stored = chain?.versions.at(-1) ?? (dirty ? null : lastVersion)
  if (stored === null || compareVersions(version, stored) <= 0) return undefined
  const { versions, marks } = await index.contents(cellId)
  // The name may be that of a mark: the cell was restored then, to the version that the mark names.
  const last = marks.find(({ time }) => versionOf(cellId, time) === stored)?.version ?? stored
  return versions.some((each) => each.version === last) ? undefined : last
}
