import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { openConnection } from '../../src/engine/sqlite.ts'
import { CellError } from '../../src/errors.ts'
import { openTestStore } from '../support/open-test-store.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { codeOf, thrownBy } from '../support/thrown.ts'

/** Runs until it is refused because the catalog is full. */
function untilFull<T>(make: () => T): T[] {
  const made: T[] = []
  for (;;) {
    try {
      made.push(make())
    } catch (error) {
      if (error instanceof CellError && error.code === 'cell_full') return made
      throw error
    }
  }
}

describe('In a full catalog', () => {
  test('every key can be revoked', async () => {
    const { store } = await openTestStore({ limits: { cellBytesMax: 262_144 } })
    const account = store.accounts.create().id
    const keys = untilFull(() => store.apiKeys.create(account, { name: 'n'.repeat(40) }))
    expect(keys.length).toBeGreaterThan(300)
    for (const { id } of keys) store.apiKeys.revoke(account, id)
    for (const { key } of keys) expect(codeOf(() => store.apiKeys.verify(key))).toBe('unauthorized')
  })

  test('every cell can be deleted', async () => {
    const { store } = await openTestStore({ limits: { cellBytesMax: 131_072 } })
    const account = store.accounts.create().id
    const cells = untilFull(() => store.createCell({ accountId: account }))
    expect(cells.length).toBeGreaterThan(100)
    for (const { id } of cells) store.deleteCell(id)
    expect(store.cells().cells).toEqual([])
  })
})

describe('An account has no more than its quota', () => {
  test('of API keys; a revoked one makes room', async () => {
    const { store } = await openTestStore({ quotas: { apiKeysMax: 3 } })
    const [account, other] = [store.accounts.create().id, store.accounts.create().id]
    const keys = [1, 2, 3].map(() => store.apiKeys.create(account))
    const error = thrownBy(() => store.apiKeys.create(account))
    expect(error).toMatchObject({ code: 'quota_exceeded', details: { limit: 3, usage: 3 } })
    expect(error.message).toMatch(/has 3 active API keys; quotas\.apiKeysMax is 3/)
    store.apiKeys.create(other)
    store.apiKeys.revoke(account, keys[0]?.id as string)
    store.apiKeys.create(account)
  })

  test('of revoked API keys in the catalog: the oldest are forgotten, and stay refused', async () => {
    const { store } = await openTestStore({ quotas: { apiKeysMax: 2 } })
    const account = store.accounts.create().id
    const keys = [1, 2, 3, 4].map(() => {
      const created = store.apiKeys.create(account)
      store.apiKeys.revoke(account, created.id)
      return created
    })
    for (const { key } of keys) expect(codeOf(() => store.apiKeys.verify(key))).toBe('unauthorized')
    const [first, , , last] = keys
    expect(codeOf(() => store.apiKeys.revoke(account, first?.id as string))).toBe('api_key_not_found')
    expect(store.apiKeys.revoke(account, last?.id as string).id).toBe(last?.id)
  })

  test('of cells; a deleted one makes room, a repeated creation needs none, and cells of no account are not counted', async () => {
    const test = await openTestStore({ quotas: { cellsMax: 2 } })
    const { store } = test
    const account = store.accounts.create().id
    const idempotency = { method: 'POST', path: '/', key: 'k', fingerprint: 'f' }
    const first = store.createCell({ accountId: account, idempotency })
    store.createCell({ accountId: account })
    const error = thrownBy(() => store.createCell({ accountId: account }))
    expect(error).toMatchObject({ code: 'quota_exceeded', details: { limit: 2, usage: 2 } })
    expect(error.message).toMatch(/has 2 cells; quotas\.cellsMax is 2/)
    expect(store.createCell({ accountId: account, idempotency }).id).toBe(first.id)
    for (let i = 0; i < 3; i++) store.createCell()
    store.deleteCell(first.id)
    store.createCell({ accountId: account })
    expect(codeOf(() => store.createCell({ accountId: account }))).toBe('quota_exceeded')
    const again = await test.reopen()
    expect(codeOf(() => again.createCell({ accountId: account }))).toBe('quota_exceeded')
  })
})

test('An account that makes cells and keys faster than its rate waits, and no other does', async () => {
  const { store, clock } = await openTestStore({ quotas: { creationsPerSecond: 1 } })
  const [account, other] = [store.accounts.create().id, store.accounts.create().id]
  for (let i = 0; i < 5; i++) {
    store.createCell({ accountId: account })
    store.apiKeys.create(account)
  }
  const error = thrownBy(() => store.apiKeys.create(account))
  expect(error).toMatchObject({ code: 'rate_limited', details: { limit: 1, usage: 10, retryAfterMs: 1_000 } })
  expect(error.message).toContain('quotas.creationsPerSecond')
  expect(codeOf(() => store.createCell({ accountId: account }))).toBe('rate_limited')
  store.createCell({ accountId: other })
  clock.advance(1_000)
  store.createCell({ accountId: account })
})

