import { FIRST_KEY_PENDING } from '../../auth/first-key.ts'
import { localFailure } from '../../backup/archive/backup-errors.ts'
import type { ObjectStore } from '../../backup/object-store/object-store.ts'
import { openObjectStore } from '../../backup/object-store/open-object-store.ts'
import { type RecoveredCatalog, recoverCatalog } from '../../backup/recovery/catalog-recovery.ts'
import { finishRestore } from '../../backup/restore/install/restore-install.ts'
import {
  claimPrefix,
  readIdentity,
  type StoreIdentity,
} from '../../backup/versions/identity/store-identity.ts'
import { isError } from '../../base/any-realm.ts'
import { backOffMs } from '../../base/async/back-off.ts'
import { delay } from '../../base/clock.ts'
import { exists } from '../../base/files/durable-files.ts'
import { checkPath } from '../../base/files/path-argument.ts'
import { newCellId, StorePaths } from '../../base/files/store-paths.ts'
import { assertSupportedRuntime } from '../../base/machine/runtime.ts'
import type { Limits } from '../../base/options/limits.ts'
import { EVERYTHING_IS_HERE, type Ownership } from '../../catalog/assignment/ownership.ts'
import { Catalog, type CatalogSchema } from '../../catalog/catalog.ts'
import { DirectoryLock, endLeftWorkers } from '../../catalog/directory-lock.ts'
import { RememberedObjectStore } from '../../catalog/remembered-object-store.ts'
import { isSqliteError, toCellError } from '../../engine/sqlite-errors.ts'
import { CellError, isCellError } from '../../errors.ts'
import { checkSchedule } from '../settings/option-checks.ts'
import { resolveSettings, type StoreSettings } from '../settings/settings.ts'
import type { StoreOptions } from '../settings/store-options.ts'
import { ownershipOfLoneNode } from './lone-node.ts'
import { readNodeIdentity } from './node-identity.ts'
import { PrefixEntry } from './prefix-entry.ts'
import { redoCommits } from './redo-commits.ts'
import { endUnfinished, NewFiles, setAside } from './set-aside.ts'

export type StartMode = 'create' | 'open' | 'open-or-create'

/** The parts of a store, once it is clear which store the directory holds. */
export interface StoreParts {
  paths: StorePaths
  settings: StoreSettings
  lock: DirectoryLock
  /** Only the node of the newest epoch writes there. */
  objectStore: ObjectStore | undefined
  /** Undefined without an object store. */
  entry: PrefixEntry | undefined
  ownership: Ownership
  /** If the catalog came back from a backup in this start. */
  recoveredCatalog?: RecoveredCatalog | undefined
}

/** What the start needs from the new store object. */
export interface StartedStore {
  readonly id: string
  start(): void
  close(): Promise<void>
}

const BACK_OFF = { minMs: 250, maxMs: 5_000 }

/**
 * Opens or creates a store, so that history never forks (invariant 14): without a local catalog, the start reads the
 * object store before it creates one, and fails rather than guess.
 *
 * @param schema of a new catalog
 */
