import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { placeHere } from '../../backup/fence/holder-record.ts'
import { scopedTo } from '../../backup/fence/scoped-object-store.ts'
import type { ObjectStore } from '../../backup/object-store/object-store.ts'
import { readIdentity } from '../../backup/versions/identity/store-identity.ts'
import type { Clock } from '../../base/clock.ts'
import { exists } from '../../base/files/durable-files.ts'
import { StorePaths } from '../../base/files/store-paths.ts'
import type { Log } from '../../base/log.ts'
import { DirectoryLock } from '../../catalog/directory-lock.ts'
import { CellError } from '../../errors.ts'
import { resolveSettings, type StoreSettings } from '../../store/settings/settings.ts'
import { AssignmentLog } from '../../store/start/assignment-log.ts'
import { nodePrefixes } from '../membership/node-prefixes.ts'
import { readClusterRow } from '../postgres/cluster-row.ts'
import { Database } from '../postgres/database.ts'
import { PostgresCatalog } from '../postgres/postgres-catalog.ts'
import { type FoundCatalog, newestCatalog, openCatalog } from './newest-catalog.ts'
import { assertNoneRuns } from './stopped-nodes.ts'

export interface RebuildParts {
  /** PostgreSQL's. */
  url: string
  /** As it is, without a prefix or a guard. */
  bucket: ObjectStore
  /** Of a node that was stopped: its catalog counts, too. */
  dataDir: string | undefined
  clock: Clock
  log: Log
}

export interface RebuiltCluster {
  store_id: string
  /** The newest change of accounts, keys, cells and names that is known. */
  catalog_version: number
  /** The prefix in the bucket, or the directory, whose catalog had it. */
  found_in: string
  /** The newest one in the bucket: the nodes go on from there. */
  assignment: number
}

/**
 * Makes a cluster's PostgreSQL anew, while no node runs, from the newest catalog that one of them has. Who has which cells is in the
 * bucket alone: the first node that starts takes it from there.
 *
 * @throws `invalid_setting` if PostgreSQL has a cluster, or the bucket none; `object_store_in_use`, `store_locked` if a node
 * runs; `object_store_mismatch` if no node has stored a catalog; `cluster_unavailable`, what the object store throws
 */
export async function rebuildCluster(parts: RebuildParts): Promise<RebuiltCluster> {
  const { url, dataDir } = parts
  const directory = dataDir === undefined ? undefined : new StorePaths(dataDir)
  if (directory !== undefined && !exists(directory.catalog)) throw noStore(directory)
  const lock = directory && DirectoryLock.acquire(directory)
  const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-rebuild-'))
  let database: Database | undefined
  try {
    database = await Database.connect(url)
    if ((await readClusterRow(database)).store_id !== null) throw hasCluster()
    return await rebuild(parts, database, { directory, place: lock?.identity ?? '', scratch })
  } finally {
    await database?.close()
    fs.rmSync(scratch, { recursive: true, force: true })
    lock?.release()
  }
}

async function rebuild(
  { bucket, clock, log }: RebuildParts,
  database: Database,
  { directory, place, scratch }: { directory: StorePaths | undefined; place: string; scratch: string },
): Promise<RebuiltCluster> {
  const owner = await readIdentity(bucket)
  const assignment = await new AssignmentLog(bucket, clock).newest()
  if (owner === undefined || assignment?.mode !== 'cluster') throw noCluster(bucket)
  const prefixes = await nodePrefixes(bucket)
  const stores = prefixes.map((prefix) => scopedTo(bucket, prefix, () => owner.store_id))
  await assertNoneRuns(stores, placeHere(os.hostname(), place), clock)
  const settings = resolveSettings({ clock, log })
  const found = await newestCatalog({ bucket, owner, prefixes, directory, settings }, scratch)
  await seedFrom(found, database, settings)
  return {
    store_id: owner.store_id,
    catalog_version: found.version,
    found_in: found.foundIn,
    assignment: assignment.n,
  }
}

async function seedFrom({ file }: FoundCatalog, database: Database, settings: StoreSettings): Promise<void> {
  const catalog = openCatalog(file, settings)
  try {
    const { clock, random } = settings
    // It only seeds, and is no member.
    const shared = new PostgresCatalog({ database, catalog, nodeId: randomUUID(), clock, random })
    if (!(await shared.seed())) throw hasCluster()
  } finally {
    catalog.close()
  }
}

function hasCluster(): CellError {
  return refused(
    'cluster',
    'This PostgreSQL has a cluster already: nothing was changed. Start its nodes, or name a database that is empty.',
  )
}

function noCluster({ url }: ObjectStore): CellError {
  return refused(
    'objectStore',
    `${url} has no cluster. A store that ran alone goes into PostgreSQL when its node starts with --cluster.`,
  )
}

function noStore({ root }: StorePaths): CellError {
  return refused('dataDir', `The directory ${root} holds no store. Name that of a node, or none.`)
}

function refused(field: string, message: string): CellError {
  return new CellError('invalid_setting', message, { field })
}
