import { randomUUID } from 'node:crypto'
import { text } from 'node:stream/consumers'
import { CellError, isCellError } from '../../../errors.ts'
import { bufferBody, type CallOptions, type ObjectStore } from '../../object-store/object-store.ts'
import { BACKUPS_PREFIX, parseVersion, STORE_OBJECT, versionOf } from '../object-keys.ts'
import { openSealed, sealJson } from './sealed-json.ts'

const FORMAT = 1

export interface StoreIdentity {
  format: typeof FORMAT
  store_id: string
  /** Unique to this prefix: with another id, nothing is stored here yet. */
  claim_id: string
  created_at: string
  /** The version of the catalog that was stored here first, and stays. Absent if an earlier cellstore claimed the prefix. */
  first_catalog?: string | undefined
}

const IDENTITY_BYTES_MAX = 4_096
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/**
 * Reads the owner of a prefix from `store.json`, which is created once (invariant 14).
 *
 * @returns undefined if the prefix holds no store
 * @throws `object_store_mismatch` if the prefix holds backups but no `store.json`, or an unreadable one
 */
export async function readIdentity(
  store: ObjectStore,
  options: CallOptions = {},
): Promise<StoreIdentity | undefined> {
  const content = await store.get(STORE_OBJECT, {
    ...options,
    range: { offset: 0, length: IDENTITY_BYTES_MAX },
  })
  if (content === undefined) {
    if (await isEmpty(store, options)) return undefined
    throw new CellError(
      'object_store_mismatch',
      `${store.url} holds backups, but no ${STORE_OBJECT} that names their store. Put the file back, or use another prefix.`,
    )
  }
  const identity = openSealed(await text(content.body))
  if (isIdentity(identity)) return identity
  throw new CellError(
    'object_store_mismatch',
    `${STORE_OBJECT} in ${store.url} is damaged, or this version of cellstore cannot read it. Put it back as it was.`,
  )
}

/**
 * Claims a prefix for this store, or checks that the store owns it already.
 *
 * @throws `object_store_mismatch` if another store owns it
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
      first_catalog: versionOf(storeId, now),
    }
    try {
      await store.put(STORE_OBJECT, bufferBody(sealJson(identity)), options)
    } catch (error) {
      if (!isCellError(error, 'object_exists')) throw error
    }
    // Read back: if the object store cannot refuse the second of two puts, both callers still see the same winner.
    owner = await readIdentity(store, options)
  }
  checkOwner(store, owner, storeId)
  return owner
}

/** @throws `object_store_mismatch` if the prefix is not this store's */
export function checkOwner(
  { url }: ObjectStore,
  owner: StoreIdentity | undefined,
  storeId: string,
): asserts owner is StoreIdentity {
  if (owner?.store_id === storeId) return
  throw new CellError(
    'object_store_mismatch',
    `${url} belongs to ${owner === undefined ? 'no store' : `store ${owner.store_id}`}, but this is store ${storeId}. Use another prefix: each store needs its own.`,
  )
}

/** By hand: every start reads it, and a schema library takes longer to load than the rest of a start. */
function isIdentity(value: unknown): value is StoreIdentity {
  const { format, store_id, claim_id, created_at, first_catalog } = (value ?? {}) as Partial<
    Record<string, unknown>
  >
  const ids = [store_id, claim_id]
  return (
    format === FORMAT &&
    ids.every((id) => typeof id === 'string' && UUID.test(id)) &&
    typeof created_at === 'string' &&
    !Number.isNaN(Date.parse(created_at)) &&
    (first_catalog === undefined || parseVersion(String(first_catalog))?.cellId === store_id)
  )
}

async function isEmpty(store: ObjectStore, options: CallOptions): Promise<boolean> {
  for await (const _ of store.list(BACKUPS_PREFIX, options)) return false
  return true
}