describe('All accounts together', () => {
  test('create only so many cells and keys; one that has created little still can, and hears nothing of the others', async () => {
    const { store, clock } = await openTestStore({
      quotas: { creationsPerSecond: 1, nodeCreationsPerSecond: 2 },
    })
    const [greedy, greedier, quiet] = [1, 2, 3].map(() => store.accounts.create().id) as [
      string,
      string,
      string,
    ]
    for (const account of [greedy, greedier]) {
      for (let i = 0; i < 5; i++) store.apiKeys.create(account)
    }
    store.apiKeys.create(greedy)
    const error = thrownBy(() => store.createCell({ accountId: greedy }))
    expect(error).toMatchObject({ code: 'busy', details: { limit: 2, usage: 6, retryAfterMs: 1_000 } })
    expect(error.message).toContain('quotas.nodeCreationsPerSecond is 2')
    for (let i = 0; i < 5; i++) store.createCell({ accountId: quiet })
    clock.advance(5_000)
    store.createCell({ accountId: greedier })
  })
})

describe('Deleted cells', () => {
  test('are remembered up to the quota: the catalog does not grow with each', async () => {
    const test = await openTestStore({ quotas: { cellsMax: 2 } })
    const { store } = test
    const [account, other] = [store.accounts.create().id, store.accounts.create().id]
    const create = (accountId: string) => {
      const { id } = store.createCell({ accountId })
      store.deleteCell(id)
      return id
    }
    const others = create(other)
    const deleted = [1, 2, 3, 4].map(() => create(account))
    expect(deleted.map((id) => store.findCell(id)?.deletedAt != null)).toEqual([false, false, true, true])
    expect(store.findCell(others)).toBeDefined()
    const again = await test.reopen()
    expect(deleted.map((id) => again.findCell(id) !== undefined)).toEqual([false, false, true, true])
  })

  test('are remembered in the catalog of an earlier version too, which lacks what this needs', async () => {
    const test = await openTestStore({ quotas: { cellsMax: 1 } })
    const account = test.store.accounts.create().id
    await test.store.close()
    const catalog = openConnection(new StorePaths(test.directory).catalog)
    catalog.exec('DROP INDEX deleted_cells; DROP TABLE requested_backups')
    catalog.close()
    const store = await test.reopen()
    const deleted = [1, 2].map(() => {
      const { id } = store.createCell({ accountId: account })
      store.deleteCell(id)
      return id
    })
    expect(deleted.map((id) => store.findCell(id) !== undefined)).toEqual([false, true])
    expect(store.requestedBackups.of(account)).toBe(0)
  })

  test('that are forgotten come back from their backups, to their own account alone', async () => {
    const objectStore = `file://${path.join(tempDirectory(), 'objects')}`
    const { store } = await openTestStore({ quotas: { cellsMax: 1 }, objectStore })
    const [account, other] = [store.accounts.create().id, store.accounts.create().id]
    const { id } = store.createCell({ accountId: account, name: 'first' })
    store.openCell(id).kv.put('k', 'v')
    await store.backups.snapshot(id)
    store.deleteCell(id)
    store.deleteCell(store.createCell({ accountId: account }).id)
    expect(store.findCell(id)).toBeUndefined()
    await expect(store.backups.restore(id, { accountId: other })).rejects.toMatchObject({
      code: 'cell_not_found',
    })
    await store.backups.restore(id, { accountId: account })
    expect(store.openCell(id).kv.get('k')).toBe('v')
    expect(store.findCell(id)).toMatchObject({ accountId: account, name: 'first', deletedAt: null })
  })

  test('that are forgotten are not made a second time by a repeated creation', async () => {
    const { store } = await openTestStore({ quotas: { cellsMax: 1 } })
    const account = store.accounts.create().id
    const idempotency = { method: 'POST', path: '/', key: 'k', fingerprint: 'f' }
    const first = store.createCell({ accountId: account, idempotency })
    store.deleteCell(first.id)
    store.deleteCell(store.createCell({ accountId: account }).id)
    expect(store.findCell(first.id)).toBeUndefined()
    expect(codeOf(() => store.createCell({ accountId: account, idempotency }))).toBe('cell_not_found')
  })
})

test('A quota that makes no sense is refused by its name', async () => {
  await expect(openTestStore({ quotas: { cellsMax: 0 } })).rejects.toMatchObject({
    code: 'invalid_setting',
    details: { field: 'quotas.cellsMax' },
  })
})
