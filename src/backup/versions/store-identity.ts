import { randomUUID } from 'node:crypto'
import { CellError, isCellError } from '../../errors.ts'
import { bufferBody, type CallOptions, type ObjectStore } from '../object-store/object-store.ts'
import { BACKUPS_PREFIX, STORE_OBJECT } from './object-keys.ts'

const FORMAT = 1

export interface StoreIdentity {
  format: typeof FORMAT
  store_id: string
  /** Of this prefix alone: where it is another, nothing that was stored elsewhere counts. */
  claim_id: string
  created_at: string
}

const IDENTITY_BYTES_MAX = 4_096
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/**
 * Whose prefix it is: `store.json`, made once (invariant 14).
 *
 * @returns the store's id, or undefined if the prefix holds no store
 * @throws `object_store_mismatch` if the prefix holds backups but no `store.json`, or one that can't be read
 */
export async function readStoreId(
  store: ObjectStore,
  options: CallOptions = {},
): Promise<string | undefined> {
  return (await readIdentity(store, options))?.store_id
}

/**
 * Makes a prefix this store's, or makes sure that it is.
 *
 * @throws `object_store_mismatch` if it is another's
 */
export async function claimPrefix(
  store: ObjectStore,
  storeId: string,
  now: number,
  options: CallOptions = {},
): Promise<StoreIdentity> {
  let owner = await readIdentity(store, options)
  if (owner === undefined) {
    const identity: StoreIdentity = {
      format: FORMAT,
      store_id: storeId,
      claim_id: randomUUID(),
      created_at: new Date(now).toISOString(),
    }
    try {
      await store.put(STORE_OBJECT, bufferBody(Buffer.from(`${JSON.stringify(identity)}\n`)), options)
    } catch (error) {
      if (!isCellError(error, 'object_exists')) throw error
    }
    // Read back: where the store can't promise that only one of two puts wins, both learn which did.
    owner = await readIdentity(store, options)
  }
  if (owner?.store_id === storeId) return owner
  throw new CellError(
    'object_store_mismatch',
    `${store.url} belongs to ${owner === undefined ? 'no store' : `the store ${owner.store_id}`}, this is ${storeId}. One prefix holds one store's backups; use another.`,
  )
}

async function readIdentity(store: ObjectStore, options: CallOptions): Promise<StoreIdentity | undefined> {
  const content = await store.get(STORE_OBJECT, {
    ...options,
    range: { offset: 0, length: IDENTITY_BYTES_MAX },
  })
  if (content === undefined) {
    if (await isEmpty(store, options)) return undefined
    throw new CellError(
      'object_store_mismatch',
      `${store.url} holds backups but no ${STORE_OBJECT} that says whose they are.`,
    )
  }
  const identity = await readJson(content.body)
  if (isIdentity(identity)) return identity
  throw new CellError(
    'object_store_mismatch',
    `${store.url} has a ${STORE_OBJECT} that this version cannot read.`,
  )
}

/** By hand: every start reads it, and a schema library takes longer to load than the rest of a start. */
function isIdentity(value: unknown): value is StoreIdentity {
  const { format, store_id, claim_id, created_at } = (value ?? {}) as Partial<Record<string, unknown>>
  const ids = [store_id, claim_id]
  return (
    format === FORMAT &&
    ids.every((id) => typeof id === 'string' && UUID.test(id)) &&
    typeof created_at === 'string' &&
    !Number.isNaN(Date.parse(created_at))
  )
}

async function isEmpty(store: ObjectStore, options: CallOptions): Promise<boolean> {
  for await (const _ of store.list(BACKUPS_PREFIX, options)) return false
  return true
}

async function readJson(body: AsyncIterable<Uint8Array>): Promise<unknown> {
  const chunks: Uint8Array[] = []
  for await (const chunk of body) chunks.push(chunk)
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'))
  } catch {
    return undefined
  }
}
