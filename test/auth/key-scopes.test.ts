import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { covers, type KeyScope, type KeyScopeOptions } from '../../src/auth/key-scope.ts'
import { TEST_EPOCH_MS } from '../support/fake-clock.ts'
import { openTestStore } from '../support/open-test-store.ts'
import { SEED } from '../support/seed.ts'
import { codeOf, thrownBy } from '../support/thrown.ts'

const DAY_MS = 86_400_000
const NOBODY = '3f6c2a52-7c5e-4b0a-9f39-1c1f5a0b7e11'

async function openKeys() {
  const test = await openTestStore()
  const { store, clock } = test
  const account = store.accounts.create().id
  const cell = store.createCell({ accountId: account }).id
  return { test, store, clock, keys: store.apiKeys, account, cell }
}

describe('a key’s scope', () => {
  test('is what it was made with, when it is verified, listed, and after a restart', async () => {
    const { test, keys, account, cell } = await openKeys()
    const scope = {
      access: 'read',
      surface: 'kv',
      cellIds: [cell],
      expiresAt: TEST_EPOCH_MS + DAY_MS,
    } as const
    const { key } = keys.create(account, scope)
    expect(keys.verify(key)).toMatchObject({ scope, endsAt: scope.expiresAt })
    expect(keys.list(account)[0]).toMatchObject(scope)
    await test.reopen()
    expect(test.store.apiKeys.verify(key)).toMatchObject({ scope })
  })

  test('names a cell once', async () => {
    const { keys, account, cell } = await openKeys()
    expect(keys.create(account, { cellIds: [cell, cell] }).cellIds).toEqual([cell])
  })

  test('is refused if it is none', async () => {
    const { store, keys, account } = await openKeys()
    const foreign = store.createCell({ accountId: store.accounts.create().id }).id
    const bad: [unknown, object][] = [
      [{ access: 'all' }, { code: 'invalid_request', details: { field: 'access' } }],
      [{ access: null }, { code: 'invalid_request', details: { field: 'access' } }],
      [{ surface: 'sql' }, { code: 'invalid_request', details: { field: 'surface' } }],
      [{ cellIds: [] }, { code: 'invalid_request', details: { field: 'cellIds', limit: 100 } }],
      [{ cellIds: NOBODY }, { code: 'invalid_request', details: { field: 'cellIds', limit: 100 } }],
      [{ cellIds: Array(101).fill(NOBODY) }, { code: 'invalid_request', details: { field: 'cellIds' } }],
      [{ cellIds: [NOBODY] }, { code: 'cell_not_found' }],
      [{ cellIds: [foreign] }, { code: 'cell_not_found' }],
      [{ expiresAt: TEST_EPOCH_MS }, { code: 'invalid_request', details: { field: 'expiresAt' } }],
      [{ expiresAt: 1.5 }, { code: 'invalid_request', details: { field: 'expiresAt' } }],
      [{ expiresAt: Number.MAX_SAFE_INTEGER }, { code: 'invalid_request' }],
      [{ expiresAt: '2027-01-01' }, { code: 'invalid_request', details: { field: 'expiresAt' } }],
      [
        { access: 'owner', surface: 'kv' },
        { code: 'invalid_request', details: { field: 'access' } },
      ],
      [{ acces: 'read' }, { code: 'invalid_request', details: { field: 'acces' } }],
    ]
    for (const [options, error] of bad)
      expect(thrownBy(() => keys.create(account, options as KeyScopeOptions))).toMatchObject(error)
    expect(keys.list(account)).toEqual([])
  })
})

describe('a key that expires', () => {
  test('is refused from that millisecond on, as one that never was; its answer is cached no longer', async () => {
    const { keys, account, clock } = await openKeys()
    const { key } = keys.create(account, { expiresAt: TEST_EPOCH_MS + 1_000 })
    clock.step(999)
    keys.verify(key)
    clock.step(1)
    const unknown = thrownBy(() => keys.verify('x'))
    expect(thrownBy(() => keys.verify(key))).toMatchObject({ code: 'unauthorized', message: unknown.message })
    expect(keys.list(account)).toEqual([])
  })

  test('counts against the quota only while it works, and is forgotten like a revoked one', async () => {
    const { store, clock } = await openTestStore({ quotas: { apiKeysMax: 2 } })
    const { id } = store.accounts.create()
    for (let i = 0; i < 20; i++) {
      store.apiKeys.create(id, { expiresAt: clock.now() + 1_000 })
      store.apiKeys.create(id, { expiresAt: clock.now() + 1_000 })
      expect(codeOf(() => store.apiKeys.create(id))).toBe('quota_exceeded')
      clock.step(1_000)
    }
    const { id: last } = store.apiKeys.create(id)
    expect(store.apiKeys.list(id).map((each) => each.id)).toEqual([last])
  })
})

