import type { Clock } from '../../base/clock.ts'
import type { CellPaths } from '../../base/files/store-paths.ts'
import type { Log } from '../../base/log.ts'
import type { Limits } from '../../base/options/limits.ts'
import { CellError, isCellError } from '../../errors.ts'
import { toBackupError } from '../archive/backup-errors.ts'
import { type ManifestHead, NEWER_FORMAT } from '../archive/manifest.ts'
import { ObjectReader } from '../archive/object-reader.ts'
import type { ObjectStore } from '../object-store/object-store.ts'
import { buildDatabase } from '../restore/build/restore-build.ts'
import { finishRestore, installRestored } from '../restore/install/restore-install.ts'
import { RestoreThreads } from '../restore/threads/restore-threads.ts'
import type { StoreIdentity } from '../versions/identity/store-identity.ts'
import { STORE_OBJECT } from '../versions/object-keys.ts'
import type { StoredVersion } from '../versions/stored-manifest.ts'
import { listingOf, VersionIndex } from '../versions/version-index.ts'

/** Of a backup that comes damaged, before an older one is taken. */
const TRIES_MAX = 4

interface RecoverySettings {
  limits: Limits
  clock: Clock
  log: Log
}

/** How a catalog came back. */
export interface RecoveredCatalog {
  /** The newest backup that was listed. */
  newest: string
  /** When the backup was made that it came back from, in epoch milliseconds: what was made since then it does not know. */
  madeAt: number
}

/**
 * Restores a lost catalog from its newest backup that proves whole. An older one lacks what was made since, and accepts keys
 * that were revoked since, so the log says which were passed over, why, and since when changes are lost.
 *
 * @throws `object_store_mismatch` if the listing lacks the first catalog that `store.json` names, `backup_corrupt` if no
 * backup is whole or one is of a newer format, `object_store_unavailable`, `object_store_error`, `cell_full` if it is
 * larger than its limit
 */
export async function recoverCatalog(
  store: ObjectStore,
  identity: StoreIdentity,
  paths: CellPaths,
  { limits, clock, log }: RecoverySettings,
): Promise<RecoveredCatalog> {
  finishRestore(paths)
  try {
    // Without a clock: the newest version is never passed over for its stamp.
    const index = new VersionIndex(store, identity.store_id)
    const versions = await index.versions(identity.store_id)
    await checkListing(store, identity, versions)
    return await recover({ store, index, paths, limits, clock, log }, identity, versions)
  } catch (error) {
    throw toBackupError(error)
  }
}

interface RecoveryParts extends RecoverySettings {
  store: ObjectStore
  index: VersionIndex
  paths: CellPaths
}

async function recover(
  { store, index, paths, limits, clock, log }: RecoveryParts,
  { store_id: storeId, first_catalog: first }: StoreIdentity,
  versions: readonly StoredVersion[],
): Promise<RecoveredCatalog> {
  const expected = { storeId, cellId: storeId, limits }
  const listing = listingOf(versions)
  // The first catalog is nearly empty. With it, cells and accounts would seem never to have existed.
  const candidates = versions.filter(({ version }) => version !== first || versions.length === 1)
  const threads = new RestoreThreads(clock)
  const reader = new ObjectReader(store, clock)
  const passedOver: { version: string; why: CellError }[] = []
  try {
    for (const { version } of candidates) {
      const built = await untilWhole(async () => {
        const manifest = await index.manifest(version, storeId, listing)
        await buildDatabase(reader, manifest, expected, paths, threads)
        return manifest
      }).catch((error) => {
        throw isCellError(error, 'backup_not_found') ? listedOnly(store, version) : error
      })
      if (built instanceof CellError) {
        passedOver.push({ version, why: built })
        continue
      }
      installRestored(paths)
      if (passedOver.length > 0) reportOlder(log, built, passedOver)
      return { newest: versions[0]?.version ?? version, madeAt: Date.parse(built.created_at) }
    }
    throw passedOver[0]?.why
  } finally {
    await threads.close()
  }
}

/** A backup goes once there is a newer one, so a listing that still has it may lack the newest: it has to be asked again. */
function listedOnly(store: ObjectStore, version: string): CellError {
  return new CellError(
    'object_store_unavailable',
    `${store.url} lists a backup of the catalog that is not there (${version}): its listing is out of date.`,
  )
}

/**
 * Bytes may come damaged although the object is whole, and what an older catalog lacks is much: so it is read several times.
 *
 * @returns the error of the last try, if it came damaged each time
 */
async function untilWhole<T>(build: () => Promise<T>): Promise<T | CellError> {
  for (let tries = 1; ; tries++) {
    try {
      return await build()
    } catch (error) {
      if (!isCellError(error, 'backup_corrupt') || error.cause === NEWER_FORMAT) throw error
      if (tries === TRIES_MAX) return error
    }
  }
}

function reportOlder(
  log: Log,
  { version, created_at }: ManifestHead,
  passedOver: readonly { version: string; why: CellError }[],
): void {
  for (const { version: damaged, why } of passedOver) {
    log.error({ version: damaged, err: why }, 'a backup of the catalog is damaged and was passed over')
  }
  log.error(
    { version, lostSince: created_at },
    'the catalog is restored from an older backup: accounts, keys and cells that were made since then are missing, and keys that were revoked since then are valid again. Revoke them again; a missing cell comes back by a restore with its id',
  )
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
    `${store.url} belongs to a store, but ${missing}. If this is a copy of a bucket, complete it; if backups were removed, put them back. If nothing else is stored here, remove ${STORE_OBJECT} and start again; otherwise use another prefix.`,
  )
}
