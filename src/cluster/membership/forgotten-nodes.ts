import os from 'node:os'
import { readTail } from '../../backup/fence/fence-tail.ts'
import { holderState, placeHere } from '../../backup/fence/holder-record.ts'
import { scopedTo } from '../../backup/fence/scoped-object-store.ts'
import type { ObjectStore } from '../../backup/object-store/object-store.ts'
import { type Clock, delay } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { CellError, isCellError } from '../../errors.ts'
import { ForeignPrefix } from './foreign-prefix.ts'
import type { LeaseTimes } from './lease.ts'
import { nodePrefixes } from './node-prefixes.ts'
import type { NodeTable } from './node-table.ts'

interface ForgottenNodes {
  table: Pick<NodeTable, 'list'>
  /** As it is, without a prefix. */
  bucket: ObjectStore
  storeId: string
  /** Of the node that looks. */
  prefix: string
  dataDir: string
  times: LeaseTimes
  clock: Clock
  log: Log
}

/** Nodes have clocks of their own: a fence that is older by this one was put longer ago than any lease lasts. */
const FENCED_LONG_AGO_MS = 3_600_000

/**
 * Resolves once no node answers whose row a PostgreSQL has forgotten: it might live on by the bucket, and nobody would wait for it at a
 * revocation. Such a node is fenced, unless it joins again within the time to live; and its lease has ended then.
 *
 * @throws `cluster_unavailable` if PostgreSQL or the object store does not answer
 */
export async function fenceForgotten(parts: ForgottenNodes): Promise<void> {
  const { times, clock, log } = parts
  try {
    const { running, isOneFenced } = await forgotten(parts)
    if (running.size > 0) {
      // It may be about to join.
      await delay(clock, times.ttlMs)
      for (const [prefix, node] of (await forgotten(parts)).running) {
        await node.fence()
        log.warn({ prefix }, 'PostgreSQL has forgotten a node: it is fenced')
      }
    }
    if (running.size > 0 || isOneFenced) await delay(clock, times.fenceMs)
  } catch (cause) {
    if (isCellError(cause, 'cluster_unavailable') || !isCellError(cause)) throw cause
    const message = `The nodes that PostgreSQL may have forgotten could not be looked at. ${cause.message}`
    throw new CellError('cluster_unavailable', message, { cause })
  }
}

interface Forgotten {
  running: Map<string, ForeignPrefix>
  /** Another node may have put a fence just now: what it has fenced may answer a moment longer. */
  isOneFenced: boolean
}

async function forgotten(parts: ForgottenNodes): Promise<Forgotten> {
  const { table, bucket, storeId, clock } = parts
  const here = placeHere(os.hostname(), parts.dataDir)
  const known = new Set([parts.prefix, ...(await table.list()).nodes.map(({ prefix }) => prefix)])
  const found: Forgotten = { running: new Map(), isOneFenced: false }
  for (const prefix of await nodePrefixes(bucket)) {
    const store = scopedTo(bucket, prefix, () => storeId)
    const tail = known.has(prefix) ? undefined : await readTail(store, [], {})
    if (tail === undefined) continue
    const { record } = tail
    const state = holderState(record, here, clock.now())
    if (state === 'alive' || state === 'unknown')
      found.running.set(prefix, new ForeignPrefix(store, here, clock))
    else if (record?.lease_ms === 0 && clock.now() - Date.parse(record.written_at) < FENCED_LONG_AGO_MS)
      found.isOneFenced = true
  }
  return found
}
