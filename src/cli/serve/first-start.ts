import { parseApiKey } from '../../auth/api-key.ts'
import type { CreatedApiKey } from '../../auth/api-key-records.ts'
import { type Clock, delay } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { CellError, isCellError } from '../../errors.ts'
import type { StoreCore } from '../../store/store-core.ts'

/** The first key. Nobody has seen it yet, except if the operator chose it. */
export interface FirstKeyIssued {
  key: CreatedApiKey
  /** The operator set it in CELLSTORE_ROOT_KEY and knows it, so it is not shown. */
  chosen: boolean
}

const RETRY_MS = 1_000

/**
 * Makes the first key of a new store, and stores it in the object store before anybody sees it. So every key that was
 * shown is still good after the loss of this machine.
 *
 * @param rootKey the key to use, instead of a random one
 * @param waitMs how long to wait for an object store that does not answer
 * @returns undefined if the store already has its first key
 * @throws `invalid_setting` for a malformed root key, `object_store_unavailable`
 */
export async function issueFirstKey(
  store: StoreCore,
  rootKey: string | undefined,
  waitMs: number,
  log: Log,
): Promise<FirstKeyIssued | undefined> {
  if (!store.firstKey.pending || isUsed(store)) {
    await settle(store, rootKey, log)
    return undefined
  }
  if (rootKey !== undefined && parseApiKey(rootKey) === undefined) throw malformedRootKey()
  const key = await store.durably(() => store.firstKey.issue(rootKey))
  await untilStored(store, waitMs, store.clock)
  return { key, chosen: rootKey !== undefined }
}

/**
 * Whether somebody already has a key, even if the catalog says that none was shown: an embedding program made one, or the
 * node was killed just after it showed the first key. A new first key would revoke that one.
 */
function isUsed(store: StoreCore): boolean {
  const accounts = store.accounts.list()
  const keys = accounts.flatMap(({ id }) => store.apiKeys.list(id))
  const hasOthers =
    accounts.length > 1 || keys.length > 1 || keys.some(({ lastUsedAt }) => lastUsedAt !== null)
  return hasOthers || (accounts.length === 1 && store.cells({ limit: 1 }).cells.length > 0)
}

/** The store needs no first key. */
async function settle(store: StoreCore, rootKey: string | undefined, log: Log): Promise<void> {
  if (store.firstKey.pending) await store.durably(() => store.firstKey.shown())
  if (rootKey !== undefined) {
    log.warn(
      {},
      'CELLSTORE_ROOT_KEY is ignored: it is for the first start of a store, and this store already has accounts and keys',
    )
  }
  if (store.accounts.list().length === 0) {
    log.warn({}, 'the store has no account; `cellstore keys create --new-account` makes one, with a key')
  }
}

function malformedRootKey(): CellError {
  return new CellError(
    'invalid_setting',
    'CELLSTORE_ROOT_KEY is not a valid key: a character is wrong, missing or surplus. `cellstore keys generate` makes a valid one.',
  )
}

async function untilStored(store: StoreCore, waitMs: number, clock: Clock): Promise<void> {
  const deadline = clock.monotonic() + waitMs
  for (;;) {
    try {
      return await store.catalogStored()
    } catch (error) {
      if (!isCellError(error, 'object_store_unavailable')) throw error
      if (clock.monotonic() + RETRY_MS > deadline) throw notStored(error)
    }
    await delay(clock, RETRY_MS)
  }
}

function notStored(cause: CellError): CellError {
  return new CellError(
    'object_store_unavailable',
    `The first key could not be stored in the object store, so it is not shown. ${cause.message}`,
    { cause: cause.cause },
  )
}
