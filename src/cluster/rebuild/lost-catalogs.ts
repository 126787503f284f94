import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { readTail } from '../../backup/fence/fence-tail.ts'
import { scopedTo } from '../../backup/fence/scoped-object-store.ts'
import type { ObjectStore } from '../../backup/object-store/object-store.ts'
import { readIdentity } from '../../backup/versions/identity/store-identity.ts'
import type { Clock } from '../../base/clock.ts'
import { StorePaths } from '../../base/files/store-paths.ts'
import type { Log } from '../../base/log.ts'
import type { Catalog } from '../../catalog/catalog.ts'
import { CellError, isCellError } from '../../errors.ts'
import { resolveSettings } from '../../store/settings/settings.ts'
import type { AssignmentLog } from '../../store/start/assignment-log.ts'
import { nodePrefixes } from '../membership/node-prefixes.ts'
import type { NodeTable } from '../membership/node-table.ts'
import { openCatalog, storedBy } from './newest-catalog.ts'

interface LostCatalogs {
  table: Pick<NodeTable, 'list'>
  /** As it is, without a prefix. */
  bucket: ObjectStore
  /** Of the node that looks. */
  prefix: string
  assignments: Pick<AssignmentLog, 'newest'>
  clock: Clock
  log: Log
}

/** Clocks of nodes, and that of PostgreSQL, may differ by so much. */
const SKEW_MS = 3_600_000

/**
 * The catalogs that nodes have stored which are gone: all that knew of a change may have died after PostgreSQL has lost it, and before
 * they could hand it in. Whoever had cells when it lost the change knew of it (C7), and has them still by the assignment, or has ended
 * since.
 *
 * @param incarnation of the PostgreSQL that had the whole log; its end says when it was started
 * @throws `cluster_unavailable` if the object store does not answer
 */
export async function* lostCatalogs(
  parts: LostCatalogs,
  incarnation: string | null,
): AsyncGenerator<Catalog, void> {
  const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-lost-'))
  try {
    yield* storedByLost(parts, startOf(incarnation), scratch)
  } catch (cause) {
    if (isCellError(cause, 'cluster_unavailable') || !isCellError(cause)) throw cause
    const message = `What nodes have stored of the catalog that are gone could not be read. ${cause.message}`
    throw new CellError('cluster_unavailable', message, { cause })
  } finally {
    fs.rmSync(scratch, { recursive: true, force: true })
  }
}

async function* storedByLost(
  { table, bucket, prefix: own, assignments, clock, log }: LostCatalogs,
  since: number,
  scratch: string,
): AsyncGenerator<Catalog, void> {
  const owner = await readIdentity(bucket)
  if (owner === undefined) return
  const handedIn = new Set([own, ...(await table.list()).nodes.map(({ prefix }) => prefix)])
  const owners = new Set(Object.values((await assignments.newest())?.prefixes ?? {}))
  const settings = resolveSettings({ clock, log })
  for (const [i, prefix] of (await nodePrefixes(bucket)).entries()) {
    if (handedIn.has(prefix)) continue
    const tail = await readTail(
      scopedTo(bucket, prefix, () => owner.store_id),
      [],
      {},
    )
    const endedAt = tail?.record === undefined ? Number.POSITIVE_INFINITY : Date.parse(tail.record.written_at)
    if (tail === undefined || (endedAt < since - SKEW_MS && !owners.has(prefix))) continue
    const paths = new StorePaths(path.join(scratch, String(i)))
    const found = await storedBy(prefix, { bucket, owner, settings }, paths)
    if (found === undefined) continue
    const catalog = openCatalog(found.file, settings)
    try {
      log.info({ prefix, version: found.version }, 'took in what a lost node had stored of the catalog')
      yield catalog
    } finally {
      catalog.close()
      fs.rmSync(paths.root, { recursive: true, force: true })
    }
  }
}

/** Epoch milliseconds; 0 if it does not say so. */
function startOf(incarnation: string | null): number {
  const [seconds] = /\d{9,}(\.\d+)?$/.exec(incarnation ?? '') ?? []
  return Number(seconds ?? 0) * 1_000
}
