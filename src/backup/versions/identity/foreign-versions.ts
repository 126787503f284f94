import type { Log } from '../../../base/log.ts'
import type { CallOptions } from '../../object-store/object-store.ts'
import { compareVersions } from '../object-keys.ts'
import type { StoredVersion } from '../stored-manifest.ts'
import type { VersionFindings } from '../version-findings.ts'
import { listingOf, type VersionIndex } from '../version-index.ts'

/** What the process that has a cell knows of its versions. */
export interface KnownHistory {
  dropChain(): Promise<void>
  /** Uses up the time of a version. */
  claimVersion(version: string): Promise<void>
}

/**
 * Finds versions of a cell that are newer than all that this directory's state knows. Then the state is an old one: a data
 * directory was put back, or a copy of it is in use. The chain ends, so that no backup continues the old history as if it
 * were the newest, and retention never removes the newer versions: nobody but a person knows which history is the right one.
 *
 * @param lastVersion the newest that the state knows
 * @param versions of the cell, newest first
 */
export async function endOldHistory(
  cellId: string,
  lastVersion: string | null,
  cell: KnownHistory,
  versions: readonly StoredVersion[],
  { index, findings, log }: { index: VersionIndex; findings: VersionFindings; log: Log },
  options: CallOptions,
): Promise<boolean> {
  if (lastVersion === null) return false
  const newer = versions.filter(({ version }) => compareVersions(version, lastVersion) < 0)
  const newest = await firstRestorable(newer)
  if (newest === undefined) return false
  findings.addForeign(cellId, { after: lastVersion, through: newest })
  await cell.dropChain()
  // Seen now, so that it is found and said once.
  await cell.claimVersion(newest)
  log.error(
    { cellId, known: lastVersion, newest, count: newer.length },
    'the object store has newer backups than this data directory ever made, so the directory is an old copy or another one is in use; the newer backups stay, and the next backup starts a new base. Restore the newest backup if the directory was put back by mistake',
  )
  return true

  async function firstRestorable(candidates: readonly StoredVersion[]): Promise<string | undefined> {
    const listing = listingOf(versions)
    for (const { version } of candidates) {
      if ((await index.restorable(version, cellId, listing, options)) !== undefined) return version
    }
    return undefined
  }
}

/** The versions that {@link endOldHistory} has found so far. */
export function foreignVersions(
  findings: VersionFindings,
  cellId: string,
  versions: readonly StoredVersion[],
): string[] {
  const ranges = findings.foreign(cellId)
  const isForeign = (version: string) =>
    ranges.some(
      ({ after, through }) => compareVersions(version, after) < 0 && compareVersions(version, through) >= 0,
    )
  return versions.map(({ version }) => version).filter(isForeign)
}
