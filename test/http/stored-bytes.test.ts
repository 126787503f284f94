import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { StoredBytes } from '../../src/http/quotas/stored-bytes.ts'
import { openTestStore } from '../support/open-test-store.ts'

test('A question measures a hundred of the cells that changed a second ago, the oldest change first, and none twice', async () => {
  const { store, clock } = await openTestStore()
  const measured: string[] = []
  store.storedBytes = (id) => measured.push(id)
  const stored = new StoredBytes(store)
  const account = store.accounts.create().id
  const cells = Array.from({ length: 250 }, (_, i) => `cell ${i}`)
  for (const cell of cells) stored.changed(account, cell)
  const asked = () => {
    measured.length = 0
    stored.of(account)
    return [...measured]
  }
  expect(asked()).toEqual([])
  clock.advance(1_000)
  for (const expected of [cells.slice(0, 100), cells.slice(100, 200), cells.slice(200), []])
    expect(asked()).toEqual(expected)
})

test('A cell whose files cannot be read counts as before, and holds up neither its account nor the count of its other cells', async () => {
  const { store, clock } = await openTestStore()
  const account = store.accounts.create().id
  const [first, unreadable, last] = [1, 2, 3].map(() => store.createCell({ accountId: account }).id) as [
    string,
    string,
    string,
  ]
  const stored = new StoredBytes(store)
  const settled = async () => {
    stored.of(account)
    await setImmediate()
    return stored.of(account)
  }
  const bytes = store.storedBytes(first)
  expect(await settled()).toBe(3 * bytes)
  const storedBytes = store.storedBytes.bind(store)
  store.storedBytes = (id) => {
    if (id !== unreadable) return storedBytes(id)
    throw Object.assign(new Error('EIO: i/o error, stat'), { code: 'EIO', syscall: 'stat' })
  }
  stored.changed(account, unreadable)
  stored.changed(account, last)
  clock.advance(1_000)
  expect(stored.of(account)).toBe(3 * bytes)
  stored.forget(account)
  expect(await settled()).toBe(2 * bytes)
})