describe('rotate', () => {
  test('gives a new key with the scope and the name, and ends the old one after a day', async () => {
    const { keys, account, cell, clock } = await openKeys()
    const scope = { access: 'read', surface: 'kv', cellIds: [cell], expiresAt: null } as const
    const old = keys.create(account, { name: 'ci', ...scope })
    const rotated = keys.rotate(account, old.id)
    expect(rotated).toMatchObject({
      name: 'ci',
      ...scope,
      replaces: { id: old.id, expiresAt: TEST_EPOCH_MS + DAY_MS },
    })
    expect(rotated.key).not.toBe(old.key)
    expect(keys.list(account).map(({ id, expiresAt }) => [id, expiresAt])).toEqual([
      [rotated.id, null],
      [old.id, TEST_EPOCH_MS + DAY_MS],
    ])
    clock.step(DAY_MS - 1)
    keys.verify(old.key)
    clock.step(1)
    expect(codeOf(() => keys.verify(old.key))).toBe('unauthorized')
    expect(keys.verify(rotated.key).scope).toEqual(scope)
  })

  test('without a grace refuses the old key at once, and needs no room in the quota', async () => {
    const { store } = await openTestStore({ quotas: { apiKeysMax: 1 } })
    const { id } = store.accounts.create()
    const old = store.apiKeys.create(id)
    expect(codeOf(() => store.apiKeys.rotate(id, old.id))).toBe('quota_exceeded')
    // Nothing of the refused rotation is left: the old key does not end.
    expect(store.apiKeys.verify(old.key).endsAt).toBeNull()
    const { key } = store.apiKeys.rotate(id, old.id, { graceMs: 0 })
    expect(codeOf(() => store.apiKeys.verify(old.key))).toBe('unauthorized')
    store.apiKeys.verify(key)
  })

  test('without a grace refuses the old key by any clock: that of another node may be an hour behind (C7)', async () => {
    const { keys, account, clock } = await openKeys()
    const old = keys.create(account)
    const { key } = keys.rotate(account, old.id, { graceMs: 0 })
    clock.step(-3_600_000)
    expect(codeOf(() => keys.verify(old.key))).toBe('unauthorized')
    keys.verify(key)
  })

  test('keeps the expiry, and never lengthens the life of the old key', async () => {
    const { keys, account } = await openKeys()
    const expiresAt = TEST_EPOCH_MS + 1_000
    const old = keys.create(account, { expiresAt })
    const rotated = keys.rotate(account, old.id)
    expect([rotated.expiresAt, rotated.replaces.expiresAt]).toEqual([expiresAt, expiresAt])
    const forever = keys.rotate(account, old.id, { expiresAt: null })
    expect(forever.expiresAt).toBeNull()
  })

  test('can be repeated if its answer was lost: the second new key does not inherit the end of the grace', async () => {
    const { keys, account, clock } = await openKeys()
    const old = keys.create(account)
    const lost = keys.rotate(account, old.id, { graceMs: 1_000 })
    clock.step(10)
    const second = keys.rotate(account, old.id, { graceMs: 60_000 })
    expect(second.expiresAt).toBeNull()
    // The end that was told first holds.
    expect(second.replaces).toEqual(lost.replaces)
  })

  test('refuses a key that no longer works, another account’s, and a bad grace', async () => {
    const { store, keys, account, clock } = await openKeys()
    const revoked = keys.create(account)
    keys.revoke(account, revoked.id)
    const expired = keys.create(account, { expiresAt: TEST_EPOCH_MS + 5 })
    clock.step(5)
    const other = keys.create(store.accounts.create().id)
    for (const { id } of [revoked, expired, other])
      expect(codeOf(() => keys.rotate(account, id))).toBe('api_key_not_found')
    const { id } = keys.create(account)
    for (const graceMs of [-1, 0.5, 30 * DAY_MS + 1, Number.NaN])
      expect(thrownBy(() => keys.rotate(account, id, { graceMs }))).toMatchObject({
        code: 'invalid_request',
        details: { field: 'graceMs' },
      })
  })
})

const cells = ['a', 'b', 'c']
const scope: fc.Arbitrary<KeyScope> = fc.record({
  access: fc.constantFrom('read', 'write', 'owner'),
  surface: fc.constantFrom('kv', 'all'),
  cellIds: fc.option(fc.subarray(cells, { minLength: 1 })),
  expiresAt: fc.option(fc.integer({ min: 1, max: 5 })),
})

test('what one scope covers, it covers with everything that this one covers; and each covers itself', () => {
  fc.assert(
    fc.property(scope, scope, scope, (a, b, c) => {
      expect(covers(a, a)).toBe(true)
      if (covers(a, b) && covers(b, c)) expect(covers(a, c)).toBe(true)
    }),
    { numRuns: 2_000, seed: SEED },
  )
})