export async function startStore<T extends StartedStore>(
  mode: StartMode,
  directory: string,
  options: StoreOptions,
  schema: CatalogSchema,
  build: (parts: StoreParts) => T,
): Promise<T> {
  assertSupportedRuntime()
  checkPath(directory, { field: 'directory', code: 'invalid_setting' })
  const settings = resolveSettings(options)
  checkSchedule(options)
  const paths = new StorePaths(directory)
  const isLocal = exists(paths.catalog)
  if (mode === 'create' && isLocal) throw storeExists(`${paths.root} already holds a store. Open it instead.`)
  if (mode === 'open' && !isLocal && options.objectStore === undefined) throw notFound(paths)
  const objectStore = toObjectStore(options.objectStore, paths, settings)
  let files: NewFiles | undefined
  let lock: DirectoryLock | undefined
  let store: T | undefined
  let entry: PrefixEntry | undefined
  let isClaimed = false
  try {
    files = new NewFiles(paths.root)
    lock = DirectoryLock.acquire(paths)
    await endLeftWorkers(paths, lock.leftWorkers, settings.clock)
    if (lock.leftWorkers.length > 0) lock.publishWorkers([])
    endUnfinished(paths)
    const ownership = options.ownership ?? (await ownershipOf(paths, objectStore, settings))
    const remembered = RememberedObjectStore.read(paths)
    entry = objectStore && new PrefixEntry(objectStore, remembered, lock, settings, ownership.prefix)
    await checkRemembered(remembered, entry, settings)
    const { isFirst, isEntered, recoveredCatalog } = await bringUpCatalog(
      mode,
      paths,
      entry,
      settings,
      schema,
    )
    isClaimed = isFirst && objectStore !== undefined
    store = build({ paths, settings, lock, objectStore: entry?.store, entry, ownership, recoveredCatalog })
    // Once it is clear that the cells are here, and before any is opened.
    await redoCommits(paths, settings)
    if (!isEntered) await entry?.enter(store.id)
    store.start()
    return store
  } catch (error) {
    if (store !== undefined) await store.close()
    else {
      await entry?.close(AbortSignal.abort())
      // Before the lock is released: after that, new files may belong to another process.
      if (lock === undefined) files?.removeEmpty()
      // Once the prefix is claimed, the catalog is the only one of its store: the next start goes on with it.
      else if (!isLocal && !isClaimed) files?.remove()
      lock?.release()
      // An object store that the caller passed in stays open: the caller may try again with it.
      if (objectStore !== options.objectStore) await objectStore?.close()
    }
    throw toStartError(error, paths, settings.limits)
  }
}

/** A directory that is no node's can be that of any store: `cellstore serve` asks its object store, too. */
async function ownershipOf(
  paths: StorePaths,
  objectStore: ObjectStore | undefined,
  { clock }: StoreSettings,
): Promise<Ownership> {
  if (objectStore === undefined || readNodeIdentity(paths) === undefined) return EVERYTHING_IS_HERE
  return await ownershipOfLoneNode(paths, objectStore, clock)
}

interface BroughtUp {
  /** This is proven to be the first start. */
  isFirst: boolean
  /** The prefix was entered. */
  isEntered: boolean
  recoveredCatalog?: RecoveredCatalog | undefined
}

async function bringUpCatalog(
  mode: StartMode,
  paths: StorePaths,
  entry: PrefixEntry | undefined,
  settings: StoreSettings,
  schema: CatalogSchema,
): Promise<BroughtUp> {
  finishRestore(paths.catalogCell)
  const isLocal = exists(paths.catalog)
  const adopts = isLocal && settings.adopt && entry !== undefined && (await isToAdopt(entry, settings))
  if (isLocal && !adopts) return { isFirst: false, isEntered: false }
  const { clock } = settings
  const willTake = () => {
    if (adopts) setAside(paths, clock.now(), settings.log)
  }
  const known = entry && (await takePrefix(mode, entry, settings, willTake))
  if (known === undefined && mode === 'open') throw notFound(paths)
  if (entry !== undefined && known !== undefined) {
    const recoveredCatalog = await untilAvailable(settings, () =>
      recoverCatalog(entry.store, known, paths.catalogCell, settings),
    )
    settings.log.warn(
      { storeId: known.store_id, version: recoveredCatalog.newest },
      'there was no local catalog; it is restored from the object store, and its cells after it',
    )
    return { isFirst: false, isEntered: true, recoveredCatalog }
  }
  const storeId = newCellId()
  // In the catalog from the start: if the process ends right after this, the first key is still pending.
  const meta = mode === 'open-or-create' ? FIRST_KEY_PENDING : {}
  Catalog.write(paths.catalog, { storeId, createdAt: clock.now(), schema, meta })
  // After the catalog is written: a start that ends right after its claim goes on with this directory.
  if (entry !== undefined)
    await untilAvailable(settings, () => claimPrefix(entry.store, storeId, clock.now()))
  return { isFirst: true, isEntered: true }
}

/**
 * Takes the prefix for a directory that has no catalog of it.
 *
 * @returns the store that the prefix holds, if it holds one
 * @throws `store_exists` if there should be none; as `PrefixEntry.take`
 */
async function takePrefix(
  mode: StartMode,
  entry: PrefixEntry,
  settings: StoreSettings,
  willTake: () => void,
): Promise<StoreIdentity | undefined> {
  const identity = async () => {
    const found = await untilAvailable(settings, () => readIdentity(entry.store))
    if (found === undefined || mode !== 'create') return found
    throw storeExists(
      `${entry.store.url} already holds the backups of store ${found.store_id}. Open that store instead.`,
    )
  }
  const found = await identity()
  // Nothing is taken where there is nothing to open.
  if (found === undefined && mode === 'open') return undefined
  // Before anything is read that another node could still add to.
  await untilAvailable(settings, () => entry.take(false, willTake))
  // Another first start may have been faster.
  return found ?? (await identity())
}

