import type { ObjectStore } from '../../backup/object-store/object-store.ts'
import type { Clock } from '../../base/clock.ts'
import type { StorePaths } from '../../base/files/store-paths.ts'
import type { Assignment } from '../../catalog/assignment/assignment.ts'
import { EVERYTHING_IS_HERE, type Ownership } from '../../catalog/assignment/ownership.ts'
import { CellError, isCellError } from '../../errors.ts'
import { AssignmentLog } from './assignment-log.ts'
import { type NodeIdentity, readNodeIdentity } from './node-identity.ts'

/** A store that has its catalog starts without its object store: it waits for an answer no longer. */
const ANSWER_MS = 5_000

/**
 * Which cells a node has that was started without a cluster: all, unless others share its object store.
 *
 * @throws `invalid_setting` if the store belongs to a cluster; `object_store_unavailable` if it did, and nobody can say whether it
 * still does
 */
export async function ownershipOfLoneNode(
  paths: StorePaths,
  objectStore: ObjectStore,
  clock: Clock,
): Promise<Ownership> {
  const identity = readNodeIdentity(paths)
  const newest = await newestAssignment(objectStore, clock, identity)
  if (newest === undefined) {
    if (identity === undefined) return EVERYTHING_IS_HERE
    throw ofCluster(`The directory ${paths.root} is a node of a cluster`)
  }
  const owner = newest.ranges[0]?.node ?? ''
  if (newest.mode === 'cluster') throw ofCluster(`${objectStore.url} is shared by the nodes of a cluster`)
  if (identity !== undefined && identity.nodeId !== owner)
    throw ofCluster(`The directory ${paths.root} was a node of a cluster, and not the last one`)
  return { ...EVERYTHING_IS_HERE, assignment: newest, prefix: newest.prefixes[owner] ?? '' }
}

/** A store that never had nodes must not wait for an object store that does not answer. */
async function newestAssignment(
  objectStore: ObjectStore,
  clock: Clock,
  identity: NodeIdentity | undefined,
): Promise<Assignment | undefined> {
  const abort = new AbortController()
  const timer = clock.setTimer(() => abort.abort(), ANSWER_MS)
  try {
    return await new AssignmentLog(objectStore, clock).newest(0, { signal: abort.signal })
  } catch (error) {
    if (identity !== undefined || !isCellError(error, 'object_store_unavailable')) throw error
    return undefined
  } finally {
    timer.cancel()
  }
}

function ofCluster(what: string): CellError {
  return new CellError(
    'invalid_setting',
    `${what}. Start it with --cluster and the URL of the cluster's PostgreSQL. To make it a store without one, stop all nodes but one, and give that one \`cellstore cluster leave --last\`.`,
    { field: 'cluster' },
  )
}
