import { FIRST_KEY_PENDING } from '../auth/first-key.ts'
import { recoverCatalog } from '../backup/catalog-recovery.ts'
import type { ObjectStore } from '../backup/object-store/object-store.ts'
import { openObjectStore } from '../backup/object-store/open-object-store.ts'
import { finishRestore } from '../backup/restore/restore-install.ts'
import { claimPrefix, readStoreId } from '../backup/versions/store-identity.ts'
import { exists } from '../base/durable-files.ts'
import type { Limits } from '../base/limits.ts'
import { assertSupportedRuntime } from '../base/runtime.ts'
import { newCellId, StorePaths } from '../base/store-paths.ts'
import { Catalog } from '../catalog/catalog.ts'
import { DirectoryLock } from '../catalog/directory-lock.ts'
import { endLeftWorkers } from '../catalog/workers-lock.ts'
import { isSqliteError, toCellError } from '../engine/sqlite-errors.ts'
import { CellError, isCellError } from '../errors.ts'
import { NewFiles } from './new-files.ts'
import { resolveSettings, type StoreOptions, type StoreSettings } from './settings.ts'

export type StartMode = 'create' | 'open' | 'open-or-create'

/** What a store is built from, once it is settled which store it is. */
export interface StoreParts {
  paths: StorePaths
  settings: StoreSettings
  lock: DirectoryLock
  objectStore: ObjectStore | undefined
}

/** What starting asks of the store that was built. */
export interface StartedStore {
  readonly id: string
  start(): void
  close(): Promise<void>
}

/** A store that has its catalog serves without the object store; it asks for this long whose the prefix is. */
const OWNER_CHECK_MS = 5_000
const RETRY_MS_MIN = 250
const RETRY_MS_MAX = 5_000

/**
 * Opens or makes a store, so that history never forks (invariant 14): a store without a catalog reads the object store
 * before it invents one, and gives up rather than guess.
 *
 * @param tables the catalog's tables, for a new one
 */
export async function startStore<T extends StartedStore>(
  mode: StartMode,
  directory: string,
  options: StoreOptions,
  tables: readonly string[],
  build: (parts: StoreParts) => T,
): Promise<T> {
  assertSupportedRuntime()
  checkDirectory(directory)
  const settings = resolveSettings(options)
  const paths = new StorePaths(directory)
  const isHere = exists(paths.catalog)
  if (mode === 'create' && isHere) throw storeExists(`${paths.root} holds a store already. Open it instead.`)
  if (mode === 'open' && !isHere && options.objectStore === undefined) throw notFound(paths)
  const objectStore = toObjectStore(options.objectStore, paths, settings)
  let files: NewFiles | undefined
  let lock: DirectoryLock | undefined
  let store: T | undefined
  try {
    files = new NewFiles(paths.root)
    lock = DirectoryLock.acquire(paths)
    await endLeftWorkers(paths, lock.leftWorkers, settings.clock)
    if (lock.leftWorkers.length > 0) lock.publishWorkers([])
    const isFirst = await bringUpCatalog(mode, paths, objectStore, settings, tables)
    store = build({ paths, settings, lock, objectStore })
    if (!isFirst && objectStore !== undefined) await checkOwner(store, objectStore, settings)
    store.start()
    return store
  } catch (error) {
    if (store !== undefined) await store.close()
    else {
      // While the directory is still ours: once it is free, what lies there may be another's.
      if (lock === undefined) files?.removeEmpty()
      else if (!isHere) files?.remove()
      lock?.release()
      // One that the caller made is the caller's, who may try again with it.
      if (objectStore !== options.objectStore) await objectStore?.close()
    }
    throw toStartError(error, paths, settings.limits)
  }
}

