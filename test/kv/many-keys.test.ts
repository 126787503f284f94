import { describe, expect, test } from 'vitest'
import { openTestCell } from '../support/open-test-store.ts'
import { codeOf } from '../support/thrown.ts'

describe('mget', () => {
  test('answers in the order it was asked, with duplicates and gaps', async () => {
    const { clock, cell } = await openTestCell()
    cell.kv.put('a', '1', { ttlSeconds: 9 })
    cell.kv.put('b', '2')
    const a = { key: 'a', value: '1', ttlSeconds: 9, expiresAt: clock.now() + 9_000 }
    const b = { key: 'b', value: '2', ttlSeconds: -1, expiresAt: null }
    expect(cell.kv.mget(['b', 'none', 'a', 'b'])).toEqual([b, undefined, a, b])
    expect(cell.kv.mget([])).toEqual([])
  })
})

describe('mset', () => {
  test('puts every entry, each with its own time to live or none', async () => {
    const { cell } = await openTestCell()
    cell.kv.put('a', 'old', { ttlSeconds: 100 })
    expect(
      cell.kv.mset([
        { key: 'a', value: '1' },
        { key: 'b', value: '2', ttlSeconds: 5 },
        { key: 'c', value: '3', ttlMs: 1 },
      ]),
    ).toBe(3)
    expect(cell.kv.ttl(['a', 'b', 'c'])).toEqual([-1, 5, 1])
    expect(cell.kv.mset([])).toBe(0)
  })

  test('with the same key twice leaves the last', async () => {
    const { kv } = (await openTestCell()).cell
    expect(
      kv.mset([
        { key: 'a', value: '1', ttlSeconds: 5 },
        { key: 'a', value: '2' },
      ]),
    ).toBe(2)
    expect(kv.entry('a')).toMatchObject({ value: '2', ttlSeconds: -1 })
  })

  test('puts all or none: a bad entry, and one that does not fit', async () => {
    const { kv } = (await openTestCell({ limits: { cellBytesMax: 262_144 } })).cell
    kv.put('a', 'before')
    const bad = [
      { key: 'a', value: 'after' },
      { key: '', value: 'x' },
    ]
    expect(codeOf(() => kv.mset(bad))).toBe('invalid_key')
    const large = [
      { key: 'a', value: 'after' },
      { key: 'b', value: 'x'.repeat(400_000) },
      { key: 'c', value: 'x' },
    ]
    expect(codeOf(() => kv.mset(large))).toBe('cell_full')
    expect(kv.list().entries.map(({ key, value }) => [key, value])).toEqual([['a', 'before']])
  })

  test('inside a transaction is undone alone, or with it', async () => {
    const { cell } = await openTestCell()
    cell.transaction(() => {
      cell.kv.put('before', 'v')
      expect(
        codeOf(() =>
          cell.kv.mset([
            { key: 'a', value: 'v' },
            { key: 'b', value: 'v', ttlSeconds: 0 },
          ]),
        ),
      ).toBe('invalid_ttl')
      cell.kv.mset([{ key: 'c', value: 'v' }])
    })
    expect(cell.kv.list().entries.map(({ key }) => key)).toEqual(['before', 'c'])
    expect(() =>
      cell.transaction(() => {
        cell.kv.mset([{ key: 'd', value: 'v' }])
        cell.kv.deleteMany(['c'])
        throw new Error('undo')
      }),
    ).toThrow('undo')
    expect(cell.kv.list().entries.map(({ key }) => key)).toEqual(['before', 'c'])
  })
})

describe('deleteMany', () => {
  test('counts the live entries that it deleted', async () => {
    const { clock, cell } = await openTestCell()
    cell.kv.mset(['a', 'b', 'c'].map((key) => ({ key, value: 'v' })))
    cell.kv.put('gone', 'v', { ttlSeconds: 1 })
    clock.step(1_000)
    expect(cell.kv.deleteMany(['a', 'b', 'a', 'none', 'gone'])).toBe(2)
    expect(cell.kv.deleteMany([])).toBe(0)
    expect(cell.kv.list().entries.map(({ key }) => key)).toEqual(['c'])
  })
})
