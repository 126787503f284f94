import { systemClock } from '../base/clock.ts'
import type { Limits } from '../base/limits.ts'
import type { CellPaths } from '../base/store-paths.ts'
import { CellError } from '../errors.ts'
import { toBackupError } from './archive/backup-errors.ts'
import type { ObjectStore } from './object-store/object-store.ts'
import { buildDatabase } from './restore/restore-build.ts'
import { finishRestore, installRestored } from './restore/restore-install.ts'
import { RestoreThreads } from './restore/restore-threads.ts'
import { BACKUPS_PREFIX } from './versions/object-keys.ts'
import { listingOf, VersionIndex } from './versions/version-index.ts'

/**
 * Restores a lost catalog from its newest backup. It never takes an older one, which could accept a key that was revoked
 * since (invariant 14).
 *
 * @returns false if the prefix is claimed but holds no backup: a first start ended right after the claim
 * @throws `backup_corrupt`, `object_store_unavailable`, `object_store_error`,
 * `cell_full` if it is larger than its limit
 */
export async function recoverCatalog(
  store: ObjectStore,
  storeId: string,
  paths: CellPaths,
  limits: Limits,
): Promise<boolean> {
  finishRestore(paths)
  try {
    return await recover(store, storeId, paths, limits)
  } catch (error) {
    throw toBackupError(error)
  }
}

async function recover(
  store: ObjectStore,
  storeId: string,
  paths: CellPaths,
  limits: Limits,
): Promise<boolean> {
  // Without a clock: a damaged newest version is never passed over, whatever its stamp.
  const index = new VersionIndex(store, storeId)
  const versions = await index.versions(storeId)
  const [newest] = versions
  if (newest === undefined) {
    for await (const { key } of store.list(BACKUPS_PREFIX)) {
      throw new CellError(
        'backup_corrupt',
        `${store.url} holds backups of cells, but none of the catalog with their accounts and keys.`,
        { member: key },
      )
    }
    return false
  }
  const manifest = await index.manifest(newest.version, storeId, listingOf(versions))
  const threads = new RestoreThreads(systemClock)
  try {
    const expected = { storeId, cellId: storeId, limits }
    await buildDatabase(store, manifest, expected, paths, threads)
  } finally {
    await threads.close()
  }
  installRestored(paths)
  return true
}
