import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { CellError } from '../../errors.ts'
import { corrupt } from '../archive/backup-errors.ts'
import type { ManifestHead } from '../archive/manifest.ts'
import type { RestoreOptions } from '../versions/backup-types.ts'
import { CellOwnership } from '../versions/cell-ownership.ts'
import { noBackupYet, parseVersion } from '../versions/object-keys.ts'
import type { StoredVersion } from '../versions/stored-manifest.ts'
import { type Listing, listingOf, type VersionIndex } from '../versions/version-index.ts'
import { type CellContents, currentVersion } from './restored-mark.ts'

/** Which state of a cell is built. */
export interface WantedState extends RestoreOptions {
  /** The cell's record in the catalog, also of a deleted cell. */
  record: CellRecord | undefined
  /** The cell is lost, and comes back as it last was; otherwise, and without a version, its newest backup is restored. */
  recovers: boolean
}

/** @throws `cell_not_found` if it may not have the cell; `backup_not_found`, `backup_corrupt` */
export async function findVersion(
  index: VersionIndex,
  cellId: string,
  { record, recovers, accountId, version: named, timestamp, signal }: WantedState,
): Promise<{ manifest: ManifestHead; listing: Listing; contents: CellContents }> {
  const ownership = new CellOwnership(index, () => record)
  ownership.checkRecord(cellId, accountId)
  const contents = await index.contents(cellId, { signal })
  const { versions } = contents
  const listing = listingOf(versions)
  await ownership.checkManifests(cellId, versions, accountId, { signal })
  // Times between two versions come with the log.
  const isBefore = (stored: StoredVersion) => (parseVersion(stored.version)?.time ?? 0) <= (timestamp ?? 0)
  const newest = timestamp === undefined ? versions[0] : versions.find(isBefore)
  const version = named ?? (recovers ? currentVersion(contents) : newest?.version)
  if (version === undefined) throw noBackupYet()
  const manifest = await index.manifest(version, cellId, listing, { signal })
  // What is asked for by name is tried again: the object may have been mended.
  const damaged = named === undefined ? index.knownDamage(manifest, listing) : undefined
  if (damaged !== undefined) throw knownDamage(damaged)
  return { manifest, listing, contents }
}

function knownDamage(version: string): CellError {
  return corrupt(
    version,
    'an earlier restore found it damaged; restore another version, or name this one to try it again',
  )
}
