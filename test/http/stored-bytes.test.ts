import { expect, test } from 'vitest'
import { StoredBytes } from '../../src/http/stored-bytes.ts'
import { openTestStore } from '../support/open-test-store.ts'

test('A question measures a hundred of the cells that changed a second ago, the oldest change first, and none twice', async () => {
  const { store, clock } = await openTestStore()
  const measured: string[] = []
  store.databaseBytes = (id) => measured.push(id)
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
