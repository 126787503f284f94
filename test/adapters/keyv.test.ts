import keyvTestSuite, { keyvIteratorTests } from '@keyv/test-suite'
import { Keyv } from 'keyv'
import { Keyv as Keyv5 } from 'keyv-5'
import * as vitest from 'vitest'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { KeyvCell } from '../../src/adapters/keyv.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import { temporaryStore } from '../../src/testing/index.ts'
import { FakeClock, TEST_EPOCH_MS } from '../support/fake-clock.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { rejectedBy } from '../support/thrown.ts'

/** Both majors in the type of one: what is called here is the same. */
const MAJORS = [
  ['Keyv 5', Keyv5 as unknown as typeof Keyv],
  ['Keyv 6', Keyv],
] as const

// Keyv's own suite: https://github.com/jaredwray/keyv, of the version for Keyv 5, the newest that is published.
describe.each(MAJORS)('the test suite of Keyv, with %s', (_, AnyKeyv) => {
  let cell: Cell
  vitest.beforeAll(async () => {
    const { store, close } = await temporaryStore()
    cell = store.createCell()
    return close
  })
  // Keyv 6 gives a list here, whatever its store does.
  const other = AnyKeyv === Keyv ? '.deleteMany([keys]) with nonexistent keys resolves to false' : undefined
  const it = ((name: string, run: () => unknown) =>
    name === other ? vitest.test.skip(name) : vitest.test(name, run)) as typeof vitest.it
  keyvTestSuite({ ...vitest, it }, AnyKeyv as never, () => new KeyvCell(cell))
  keyvIteratorTests(vitest, AnyKeyv as never, () => new KeyvCell(cell))
})

async function openCellAtFakeTime() {
  const clock = new FakeClock()
  const { cell } = await openTestCell({ clock })
  vi.useFakeTimers({ toFake: ['Date'], now: TEST_EPOCH_MS })
  onTestFinished(() => void vi.useRealTimers())
  const advance = (ms: number) => {
    clock.advance(ms)
    vi.setSystemTime(clock.now())
  }
  return { cell, advance }
}

describe.each(MAJORS)('%s', (_, AnyKeyv) => {
  test('an entry is gone at exactly the millisecond at which its time comes', async () => {
    const { cell, advance } = await openCellAtFakeTime()
    const keyv = new AnyKeyv({ store: new KeyvCell(cell), namespace: 'n' })
    await keyv.set('a', 1, 1_500)
    await keyv.set('b', 2)
    expect(cell.kv.entry('n:a')?.expiresAt).toBe(TEST_EPOCH_MS + 1_500)
    advance(1_499)
    expect([await keyv.get('a'), await keyv.has('a')]).toEqual([1, true])
    advance(1)
    expect([cell.kv.get('n:a'), await keyv.has('a'), await keyv.get('a')]).toEqual([
      undefined,
      false,
      undefined,
    ])
    expect(await keyv.get('b')).toBe(2)
  })

  test('several entries are set, read and deleted at once, each with its own time', async () => {
    const { cell, advance } = await openCellAtFakeTime()
    const keyv = new AnyKeyv({ store: new KeyvCell(cell), namespace: 'n', ttl: 5_000 })
    await keyv.setMany<unknown>([
      { key: 'a', value: 1, ttl: 100 },
      { key: 'b', value: { deep: [2] } },
    ])
    expect(await keyv.getMany(['a', 'none', 'b'])).toEqual([1, undefined, { deep: [2] }])
    advance(100)
    expect(await keyv.has(['a', 'b'])).toEqual([false, true])
    expect(cell.kv.entry('n:b')?.expiresAt).toBe(TEST_EPOCH_MS + 5_000)
    expect(await keyv.delete(['a', 'b'])).toEqual(AnyKeyv === Keyv ? [false, true] : true)
    expect(cell.kv.list().entries).toEqual([])
  })

  test('a namespace is cleared and iterated without touching another, nor the other entries of the cell', async () => {
    const { cell } = await openTestCell()
    const [users, posts] = ['users', 'posts'].map(
      (namespace) => new AnyKeyv({ store: new KeyvCell(cell), namespace }),
    ) as [Keyv, Keyv]
    cell.kv.put('session/1', 'Ann')
    cell.kv.put('users', 'Bob')
    // More than a page of a listing.
    await users.setMany(Array.from({ length: 250 }, (_, i) => ({ key: `${i}`, value: i })))
    await posts.set('1', 'a post')
    const seen = new Map<string, number>()
    for await (const [key, value] of (users as unknown as Keyv5).iterator?.(undefined) ?? [])
      seen.set(key, value)
    expect([seen.size, seen.get('0'), seen.get('249')]).toEqual([250, 0, 249])
    await users.clear()
    const left = cell.kv.list().entries.map(({ key }) => key)
    expect(left).toEqual(['posts:1', 'session/1', 'users'])
    expect([await users.has('0'), await posts.get('1')]).toEqual([false, 'a post'])
  })

  test('what the cell refuses is an error that Keyv emits', async () => {
    const { cell } = await openTestCell({ limits: { valueBytesMax: 100 } })
    const keyv = new AnyKeyv({ store: new KeyvCell(cell) })
    const errors: unknown[] = []
    keyv.on('error', (error) => errors.push(error))
    await keyv.set('a', 'x'.repeat(200))
    await keyv.set('k'.repeat(2_000), 1)
    await keyv.set('b', 1, 4e12)
    await keyv.set('c', 1)
    expect(errors).toMatchObject([
      { code: 'value_too_large' },
      { code: 'invalid_key' },
      { code: 'invalid_ttl' },
    ])
    expect([await keyv.get('a'), await keyv.get('b'), await keyv.get('c')]).toEqual([undefined, undefined, 1])
  })
})

test('both majors find each other’s entries', async () => {
  const { cell } = await openTestCell()
  const [five, six] = MAJORS.map(([, AnyKeyv]) => new AnyKeyv({ store: new KeyvCell(cell), namespace: 'n' }))
  await five?.set('a', { by: 5 })
  await six?.set('b', { by: 6 }, 60_000)
  expect([await six?.get('a'), await five?.get('b')]).toEqual([{ by: 5 }, { by: 6 }])
})

test('a moment that has passed deletes the entry, and one with parts of a millisecond is not too early', async () => {
  const { cell, advance } = await openCellAtFakeTime()
  const keyv = new Keyv({ store: new KeyvCell(cell), namespace: 'n' })
  await keyv.set('a', 1)
  await keyv.setRaw('a', { value: 2, expires: TEST_EPOCH_MS })
  expect([cell.kv.get('n:a'), await keyv.get('a')]).toEqual([undefined, undefined])
  await keyv.setRaw('a', { value: 3, expires: TEST_EPOCH_MS + 9.5 })
  advance(9)
  expect(await keyv.get('a')).toBe(3)
  advance(1)
  expect(await keyv.get('a')).toBeUndefined()
  const five = new Keyv5({ store: new KeyvCell(cell), namespace: 'n' })
  await five.set('b', 1)
  await five.set('b', 2, -1)
  expect(cell.kv.get('n:b')).toBeUndefined()
})

test('several entries are set all or none', async () => {
  const { cell } = await openTestCell()
  const store = new KeyvCell(cell)
  const entries = [
    { key: 'a', value: '1' },
    { key: '', value: '2' },
  ]
  expect((await rejectedBy(store.setMany(entries))).code).toBe('invalid_key')
  expect(await store.get('a')).toBeUndefined()
  expect(await store.setMany([])).toEqual([])
  expect((await rejectedBy(store.set('a', { no: 'text' } as never))).code).toBe('invalid_request')
})
