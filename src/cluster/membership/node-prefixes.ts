import type { ObjectStore } from '../../backup/object-store/object-store.ts'

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
