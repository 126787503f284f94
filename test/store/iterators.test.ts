import { expect, test } from 'vitest'
import { ScratchPlace } from '../support/backup/scratch-store.ts'
import { openTestCell, openTestStore } from '../support/open-test-store.ts'
import { codeOf } from '../support/thrown.ts'

async function all<T>(entries: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const entry of entries) found.push(entry)
  return found
}

test('kv.keys and kv.list go through every page, in order, and in both directions', async () => {
  const { kv } = (await openTestCell()).cell
  const keys = Array.from({ length: 25 }, (_, i) => `k${String(i).padStart(2, '0')}`)
  kv.put(keys.map((key) => ({ key, value: `value of ${key}` })))
  kv.put('other', 'v')
  for (const limit of [1, 7, 25, 100]) {
    expect(await all(kv.keys({ prefix: 'k', limit }))).toEqual(keys)
    expect(await all(kv.keys({ prefix: 'k', limit, reverse: true }))).toEqual(keys.toReversed())
    const entries = await all(kv.list({ prefix: 'k', limit }))
    expect(entries).toEqual(kv.entry(keys))
  }
  expect(await all(kv.keys({ prefix: 'none' }))).toEqual([])
  expect(codeOf(() => kv.keys({ limit: 0 }))).toBe('invalid_request')
})

test('kv.keys can be left early, and sees what is put meanwhile behind its place', async () => {
  const { kv } = (await openTestCell()).cell
  kv.put(['a', 'c', 'e'].map((key) => ({ key, value: 'v' })))
  const seen: string[] = []
  for await (const key of kv.keys({ limit: 1 })) {
    seen.push(key)
    if (key === 'a') kv.put('b', 'v')
    if (key === 'c') break
  }
  expect(seen).toEqual(['a', 'b', 'c'])
})

test('a page is the same with and without its iterator', async () => {
  const { store, cell } = await openTestCell()
  cell.kv.put('k', 'v')
  expect(Object.keys(cell.kv.list())).toEqual(['entries', 'nextCursor'])
  expect(structuredClone(store.cells())).toEqual({
    cells: [{ ...store.findCell(cell.id), sizeBytes: cell.sizeBytes }],
    nextCursor: null,
  })
})

test('store.cells goes through all cells, of all accounts or of one', async () => {
  const { store } = await openTestStore()
  const { id: accountId } = store.accounts.create()
  const ids = Array.from({ length: 7 }, (_, i) => store.createCell(i % 2 === 0 ? { accountId } : {}).id)
  expect((await all(store.cells({ limit: 2 }))).map(({ id }) => id)).toEqual(ids)
  const own = await all(store.cells({ limit: 3, accountId }))
  expect(own.map(({ id }) => id)).toEqual(ids.filter((_, i) => i % 2 === 0))
})

test('store.backups.list goes through all versions, and is a page if it is awaited', async () => {
  const place = new ScratchPlace()
  const store = await place.create()
  const cell = store.createCell()
  const versions: string[] = []
  for (let i = 0; i < 5; i++) {
    cell.kv.put('k', String(i))
    versions.unshift((await store.backups.incremental(cell.id)).version)
    place.clock.step(1_000)
  }
  expect((await all(store.backups.list(cell.id, { limit: 2 }))).map(({ version }) => version)).toEqual(
    versions,
  )
  expect((await store.backups.list(cell.id, { limit: 2 })).backups).toHaveLength(2)
  await expect(all(store.backups.list('none'))).rejects.toMatchObject({ code: 'cell_not_found' })
  for (const options of [null, [], 'all'])
    await expect(store.backups.list(cell.id, options as object)).rejects.toMatchObject({
      code: 'invalid_request',
    })
})
