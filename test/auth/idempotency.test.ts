import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import type { IdempotencyKey } from '../../src/auth/idempotency.ts'
import type { Quotas } from '../../src/catalog/account-quotas.ts'
import { openTestStore, type TestStore } from '../support/open-test-store.ts'
import { codeOf } from '../support/thrown.ts'

const DAY_MS = 24 * 3_600_000

function keyed(change: Partial<IdempotencyKey> = {}): IdempotencyKey {
  return { method: 'POST', path: '/v1/databases', key: 'k', fingerprint: 'f', ...change }
}

async function openAccounts(quotas: Quotas = {}) {
  const test = await openTestStore({ quotas })
  const [a, b] = [test.store.accounts.create().id, test.store.accounts.create().id]
  const create = (accountId: string, idempotency: IdempotencyKey) =>
    test.store.createCell({ accountId, idempotency })
  return { test, clock: test.clock, a, b, create }
}

describe('a repeated request', () => {
  test('gets the first one’s cell, and makes no other', async () => {
    const { test, a, create } = await openAccounts()
    const first = create(a, keyed())
    const again = create(a, keyed())
    expect([again.id, again.replayed, first.replayed]).toEqual([first.id, true, undefined])
    first.kv.put('k', 'v')
    expect(again.kv.get('k')).toBe('v')
    expect(test.store.cells().cells).toHaveLength(1)
  })

  test('still does after a restart', async () => {
    const { test, a, create } = await openAccounts()
    const { id } = create(a, keyed())
    await test.reopen()
    expect(create(a, keyed())).toMatchObject({ id, replayed: true })
  })

  test('with another body is a mistake, and makes nothing', async () => {
    const { test, a, create } = await openAccounts()
    create(a, keyed())
    expect(codeOf(() => create(a, keyed({ fingerprint: 'other' })))).toBe('idempotency_key_reused')
    expect(test.store.cells().cells).toHaveLength(1)
  })

  test('of another account, method, path or key is another request', async () => {
    const { test, a, b, create } = await openAccounts()
    const ids = [
      create(a, keyed()).id,
      create(b, keyed()).id,
      create(a, keyed({ method: 'PUT' })).id,
      create(a, keyed({ path: '/v1/other' })).id,
      create(a, keyed({ key: 'K' })).id,
    ]
    expect(new Set(ids).size).toBe(5)
    expect(test.store.cells().cells).toHaveLength(5)
  })

  test('is known for 24 hours to the millisecond, and new after that', async () => {
    const { clock, a, create } = await openAccounts()
    const { id } = create(a, keyed())
    clock.step(DAY_MS - 1)
    expect(create(a, keyed()).id).toBe(id)
    clock.step(1)
    const later = create(a, keyed({ fingerprint: 'another body' }))
    expect([later.id === id, later.replayed]).toEqual([false, undefined])
    expect(create(a, keyed({ fingerprint: 'another body' })).id).toBe(later.id)
  })

  test('is not forgotten when the clock steps back', async () => {
    const { clock, a, create } = await openAccounts()
    const { id } = create(a, keyed())
    clock.step(-365 * DAY_MS)
    expect(create(a, keyed()).id).toBe(id)
  })

  test('gets the first one’s cell also when that was deleted meanwhile', async () => {
    const { test, a, create } = await openAccounts()
    const { id } = create(a, keyed())
    test.store.deleteCell(id)
    const again = create(a, keyed())
    expect(again).toMatchObject({ id, replayed: true })
    expect(codeOf(() => again.kv.get('k'))).toBe('cell_not_found')
  })
})

test('without an account there is no telling whose request it was', async () => {
  const { test } = await openAccounts()
  const ids = [1, 2].map(() => test.store.createCell({ idempotency: keyed() }).id)
  expect(new Set(ids).size).toBe(2)
})

test('what is older than a day does not pile up', async () => {
  const { test, clock, a, create } = await openAccounts()
  for (let i = 0; i < 20; i++) {
    create(a, keyed({ key: `k${i}` }))
    clock.step(DAY_MS / 2)
  }
  expect(await keysKept(test)).toBeLessThanOrEqual(2)
})

test('what has expired is removed a few at a time, so that no creation pays for all of them', async () => {
  const { test, clock, a, b, create } = await openAccounts()
  for (let i = 0; i < 250; i++) create(a, keyed({ key: `k${i}` }))
  clock.step(DAY_MS)
  create(b, keyed())
  expect(await keysKept(test)).toBe(151)
})

describe('an account over its quota of idempotency keys', () => {
  const three = { idempotencyKeysMax: 3 }

  test('loses the oldest, whatever becomes of the cells', async () => {
    const { test, a, clock, create } = await openAccounts(three)
    const ids: string[] = []
    for (const key of ['1', '2', '3', '4']) {
      const { id } = create(a, keyed({ key }))
      ids.push(id)
      test.store.deleteCell(id)
      clock.step(1)
    }
    expect(create(a, keyed({ key: '2' })).id).toBe(ids[1])
    expect(create(a, keyed({ key: '4' })).id).toBe(ids[3])
    expect(create(a, keyed({ key: '1' })).replayed).toBeUndefined()
    expect(await keysKept(test)).toBe(3)
  })

  test('takes none of another account’s', async () => {
    const { test, a, b, create } = await openAccounts(three)
    const { id } = create(b, keyed())
    for (let i = 0; i < 10; i++) create(a, keyed({ key: `k${i}` }))
    expect(create(b, keyed()).id).toBe(id)
    expect(await keysKept(test)).toBe(4)
  })

  test('still repeats its newest request after the clock was set back', async () => {
    const { a, clock, create } = await openAccounts(three)
    for (let i = 0; i < 5; i++) create(a, keyed({ key: `k${i}` }))
    clock.step(-DAY_MS)
    const { id } = create(a, keyed({ key: 'newest' }))
    expect(create(a, keyed({ key: 'newest' })).id).toBe(id)
  })

  test('has the same bound after a restart, and for keys that had expired', async () => {
    const { test, a, clock, create } = await openAccounts(three)
    for (let i = 0; i < 3; i++) create(a, keyed({ key: `k${i}` }))
    await test.reopen()
    clock.step(DAY_MS)
    for (const key of ['k0', 'k1', 'x', 'y', 'z']) create(a, keyed({ key }))
    expect(await keysKept(test)).toBe(3)
  })
})

/** Closes the store. */
async function keysKept({ store, directory }: TestStore): Promise<number> {
  await store.close()
  const catalog = new Database(`${directory}/catalog.db`)
  const count = catalog.prepare('SELECT count(*) FROM idempotency').pluck().get() as number
  catalog.close()
  return count
}
