import fs from 'node:fs'
import { FIRST_KEY_PENDING } from '../../auth/first-key.ts'
import type { ObjectStore } from '../../backup/object-store/object-store.ts'
import { readIdentity } from '../../backup/versions/identity/store-identity.ts'
import { type Clock, delay } from '../../base/clock.ts'
import { exists, makeDirectory } from '../../base/files/durable-files.ts'
import { newCellId, type StorePaths } from '../../base/files/store-paths.ts'
import type { Log } from '../../base/log.ts'
import type { Assignment } from '../../catalog/assignment/assignment.ts'
import { Catalog } from '../../catalog/catalog.ts'
import { DirectoryLock, endLeftWorkers } from '../../catalog/directory-lock.ts'
import { openConnection } from '../../engine/sqlite.ts'
import { CellError } from '../../errors.ts'
import {
  identityOfLoneStore,
  type NodeIdentity,
  newNodeIdentity,
  readNodeIdentity,
  writeNodeIdentity,
} from '../../store/start/node-identity.ts'
import { endUnfinished, setAside } from '../../store/start/set-aside.ts'
import { CATALOG_SCHEMA } from '../../store/store-core.ts'

/** Another first node has claimed the bucket, and has not entered its store in PostgreSQL yet. */
const FIRST_NODE_MS = 10_000
const LOOK_EVERY_MS = 250

export interface DirectoryParts {
  paths: StorePaths
  /** As it is, without a prefix. */
  bucket: ObjectStore
  /** The id of the cluster's store, as PostgreSQL has it now; undefined before its first node. */
  storeId(): Promise<string | undefined>
  /** Whether the node was declared dead. */
  isDead(nodeId: string): Promise<boolean>
  /** In the bucket; undefined if the store never had nodes. */
  newestAssignment(): Promise<Assignment | undefined>
  clock: Clock
  log: Log
}

/** What a directory is to its cluster. */
export interface PreparedDirectory {
  identity: NodeIdentity
  /** `first`: its store is to go into PostgreSQL, which has none. `member`: it has, or gets, a replica of the cluster's catalog. */
  role: 'first' | 'member'
}

/**
 * Makes a directory ready to be opened as a node, with its lock held meanwhile:
 *
 * | PostgreSQL | directory | what is done |
 * |---|---|---|
 * | empty | empty, and so is the bucket | a new store, whose first node this is |
 * | empty | a store, or the bucket has one | that store becomes the cluster's; its objects stay where they are |
 * | empty | a node of a store that another node has left as the last one | refused: its catalog is old |
 * | a store | empty | an empty replica, a new node |
 * | a store | a node of it | as it is, unless it was declared dead: then its cells are set aside, and it is a new node |
 * | a store | that store, and no node of it | an old copy: set aside, a new node |
 * | a store | another store | refused |
 *
 * @param outdated the directory was taken over: what it has is set aside
 * @throws `store_locked`, `invalid_setting`, `cluster_unavailable`, what the object store throws
 */
export async function prepareDirectory(
  parts: DirectoryParts,
  { outdated = false } = {},
): Promise<PreparedDirectory> {
  const { paths, clock } = parts
  makeDirectory(paths.root)
  const lock = DirectoryLock.acquire(paths)
  try {
    await endLeftWorkers(paths, lock.leftWorkers, clock)
    if (lock.leftWorkers.length > 0) lock.publishWorkers([])
    endUnfinished(paths)
    return await prepareLocked(parts, outdated)
  } finally {
    lock.release()
  }
}

