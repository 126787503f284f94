import { describe, expect, test } from 'vitest'
import { TEST_EPOCH_MS } from '../support/fake-clock.ts'
import { openTestStore } from '../support/open-test-store.ts'
import { codeOf, thrownBy } from '../support/thrown.ts'

const NOBODY = '3f6c2a52-7c5e-4b0a-9f39-1c1f5a0b7e11'

describe('accounts', () => {
  test('come in pages, oldest first, also if some were made in the same millisecond', async () => {
    const { store, clock } = await openTestStore()
    const ids = Array.from({ length: 7 }, (_, i) => {
      if (i > 3) clock.step(1)
      return store.accounts.create({ name: `${i}` }).id
    })
    const seen: string[] = []
    let cursor: string | undefined
    do {
      const page = store.accounts.page({ cursor, limit: 2 })
      seen.push(...page.accounts.map(({ id }) => id))
      cursor = page.nextCursor ?? undefined
    } while (cursor !== undefined)
    expect(seen).toEqual(store.accounts.list().map(({ id }) => id))
    expect([...seen].sort()).toEqual([...ids].sort())
    for (const bad of ['x', Buffer.from('1 ').toString('base64url')])
      expect(codeOf(() => store.accounts.page({ cursor: bad }))).toBe('invalid_request')
  })

  test('that do not exist can’t be changed', async () => {
    const { accounts } = (await openTestStore()).store
    for (const act of [
      () => accounts.suspend(NOBODY),
      () => accounts.resume(NOBODY),
      () => accounts.setQuotas(NOBODY, {}),
      () => accounts.setQuotas(undefined as unknown as string, {}),
    ])
      expect(codeOf(act)).toBe('account_not_found')
    expect(accounts.find(NOBODY)).toBeUndefined()
  })

  test('show no caller’s changes to what was returned', async () => {
    const { accounts } = (await openTestStore()).store
    const account = accounts.create({ quotas: { cellsMax: 5 } })
    expect(() => Object.assign(account.quotas, { cellsMax: 9 })).toThrow(TypeError)
    account.suspendedAt = 5
    expect(accounts.find(account.id)).toMatchObject({ suspendedAt: null, quotas: { cellsMax: 5 } })
  })
})

describe('a suspension', () => {
  test('refuses every key of the account from the next call on, here and after a restart, until it ends', async () => {
    const test = await openTestStore()
    const { store, clock } = test
    const account = store.accounts.create().id
    const other = store.accounts.create().id
    const [key, neighbour] = [store.apiKeys.create(account), store.apiKeys.create(other)]
    const cell = store.createCell({ accountId: account })
    store.apiKeys.verify(key.key)
    clock.step(5)
    expect(store.accounts.suspend(account).suspendedAt).toBe(TEST_EPOCH_MS + 5)
    clock.step(5)
    expect(store.accounts.suspend(account).suspendedAt).toBe(TEST_EPOCH_MS + 5)
    expect(codeOf(() => store.apiKeys.verify(key.key))).toBe('account_suspended')
    store.apiKeys.verify(neighbour.key)
    // A bad key is told nothing.
    store.apiKeys.revoke(account, store.apiKeys.create(account).id)
    expect(codeOf(() => store.apiKeys.verify('x'))).toBe('unauthorized')
    // The library's own calls work.
    cell.kv.put('k', 'v')
    await test.reopen()
    expect(codeOf(() => test.store.apiKeys.verify(key.key))).toBe('account_suspended')
    expect(test.store.accounts.resume(account).suspendedAt).toBeNull()
    expect(test.store.apiKeys.verify(key.key).accountId).toBe(account)
    expect(test.store.openCell(cell.id).kv.get('k')).toBe('v')
  })
})

/** How often it can be done. */
function untilRefused(act: () => unknown): number {
  for (let count = 0; ; count++) {
    try {
      act()
    } catch (error) {
      expect(error).toMatchObject({ code: 'quota_exceeded' })
      return count
    }
  }
}

describe('quotas of an account', () => {
  test('override the store’s, up and down, from the next call on, and are kept', async () => {
    const test = await openTestStore({ quotas: { cellsMax: 2, apiKeysMax: 1 } })
    const { accounts } = test.store
    const [more, fewer] = [accounts.create().id, accounts.create().id]
    accounts.setQuotas(more, { cellsMax: 3 })
    accounts.setQuotas(fewer, { cellsMax: 1, apiKeysMax: 2 })
    await test.reopen()
    const { store } = test
    const counts = [more, fewer].map((accountId) => [
      untilRefused(() => store.createCell({ accountId })),
      untilRefused(() => store.apiKeys.create(accountId)),
    ])
    expect(counts).toEqual([
      [3, 1],
      [1, 2],
    ])
    const refused = thrownBy(() => store.createCell({ accountId: more }))
    expect(refused).toMatchObject({ code: 'quota_exceeded', details: { limit: 3, usage: 3 } })
    store.accounts.setQuotas(more, {})
    expect(thrownBy(() => store.createCell({ accountId: more }))).toMatchObject({
      details: { limit: 2, usage: 3 },
    })
  })

  test('are whole numbers above 0, with known names', async () => {
    const { accounts } = (await openTestStore()).store
    const { id } = accounts.create()
    for (const [quotas, field] of [
      [{ cellsMax: 0 }, 'cellsMax'],
      [{ bytesMax: 1.5 }, 'bytesMax'],
      [{ requestsPerSecond: '5' }, 'requestsPerSecond'],
      [{ apiKeysMax: null }, 'apiKeysMax'],
      [{ cells: 5 }, 'cells'],
    ] as const) {
      expect(thrownBy(() => accounts.setQuotas(id, quotas as object))).toMatchObject({
        code: 'invalid_request',
        details: { field },
      })
    }
    expect(thrownBy(() => accounts.create({ quotas: { cellsMax: 0 } }))).toMatchObject({
      details: { field: 'quotas.cellsMax' },
    })
    expect(accounts.require(id).quotas).toEqual({})
  })
})
