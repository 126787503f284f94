import { systemClock } from '../base/clock.ts'
import type { Limits } from '../base/limits.ts'
import type { CellPaths } from '../base/store-paths.ts'
import { CellError } from '../errors.ts'
import { toBackupError } from './archive/backup-errors.ts'
import type { ObjectStore } from './object-store/object-store.ts'
import { buildDatabase } from './restore/restore-build.ts'
import { finishRestore, installRestored } from './restore/restore-install.ts'
import { RestoreThreads } from './restore/restore-threads.ts'
import { STORE_OBJECT } from './versions/object-keys.ts'
import type { StoreIdentity } from './versions/store-identity.ts'
import type { StoredVersion } from './versions/stored-manifest.ts'
import { listingOf, VersionIndex } from './versions/version-index.ts'

/**
 * Restores a lost catalog from its newest backup. It never takes an older one, which could accept a key that was revoked
 * since (invariant 14).
 *
 * @throws `object_store_mismatch` if the listing lacks the first catalog that `store.json` names, `backup_corrupt`, `object_store_unavailable`, `object_store_error`,
 * `cell_full` if it is larger than its limit
 */
export async function recoverCatalog(
  store: ObjectStore,
  identity: StoreIdentity,
  paths: CellPaths,
  limits: Limits,
): Promise<void> {
  finishRestore(paths)
  try {
    await recover(store, identity, paths, limits)
  } catch (error) {
    throw toBackupError(error)
  }
}

async function recover(
  store: ObjectStore,
  identity: StoreIdentity,
  paths: CellPaths,
  limits: Limits,
): Promise<void> {
  const storeId = identity.store_id
  // Without a clock: a damaged newest version is never passed over, whatever its stamp.
  const index = new VersionIndex(store, storeId)
  const versions = await index.versions(storeId)
  await checkListing(store, identity, versions)
  const newest = versions[0] as StoredVersion
  const manifest = await index.manifest(newest.version, storeId, listingOf(versions))
  const threads = new RestoreThreads(systemClock)
  try {
    const expected = { storeId, cellId: storeId, limits }
    await buildDatabase(store, manifest, expected, paths, threads)
  } finally {
    await threads.close()
  }
  installRestored(paths)
}

/**
 * Refuses a listing that cannot be whole. The catalog's first version is never pruned, so an empty listing is no proof of
 * a first start: the bucket may be a copy that is not complete yet.
 */
async function checkListing(
  store: ObjectStore,
  { first_catalog: first }: StoreIdentity,
  versions: readonly StoredVersion[],
): Promise<void> {
  if (first === undefined ? versions.length > 0 : versions.some(({ version }) => version === first)) return
  if (first !== undefined && (await store.head(first)) !== undefined) {
    throw new CellError(
      'object_store_unavailable',
      `${store.url} does not list all of its objects yet (${first}).`,
    )
  }
  const missing =
    first === undefined
      ? 'no backup of the catalog is here'
      : `the catalog's first backup ${first} is not here`
  throw new CellError(
    'object_store_mismatch',
    `${store.url} belongs to a store, but ${missing}. If this is a copy of a bucket, complete it; if backups were removed, put them back. Only if nothing was ever stored here, remove ${STORE_OBJECT} and start again.`,
  )
}
