import { readTail } from '../../backup/fence/fence-tail.ts'
import { describeHolder, type HolderPlace, holderState } from '../../backup/fence/holder-record.ts'
import type { ObjectStore } from '../../backup/object-store/object-store.ts'
import { type Clock, delay } from '../../base/clock.ts'
import { CellError } from '../../errors.ts'

const NODES = 'nodes/'
const PREFIX = /^nodes\/[^/]+\//

/** Of all nodes that a bucket has ever had; the first one, empty, is that of a store that ran alone. */
export async function nodePrefixes(bucket: ObjectStore): Promise<string[]> {
  const prefixes = ['']
  for (let after: string | undefined; ; ) {
    const key = await firstKey(bucket, after)
    if (key === undefined) return prefixes
    const prefix = PREFIX.exec(key)?.[0]
    if (prefix !== undefined) prefixes.push(prefix)
    // The first key that could follow all of the prefix: 0 comes after the slash.
    after = prefix === undefined ? key : `${prefix.slice(0, -1)}0`
  }
}

async function firstKey(bucket: ObjectStore, after: string | undefined): Promise<string | undefined> {
  for await (const { key } of bucket.list(NODES, { after })) return key
  return undefined
}

/**
 * Of a node on another machine that was not stopped properly, a new record within its lease says that it runs.
 *
 * @param stores the nodes' own parts of the bucket
 * @throws `object_store_in_use` if one runs; what the object store throws
 */
export async function assertNoneRuns(
  stores: readonly ObjectStore[],
  here: HolderPlace,
  clock: Clock,
): Promise<void> {
  const looks = await Promise.all(
    stores.map(async (store) => {
      const tail = await readTail(store, [], {})
      return { store, tail, state: tail && holderState(tail.record, here, clock.now()) }
    }),
  )
  const running = looks.find(({ state }) => state === 'alive')
  if (running?.tail !== undefined) throw runs(running.store, describeHolder(running.tail.record))
  const unknown = looks.filter(({ state }) => state === 'unknown')
  if (unknown.length === 0) return
  await delay(clock, Math.max(...unknown.map(({ tail }) => tail?.record?.lease_ms ?? 0)))
  for (const { store, tail } of unknown) {
    const now = await readTail(store, [], {})
    if (now?.epoch !== tail?.epoch || now?.sequence !== tail?.sequence)
      throw runs(store, describeHolder(now?.record))
  }
}

function runs({ url }: ObjectStore, holder: string): CellError {
  return new CellError(
    'object_store_in_use',
    `${url} is in use by ${holder}. Stop all nodes of the cluster, and try again.`,
  )
}
