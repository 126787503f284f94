import type { BackupDestination } from './archiver/backup-destination.ts'
import type { PlanOptions, RestorePlan } from './versions/backup-types.ts'
import type { CellOwnership } from './versions/cell-ownership.ts'
import { backupNotFound, noBackupYet, parseVersion } from './versions/object-keys.ts'
import { listingOf } from './versions/version-index.ts'

/** What a restore of a version would read, from the listing and the manifests alone. @throws as a restore */
export async function planRestore(
  { index }: BackupDestination,
  ownership: CellOwnership,
  cellId: string,
  { version: named, timestamp, accountId, signal }: PlanOptions,
): Promise<RestorePlan> {
  const versions = await index.versions(cellId, { signal })
  await ownership.checkManifests(cellId, versions, accountId, { signal })
  const isBefore = (version: string) => (parseVersion(version)?.time ?? 0) <= (timestamp ?? Infinity)
  const version = named ?? versions.find((each) => isBefore(each.version))?.version
  if (version === undefined) throw noBackupYet()
  const listing = listingOf(versions)
  const manifest = await index.manifest(version, cellId, listing, { signal })
  const objects = [...manifest.chain, version].map((key) => {
    const sizeBytes = listing.get(key)
    if (sizeBytes === undefined) throw backupNotFound()
    return { key, sizeBytes }
  })
  const sizeBytes = objects.reduce((sum, each) => sum + each.sizeBytes, 0)
  const { kind, created_at } = manifest
  return { version, kind, timestamp: Date.parse(created_at), objects, sizeBytes, sizeOfLog: 0 }
}