/** @returns true on a proven first start */
async function bringUpCatalog(
  mode: StartMode,
  paths: StorePaths,
  objectStore: ObjectStore | undefined,
  settings: StoreSettings,
  tables: readonly string[],
): Promise<boolean> {
  finishRestore(paths.catalogCell)
  if (exists(paths.catalog)) return false
  const known = objectStore && (await untilAvailable(settings, () => readStoreId(objectStore)))
  if (objectStore !== undefined && known !== undefined) {
    if (mode === 'create')
      throw storeExists(`${objectStore.url} holds the backups of the store ${known}. Open it instead.`)
    if (await untilAvailable(settings, () => recoverCatalog(objectStore, known, paths.catalogCell)))
      return false
  }
  if (mode === 'open') throw known === undefined ? notFound(paths) : onlyClaimed(objectStore, known)
  const { clock } = settings
  const storeId = known ?? newCellId()
  if (objectStore !== undefined)
    await untilAvailable(settings, () => claimPrefix(objectStore, storeId, clock.now()))
  // In the catalog from its first byte on: a start that is cut off right after it still owes the key.
  const meta = mode === 'open-or-create' ? FIRST_KEY_PENDING : {}
  Catalog.write(paths.catalog, { storeId, createdAt: clock.now(), tables, meta })
  return true
}

/** Another store's prefix is refused at the start. While nobody answers, the question is asked before the first backup. */
async function checkOwner(
  store: StartedStore,
  objectStore: ObjectStore,
  { clock, log }: StoreSettings,
): Promise<void> {
  const abort = new AbortController()
  const timer = clock.setTimer(() => abort.abort(), OWNER_CHECK_MS)
  try {
    await claimPrefix(objectStore, store.id, clock.now(), { signal: abort.signal })
  } catch (error) {
    if (isCellError(error, 'object_store_mismatch')) throw error
    log.warn({ err: error }, 'the object store does not answer; serving from local data, backups will wait')
  } finally {
    timer.cancel()
  }
}

/** Tries again while the object store is unavailable, up to the deadline. */
async function untilAvailable<T>(
  { clock, log, objectStoreWaitMs }: StoreSettings,
  run: () => Promise<T>,
): Promise<T> {
  const deadline = clock.monotonic() + objectStoreWaitMs
  for (let wait = RETRY_MS_MIN; ; wait = Math.min(wait * 2, RETRY_MS_MAX)) {
    try {
      return await run()
    } catch (error) {
      if (!isCellError(error, 'object_store_unavailable') || clock.monotonic() + wait > deadline) throw error
      log.warn(
        { err: error, retryMs: wait },
        'there is no catalog here, and the object store does not answer; trying again',
      )
      await new Promise<void>((resolve) => clock.setTimer(resolve, wait, { keepsAlive: true }))
    }
  }
}

function toObjectStore(
  objectStore: StoreOptions['objectStore'],
  paths: StorePaths,
  { clock }: StoreSettings,
): ObjectStore | undefined {
  if (typeof objectStore !== 'string') return objectStore
  return openObjectStore(objectStore, { clock, dataDir: paths.root })
}

/** An empty path would be the working directory. */
function checkDirectory(directory: string): void {
  if (typeof directory === 'string' && directory !== '' && !directory.includes('\0')) return
  throw new CellError('invalid_setting', 'The directory of a store is a path.', { field: 'directory' })
}

/** What the file system says of a directory that can't hold a store. */
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
  if (!(error instanceof Error) || isCellError(error) || !('code' in error)) return error
  if (error.code === 'ENOSPC') {
    return new CellError('disk_full', 'The disk has no room for a store.', { cause: error })
  }
  if (!UNUSABLE.has(String(error.code))) {
    return isSqliteError(error) ? toCellError(error, { path: catalog, limits }) : error
  }
  return new CellError('invalid_setting', `The directory ${root} can't hold a store: ${error.message}.`, {
    field: 'directory',
    cause: error,
  })
}

function storeExists(message: string): CellError {
  return new CellError('store_exists', message)
}

/** A first start that got no further than its claim. */
function onlyClaimed(objectStore: ObjectStore | undefined, storeId: string): CellError {
  return new CellError(
    'store_not_found',
    `${objectStore?.url} belongs to the store ${storeId}, but nothing is kept there yet. CellStore.openOrCreate() goes on with it.`,
  )
}

function notFound(paths: StorePaths): CellError {
  return new CellError('store_not_found', `There is no store in ${paths.root}. CellStore.create() makes one.`)
}
