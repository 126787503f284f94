import {
  createStorage,
  prefixStorage,
  restoreSnapshot,
  type Storage,
  type StorageValue,
  snapshot,
} from 'unstorage'
import { expect, test } from 'vitest'
import { cellDriver } from '../../src/adapters/unstorage.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { codeOf, rejectedBy } from '../support/thrown.ts'

async function openStorage() {
  const { cell, clock } = await openTestCell()
  return { cell, clock, storage: createStorage({ driver: cellDriver(cell) }) }
}

const keysOf = (cell: Cell) => cell.kv.list().entries.map(({ key }) => key)

test('items are set, found, listed and removed, with their values as JSON holds them', async () => {
  const { storage } = await openStorage()
  const values = ['text', 7, 0, false, null, { deep: [1] }, [], '']
  for (const [i, value] of values.entries()) {
    await storage.setItem(`s:${i}`, value)
    expect(await storage.getItem(`s:${i}`)).toEqual(value)
  }
  expect([await storage.hasItem('s:0'), await storage.hasItem('s:9'), await storage.getItem('s:9')]).toEqual([
    ...[true, false, null],
  ])
  await storage.setItemRaw('raw', new Uint8Array([0, 255]))
  expect([...(await storage.getItemRaw('raw'))]).toEqual([0, 255])
  await storage.removeItem('s:0')
  await storage.setItem('s:1', undefined as never)
  expect(await storage.getKeys('s')).toEqual(['s:2', 's:3', 's:4', 's:5', 's:6', 's:7'])
  expect((await storage.getKeys()).length).toBe(7)
  expect(await storage.getKeys('', { maxDepth: 0 })).toEqual(['raw'])
  class Unknown {}
  await expect(storage.setItem('x', new Unknown())).rejects.toThrow('Cannot stringify')
})

test('several items are read at once, and set all or none', async () => {
  const { cell, storage } = await openStorage()
  await storage.setItems<StorageValue>([
    { key: 't:1', value: 'one' },
    { key: 't/2', value: { two: 2 }, options: { ttl: 60 } },
  ])
  expect(await storage.getItems(['t:2', { key: 't:1' }, 'none'])).toEqual([
    { key: 't:2', value: { two: 2 } },
    { key: 't:1', value: 'one' },
    { key: 'none', value: null },
  ])
  const tooLong = { key: 'k'.repeat(2_000), value: 'x' }
  expect((await rejectedBy(storage.setItems([{ key: 'a', value: 'x' }, tooLong]))).code).toBe('invalid_key')
  expect(keysOf(cell)).toEqual(['t:1', 't:2'])
})

test('a time to live is exact to the millisecond, of an item or of all', async () => {
  const { cell, clock, storage } = await openStorage()
  await storage.setItem('a', 1, { ttl: 0.0105 })
  await storage.setItem('b', 1, { ttl: 0 })
  clock.advance(10)
  expect([await storage.getItem('a'), await storage.getMeta('a')]).toMatchObject([1, { ttl: 1 }])
  clock.advance(1)
  expect([await storage.getItem('a'), await storage.hasItem('a'), await storage.getMeta('a')]).toEqual([
    ...[null, false, {}],
  ])
  expect(cell.kv.ttl('b')).toBe(-1)
  const hour = createStorage({ driver: cellDriver(cell, { base: 'h', ttl: 3_600 }) })
  await hour.setItem('a', 1)
  await hour.setItem('b', 1, { ttl: 60 })
  await hour.setItem('c', 1, { ttl: 0 })
  expect(cell.kv.ttl(['h:a', 'h:b', 'h:c'])).toEqual([3_600, 60, -1])
  expect((await rejectedBy(storage.setItem('a', 1, { ttl: -1 }))).code).toBe('invalid_ttl')
})

test('a base keeps drivers, and the other entries of the cell, apart', async () => {
  const { cell } = await openTestCell()
  cell.kv.put('session/1', 'Ann')
  const storage = createStorage({ driver: cellDriver(cell, { base: 'cache' }) })
  storage.mount('other', cellDriver(cell, { base: 'other:' }))
  await storage.setItem('a:1', 1)
  await storage.setItem('b', 1)
  await storage.setItem('other:a', 1)
  expect(keysOf(cell)).toEqual(['cache:a:1', 'cache:b', 'other:a', 'session/1'])
  await storage.clear('other')
  expect((await storage.getKeys()).sort()).toEqual(['a:1', 'b'])
  await storage.clear()
  expect(keysOf(cell)).toEqual(['session/1'])
  // More than a page of a listing.
  const items = Array.from({ length: 250 }, (_, i) => ({ key: `n:${i}`, value: i }))
  await storage.setItems(items)
  expect((await storage.getKeys('n')).length).toBe(250)
  await storage.clear()
  expect(keysOf(cell)).toEqual(['session/1'])
})

test('a condition keeps two writers from losing a change', async () => {
  const { storage } = await openStorage()
  await storage.setItem('lock', 'a', { ifNoneMatch: '*' })
  expect((await rejectedBy(storage.setItem('lock', 'b', { ifNoneMatch: '*' }))).code).toBe(
    'precondition_failed',
  )
  const { etag } = await storage.getMeta('lock')
  await storage.setItem('lock', 'c', { ifMatch: etag })
  expect((await rejectedBy(storage.setItem('lock', 'd', { ifMatch: etag }))).code).toBe('precondition_failed')
  expect((await rejectedBy(storage.setItem('none', 'd', { ifMatch: '*' }))).code).toBe('precondition_failed')
  expect((await rejectedBy(storage.setItem('lock', 'd', { ifNoneMatch: etag }))).code).toBe('invalid_request')
  expect(await storage.getItem('lock')).toBe('c')
})

test('snapshots, prefixes and metadata of unstorage work', async () => {
  const { storage } = await openStorage()
  const users: Storage = prefixStorage(storage, 'users')
  await restoreSnapshot(users, { ann: 'Ann', bob: 'Bob' })
  expect(await snapshot(storage, 'users')).toEqual({ ann: 'Ann', bob: 'Bob' })
  await users.setMeta('ann', { mtime: new Date(0), note: 'x' })
  expect(await users.getMeta('ann')).toMatchObject({
    mtime: new Date(0),
    note: 'x',
    etag: expect.any(String),
  })
})

test('an option that is not known is refused: without its base a driver clears all of the cell', async () => {
  const { cell } = await openTestCell()
  expect(codeOf(() => cellDriver(cell, { bse: 'cache' } as never))).toBe('invalid_request')
})
