import type { ObjectStore } from '../../backup/object-store/object-store.ts'
import type { Clock } from '../../base/clock.ts'
import { StorePaths } from '../../base/files/store-paths.ts'
import type { Log } from '../../base/log.ts'
import type { Assignment } from '../../catalog/assignment/assignment.ts'
import { CellError, isCellError } from '../../errors.ts'
import { AssignmentLog } from '../../store/start/assignment-log.ts'
import type { PeerCalls } from '../peers.ts'
import { readClusterRow } from '../postgres/cluster-row.ts'
import { Database } from '../postgres/database.ts'
import { PostgresNodeTable } from '../postgres/node-table.ts'
import { type PreparedDirectory, prepareDirectory } from './prepare-directory.ts'

export interface ClusterSettings {
  /** PostgreSQL's. */
  url: string
  /** Milliseconds. */
  ttlMs: number
}

export interface ClusterNodeParts {
  settings: ClusterSettings
  dataDir: string
  /** As it is, without a prefix or a guard. */
  bucket: ObjectStore
  clock: Clock
  random: () => number
  log: Log
  /** @param secret the same on all nodes */
  callsOf(secret: string): PeerCalls
}

/** PostgreSQL is connected, and the directory ready to be opened. */
export interface OpenedCluster {
  database: Database
  secret: string
  prepared: PreparedDirectory
  assignments: AssignmentLog
  /** Undefined before the first one. */
  newest: Assignment | undefined
}

/**
 * @param outdated the directory was taken over: see `prepareDirectory`
 * @throws `invalid_setting`, also if PostgreSQL does not answer; as `prepareDirectory`
 */
export async function openCluster(parts: ClusterNodeParts, outdated: boolean): Promise<OpenedCluster> {
  const { settings, bucket, clock, log } = parts
  const deadlineMs = Math.max(1_000, settings.ttlMs / 2)
  const database = await Database.connect(settings.url, { deadlineMs }).catch((error) => {
    throw isCellError(error, 'cluster_unavailable') ? noAnswer(error) : error
  })
  try {
    await assertCreatesOnce(bucket)
    const assignments = new AssignmentLog(bucket, clock)
    const table = new PostgresNodeTable(database)
    const isDead = async (id: string) => {
      const { nodes } = await table.list()
      return nodes.some((node) => node.id === id && node.state === 'dead')
    }
    const storeId = async () => (await readClusterRow(database)).store_id ?? undefined
    const newestAssignment = () => assignments.newest()
    const paths = new StorePaths(parts.dataDir)
    const ofDirectory = { paths, bucket, storeId, isDead, newestAssignment, clock, log }
    const prepared = await prepareDirectory(ofDirectory, { outdated })
    const { secret } = await readClusterRow(database)
    return { database, secret, prepared, assignments, newest: await assignments.newest() }
  } catch (error) {
    await database.close()
    throw error
  }
}

async function assertCreatesOnce(bucket: ObjectStore): Promise<void> {
  if ((await bucket.createsOnlyOnce?.()) !== false) return
  throw new CellError(
    'invalid_setting',
    `${bucket.url} does not honour conditional writes, so several nodes can't share it. Use an object store that does.`,
    { field: 'objectStore' },
  )
}

function noAnswer({ message, cause }: CellError): CellError {
  return new CellError(
    'invalid_setting',
    `${message} Nothing was changed. Check the URL of --cluster (CELLSTORE_CLUSTER).`,
    {
      field: 'cluster',
      cause,
    },
  )
}