/** Whether the object store has history that the directory did not write. @throws `invalid_setting` if it has none at all */
async function isToAdopt(entry: PrefixEntry, settings: StoreSettings): Promise<boolean> {
  const known = await untilAvailable(settings, () => readIdentity(entry.store))
  if (known === undefined) {
    throw new CellError(
      'invalid_setting',
      `There is nothing to adopt: ${entry.store.url} holds no store. Start without --adopt (adopt in the library).`,
      { field: 'adopt' },
    )
  }
  const isOutdated = await untilAvailable(settings, () => entry.isOutdated())
  if (!isOutdated)
    settings.log.info(
      {},
      'nothing was adopted: the object store has no history that this directory did not write',
    )
  return isOutdated
}

/** Retries while the object store is unavailable, up to `objectStoreWaitMs`. */
async function untilAvailable<T>(
  { clock, log, objectStoreWaitMs }: StoreSettings,
  run: () => Promise<T>,
): Promise<T> {
  const deadline = clock.monotonic() + objectStoreWaitMs
  for (let failures = 0; ; failures++) {
    const wait = backOffMs(failures, BACK_OFF)
    try {
      return await run()
    } catch (error) {
      if (!isCellError(error, 'object_store_unavailable') || clock.monotonic() + wait > deadline) throw error
      log.warn(
        { err: error, retryMs: wait },
        'no local catalog, and the object store does not answer; trying again',
      )
      await delay(clock, wait)
    }
  }
}

function toObjectStore(
  objectStore: StoreOptions['objectStore'],
  paths: StorePaths,
  { clock }: StoreSettings,
): ObjectStore | undefined {
  if (typeof objectStore !== 'string') return objectStore
  return openObjectStore(objectStore, { clock, dataDir: paths.root, checksFolder: true })
}

/** Error codes that mean that the directory can't hold a store. */
const UNUSABLE = new Set([
  'ENOTDIR',
  'EACCES',
  'EPERM',
  'EROFS',
  'ELOOP',
  'ENAMETOOLONG',
  'EEXIST',
  'SQLITE_CANTOPEN',
])

function toStartError(error: unknown, { root, catalog }: StorePaths, limits: Limits): unknown {
  if (!isError(error) || isCellError(error) || !('code' in error)) return error
  // Nobody can ask the disk any more: what the start has made is removed again.
  if (localFailure(error) === 'disk_full') {
    return new CellError('disk_full', `The disk has no room for a store in ${root}.`, { cause: error })
  }
  if (!UNUSABLE.has(String(error.code))) {
    return isSqliteError(error) ? toCellError(error, { path: catalog, limits }) : error
  }
  return new CellError('invalid_setting', `The directory ${root} cannot hold a store: ${error.message}.`, {
    field: 'directory',
    cause: error,
  })
}

function storeExists(message: string): CellError {
  return new CellError('store_exists', message)
}

function notFound(paths: StorePaths): CellError {
  return new CellError('store_not_found', `${paths.root} holds no store. CellStore.create() creates one.`)
}

/**
 * Compares the object store of a start with the one that the directory's backups went to so far. The same prefix may have
 * got another URL: its folder was moved, or its endpoint has another name.
 *
 * @throws `invalid_setting` if it is another one, unless that is asked for
 */
async function checkRemembered(
  { url }: RememberedObjectStore,
  entry: PrefixEntry | undefined,
  { moveObjectStore, log }: StoreSettings,
): Promise<void> {
  if (url === undefined || url === entry?.store.url) return
  if (entry === undefined) {
    log.warn({ url }, "this directory's backups go to an object store, and it was opened without one")
    return
  }
  if (moveObjectStore || (await entry.isKnown())) return
  throw new CellError(
    'invalid_setting',
    `This directory's backups go to ${url}, and not to ${entry.store.url}. Start with the first one; or, to let all backups start from the beginning in the other one, once with --move-object-store (moveObjectStore in the library).`,
    { field: 'objectStore' },
  )
}
