import fs from 'node:fs'
import path from 'node:path'
import { scopedTo } from '../../backup/fence/scoped-object-store.ts'
import type { ObjectStore } from '../../backup/object-store/object-store.ts'
import { recoverCatalog } from '../../backup/recovery/catalog-recovery.ts'
import type { StoreIdentity } from '../../backup/versions/identity/store-identity.ts'
import { VersionIndex } from '../../backup/versions/version-index.ts'
import { exists, makeDirectory } from '../../base/files/durable-files.ts'
import { StorePaths } from '../../base/files/store-paths.ts'
import { Catalog } from '../../catalog/catalog.ts'
import { CellError, isCellError } from '../../errors.ts'
import { databaseSettings, type StoreSettings } from '../../store/settings/settings.ts'
import { CATALOG_SCHEMA } from '../../store/store-core.ts'
import { Replica } from '../postgres/replica.ts'

/** A copy of a catalog. */
export interface FoundCatalog {
  /** The prefix of the node that has stored it, or the directory that has it. */
  foundIn: string
  file: string
  /** Of the cluster's changes, how many it has; 0: it was no node's, or was not whole. */
  version: number
}

export interface CatalogSearch {
  bucket: ObjectStore
  owner: StoreIdentity
  prefixes: readonly string[]
  /** Of a node that is locked; undefined: only the bucket is looked at. */
  directory: StorePaths | undefined
  settings: StoreSettings
}

/**
 * Finds the copy of the catalog that has the most of the cluster's changes: each node stores its own.
 *
 * @param scratch an empty directory, with room for two of them
 * @throws `object_store_mismatch` if no node has stored one; what the object store throws
 */
export async function newestCatalog(search: CatalogSearch, scratch: string): Promise<FoundCatalog> {
  let newest: FoundCatalog | undefined
  const consider = (found: FoundCatalog) => {
    const isNewer = found.version > (newest?.version ?? 0)
    const older = isNewer ? newest : found
    if (older !== undefined) fs.rmSync(path.dirname(older.file), { recursive: true })
    if (isNewer) newest = found
  }
  const { directory, prefixes } = search
  if (directory !== undefined) consider(copyOf(directory, search, new StorePaths(path.join(scratch, 'own'))))
  for (const [i, prefix] of prefixes.entries()) {
    const found = await storedBy(prefix, search, new StorePaths(path.join(scratch, String(i))))
    if (found !== undefined) consider(found)
  }
  if (newest !== undefined) return newest
  throw new CellError(
    'object_store_mismatch',
    `No node has stored a catalog of the cluster in ${search.bucket.url}.`,
  )
}

/** The newest whole one that a node has stored; undefined: none. */
export async function storedBy(
  prefix: string,
  { bucket, owner, settings }: Pick<CatalogSearch, 'bucket' | 'owner' | 'settings'>,
  paths: StorePaths,
): Promise<FoundCatalog | undefined> {
  const storeId = owner.store_id
  const store = scopedTo(bucket, prefix, () => storeId)
  if ((await new VersionIndex(store, storeId).versions(storeId)).length === 0) return undefined
  makeDirectory(paths.root)
  try {
    // The store's first catalog is that of its first node.
    await recoverCatalog(store, { ...owner, first_catalog: undefined }, paths.catalogCell, settings)
  } catch (err) {
    if (!isCellError(err, 'backup_corrupt')) throw err
    settings.log.error(
      { err, prefix },
      'the catalog that a node has stored is damaged; those of the others are looked at',
    )
    return undefined
  }
  return found(prefix, paths, settings)
}

function copyOf(directory: StorePaths, { owner, settings }: CatalogSearch, paths: StorePaths): FoundCatalog {
  makeDirectory(paths.root)
  const [from, to] = [directory.catalogCell, paths.catalogCell]
  fs.copyFileSync(from.database, to.database)
  if (exists(from.wal)) fs.copyFileSync(from.wal, to.wal)
  const storeId = withCatalog(paths.catalog, settings, (catalog) => catalog.storeId)
  if (storeId === owner.store_id) return found(directory.root, paths, settings)
  throw new CellError(
    'invalid_setting',
    `The directory ${directory.root} holds store ${storeId}, but the bucket has store ${owner.store_id}.`,
    { field: 'dataDir' },
  )
}

function found(foundIn: string, { catalog: file }: StorePaths, settings: StoreSettings): FoundCatalog {
  return { foundIn, file, version: withCatalog(file, settings, Replica.versionOf) }
}

/** Opens a copy of a catalog, for as long as something is done with it. */
function withCatalog<T>(file: string, settings: StoreSettings, run: (catalog: Catalog) => T): T {
  const catalog = openCatalog(file, settings)
  try {
    return run(catalog)
  } finally {
    catalog.close()
  }
}

export function openCatalog(file: string, settings: StoreSettings): Catalog {
  const ofDatabase = { ...databaseSettings(settings, 'full'), sqlPolicy: 'trusted' } as const
  return new Catalog(file, ofDatabase, CATALOG_SCHEMA.upgrades, (err) =>
    settings.log.error({ err }, 'upkeep of the catalog failed'),
  )
}
