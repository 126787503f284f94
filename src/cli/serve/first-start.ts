import { parseApiKey } from '../../auth/api-key.ts'
import type { CreatedApiKey } from '../../auth/api-keys.ts'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { CellError, isCellError } from '../../errors.ts'
import type { StoreCore } from '../../store/store-core.ts'

/** A key that nobody has seen yet, save for one that the operator chose. */
export interface FirstKeyIssued {
  key: CreatedApiKey
  /** The operator set it: they know it, so it is not shown. */
  chosen: boolean
}

const RETRY_MS = 1_000

/**
 * Makes the first key of a store that was just made, and has it in the object store before anybody sees it: whoever
 * holds a key can come back with it after everything here is lost.
 *
 * @param rootKey the key to take, in place of a new one
 * @param waitMs how long an object store that does not answer is waited for
 * @returns undefined if the store has its first key already
 * @throws `invalid_setting` for a malformed root key, `object_store_unavailable`
 */
export async function issueFirstKey(
  store: StoreCore,
  rootKey: string | undefined,
  waitMs: number,
  log: Log,
): Promise<FirstKeyIssued | undefined> {
  if (!store.firstKey.pending || isUsed(store)) {
    settle(store, rootKey, log)
    return undefined
  }
  if (rootKey !== undefined && parseApiKey(rootKey) === undefined) throw noKey()
  const key = store.firstKey.issue(rootKey)
  await untilStored(store, waitMs, store.clock)
  return { key, chosen: rootKey !== undefined }
}

/**
 * Whether somebody has a key already, whatever the catalog says: an embedding program made it, or the second was lost in
 * which the first key was shown. A new first key would end it.
 */
function isUsed(store: StoreCore): boolean {
  const accounts = store.accounts.list()
  const keys = accounts.flatMap(({ id }) => store.apiKeys.list(id))
  const hasOthers =
    accounts.length > 1 || keys.length > 1 || keys.some(({ lastUsedAt }) => lastUsedAt !== null)
  return hasOthers || (accounts.length === 1 && store.cells({ limit: 1 }).cells.length > 0)
}

/** No first key is due, or not any more. */
function settle(store: StoreCore, rootKey: string | undefined, log: Log): void {
  if (store.firstKey.pending) store.firstKey.shown()
  if (rootKey !== undefined) {
    log.warn(
      {},
      'CELLSTORE_ROOT_KEY is ignored: it is for the first start of a store, and this one has its accounts and keys',
    )
  }
  if (store.accounts.list().length === 0) {
    log.warn({}, 'the store has no account: `cellstore keys create --new-account` makes one, with a key')
  }
}

function noKey(): CellError {
  return new CellError(
    'invalid_setting',
    'CELLSTORE_ROOT_KEY is no key of ours: a character is wrong, missing or too much. `cellstore keys generate` makes one.',
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
    await new Promise<void>((resolve) => clock.setTimer(resolve, RETRY_MS, { keepsAlive: true }))
  }
}

function notStored(cause: CellError): CellError {
  return new CellError(
    'object_store_unavailable',
    `The first key can not be kept in the object store, so it is not given out. ${cause.message}`,
    { cause: cause.cause },
  )
}