async function prepareLocked(parts: DirectoryParts, outdated: boolean): Promise<PreparedDirectory> {
  const { paths, bucket } = parts
  const local = localStoreId(paths)
  const identity = readNodeIdentity(paths)
  const owner = await readIdentity(bucket)
  const storeId = await clusterStoreId(parts, local, owner?.store_id)
  if (storeId === undefined) {
    const newest = await parts.newestAssignment()
    if (newest?.mode === 'cluster') throw isRebuilt(bucket)
    const last = newest?.ranges[0]?.node
    if (identity !== undefined && last !== undefined && identity.nodeId !== last) throw notTheLast(paths)
    if (local === undefined && owner === undefined) return await newStore(parts)
    return { identity: identity ?? identityOfLoneStore(newest), role: 'first' }
  }
  if (owner?.store_id !== storeId) throw otherBucket(bucket, owner?.store_id, storeId)
  if (local !== undefined && local !== storeId) throw otherDirectory(paths, local, storeId)
  const isOld = identity === undefined || outdated || (await parts.isDead(identity.nodeId))
  if (local !== undefined && !isOld) return { identity, role: 'member' }
  if (local !== undefined) setAside(paths, parts.clock.now(), parts.log)
  return { identity: await newReplica(parts, storeId), role: 'member' }
}

/** If two first nodes start at once, the one that is later waits for the one whose store the bucket has. */
async function clusterStoreId(
  { storeId, clock }: DirectoryParts,
  local: string | undefined,
  owner: string | undefined,
): Promise<string | undefined> {
  const deadline = clock.monotonic() + FIRST_NODE_MS
  for (;;) {
    const found = await storeId()
    const mayFollow = owner !== undefined && local === undefined
    if (found !== undefined || !mayFollow || clock.monotonic() >= deadline) return found
    await delay(clock, LOOK_EVERY_MS)
  }
}

/** The identity is there before the catalog: a start that ends between them goes on with an empty directory. */
async function newStore(parts: DirectoryParts): Promise<PreparedDirectory> {
  const identity = newNodeIdentity()
  await writeNodeIdentity(parts.paths, identity)
  writeCatalog(parts, newCellId(), FIRST_KEY_PENDING)
  return { identity, role: 'first' }
}

async function newReplica(parts: DirectoryParts, storeId: string): Promise<NodeIdentity> {
  // What an earlier node has stored from here is under its own prefix: the new one would look as if it was emptied.
  fs.rmSync(parts.paths.objectStore, { force: true })
  const identity = newNodeIdentity()
  await writeNodeIdentity(parts.paths, identity)
  writeCatalog(parts, storeId, {})
  return identity
}

function writeCatalog(
  { paths, clock }: DirectoryParts,
  storeId: string,
  meta: Readonly<Record<string, string>>,
): void {
  Catalog.write(paths.catalog, { storeId, createdAt: clock.now(), schema: CATALOG_SCHEMA, meta })
}

/** Without what opening a catalog does to it. */
function localStoreId(paths: StorePaths): string | undefined {
  if (!exists(paths.catalog)) return undefined
  const connection = openConnection(paths.catalog)
  try {
    const read = connection.prepare("SELECT value FROM meta WHERE key = 'store_id'").pluck()
    return read.get() as string | undefined
  } finally {
    connection.close()
  }
}

function otherBucket({ url }: ObjectStore, owner: string | undefined, storeId: string): CellError {
  const has = owner === undefined ? 'no store' : `store ${owner}`
  return refused(
    'objectStore',
    `${url} has ${has}, but the cluster's PostgreSQL has store ${storeId}. All nodes of a cluster use the same object store.`,
  )
}

function otherDirectory({ root }: StorePaths, local: string, storeId: string): CellError {
  return refused(
    'directory',
    `The directory ${root} holds store ${local}, but the cluster's PostgreSQL has store ${storeId}. Start with an empty directory, or with another cluster.`,
  )
}

function notTheLast({ root }: StorePaths): CellError {
  return refused(
    'directory',
    `The directory ${root} was a node of a cluster that another node has left as the last one, so what it has is old. Start that node with --cluster first; then start this one with an empty directory.`,
  )
}

function isRebuilt({ url }: ObjectStore): CellError {
  return refused(
    'cluster',
    `${url} belongs to a cluster, but this PostgreSQL has none. Use that cluster's PostgreSQL, or put it back from a backup. If it is lost for good, \`cellstore cluster rebuild\` makes it anew.`,
  )
}

function refused(field: string, message: string): CellError {
  return new CellError('invalid_setting', message, { field })
}
