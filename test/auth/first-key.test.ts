import { randomBytes } from 'node:crypto'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { makeApiKey } from '../../src/auth/api-key.ts'
import type { CellStore } from '../../src/store/cell-store.ts'
import { StoreDirectory } from '../support/store-directory.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { codeOf } from '../support/thrown.ts'

/** Opens a store as a served one is opened, again and again in the same directory. */
function servedStore() {
  const directory = StoreDirectory.ofTest(path.join(tempDirectory(), 'data'))
  let store: CellStore | undefined
  return async () => {
    await store?.close()
    store = await directory.openOrCreate()
    return store
  }
}

describe('the first key', () => {
  test('is due on the first start of a served store, and from its first moment on', async () => {
    const start = servedStore()
    expect((await start()).core.firstKey.pending).toBe(true)
    // A start that was cut off before anybody asked.
    expect((await start()).core.firstKey.pending).toBe(true)
  })

  test('is one key of one account', async () => {
    const start = servedStore()
    const store = await start()
    const { key, id } = store.core.firstKey.issue()
    store.core.firstKey.shown()
    expect(store.core.firstKey.pending).toBe(false)
    const [account] = store.accounts.list()
    expect(store.accounts.list()).toHaveLength(1)
    expect(store.apiKeys.verify(key)).toMatchObject({ keyId: id, accountId: account?.id })
    expect(store.apiKeys.list(account?.id as string)).toMatchObject([{ id, name: 'first key' }])
    const again = await start()
    expect(again.core.firstKey.pending).toBe(false)
    again.apiKeys.verify(key)
  })

  test('that was made and never shown is replaced, with the same account', async () => {
    const start = servedStore()
    const unseen = (await start()).core.firstKey.issue()
    const store = await start()
    expect(store.core.firstKey.pending).toBe(true)
    const { key } = store.core.firstKey.issue()
    store.core.firstKey.shown()
    expect(codeOf(() => store.apiKeys.verify(unseen.key))).toBe('unauthorized')
    store.apiKeys.verify(key)
    expect(store.accounts.list()).toHaveLength(1)
  })

  test('is made only when it is due, so that existing keys stay valid', async () => {
    const start = servedStore()
    const store = await start()
    const { key } = store.core.firstKey.issue()
    store.core.firstKey.shown()
    expect(codeOf(() => store.core.firstKey.issue())).toBe('invalid_request')
    store.apiKeys.verify(key)
  })

  test('can be one that the operator chose, if it is well-formed', async () => {
    const start = servedStore()
    const store = await start()
    expect(codeOf(() => store.core.firstKey.issue('cell_sk_nonsense'))).toBe('invalid_request')
    expect([store.accounts.list(), store.core.firstKey.pending]).toEqual([[], true])
    const rootKey = makeApiKey(randomBytes)
    expect(store.core.firstKey.issue(rootKey).key).toBe(rootKey)
    store.core.firstKey.shown()
    store.apiKeys.verify(rootKey)
  })

  test('is not due in a store that the library made', async () => {
    const store = await StoreDirectory.ofTest(path.join(tempDirectory(), 'data')).create()
    expect(store.core.firstKey.pending).toBe(false)
    expect(store.accounts.list()).toEqual([])
  })
})
