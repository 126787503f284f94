import { describe, expect, test } from 'vitest'
import { openTestCell } from '../support/open-test-store.ts'
import { codeOf } from '../support/thrown.ts'

const ANY = expect.any(String)

describe('a list of keys', () => {
  test('answers in the order it was asked, with duplicates and gaps', async () => {
    const { clock, cell } = await openTestCell()
    cell.kv.put('a', '1', { ttlSeconds: 9 })
    cell.kv.put('b', '2')
    const a = { key: 'a', value: '1', version: ANY, ttlSeconds: 9, expiresAt: clock.now() + 9_000 }
    const b = { key: 'b', value: '2', version: ANY, ttlSeconds: -1, expiresAt: null }
    expect(cell.kv.entry(['b', 'none', 'a', 'b'])).toEqual([b, undefined, a, b])
    expect(cell.kv.entry([])).toEqual([])
    expect(cell.kv.get(['b', 'none', 'a', 'b'])).toEqual(['2', undefined, '1', '2'])
    expect(cell.kv.ttl(['b', 'none', 'a', 'b'])).toEqual([-1, null, 9, -1])
  })

  test('gets the results that each key gets alone', async () => {
    const { kv } = (await openTestCell()).cell
    kv.put('a', '1', { ttlSeconds: 9 })
    for (const key of ['a', 'none']) {
      expect(kv.get([key])).toEqual([kv.get(key)])
      expect(kv.entry([key])).toEqual([kv.entry(key)])
      expect(kv.ttl([key])).toEqual([kv.ttl(key)])
    }
    const [listed] = kv.list().entries
    expect(listed).toEqual(kv.entry('a'))
  })
})

describe('a list of entries', () => {
  test('puts every entry, each with its own time to live or none', async () => {
    const { clock, cell } = await openTestCell()
    cell.kv.put('a', 'old', { ttlSeconds: 100 })
    expect(
      cell.kv.put([
        { key: 'a', value: '1' },
        { key: 'b', value: '2', ttlSeconds: 5 },
        { key: 'c', value: '3', ttlMs: 1 },
      ]),
    ).toEqual([
      { key: 'a', created: false, version: ANY, ttlSeconds: -1, expiresAt: null },
      { key: 'b', created: true, version: ANY, ttlSeconds: 5, expiresAt: clock.now() + 5_000 },
      { key: 'c', created: true, version: ANY, ttlSeconds: 1, expiresAt: clock.now() + 1 },
    ])
    expect(cell.kv.ttl(['a', 'b', 'c'])).toEqual([-1, 5, 1])
    expect(cell.kv.put([])).toEqual([])
  })

  test('with the same key twice leaves the last', async () => {
    const { kv } = (await openTestCell()).cell
    expect(
      kv.put([
        { key: 'a', value: '1', ttlSeconds: 5 },
        { key: 'a', value: '2' },
      ]),
    ).toMatchObject([{ created: true }, { created: false }])
    expect(kv.entry('a')).toMatchObject({ value: '2', ttlSeconds: -1 })
  })

  test('puts all or none: a bad entry, and one that does not fit', async () => {
    const { kv } = (await openTestCell({ limits: { cellBytesMax: 262_144 } })).cell
    kv.put('a', 'before')
    const bad = [
      { key: 'a', value: 'after' },
      { key: '', value: 'x' },
    ]
    expect(codeOf(() => kv.put(bad))).toBe('invalid_key')
    const large = [
      { key: 'a', value: 'after' },
      { key: 'b', value: 'x'.repeat(400_000) },
      { key: 'c', value: 'x' },
    ]
    expect(codeOf(() => kv.put(large))).toBe('cell_full')
    expect(kv.list().entries.map(({ key, value }) => [key, value])).toEqual([['a', 'before']])
  })

  test('inside a transaction is undone alone, or with it', async () => {
    const { cell } = await openTestCell()
    cell.transaction(() => {
      cell.kv.put('before', 'v')
      expect(
        codeOf(() =>
          cell.kv.put([
            { key: 'a', value: 'v' },
            { key: 'b', value: 'v', ttlSeconds: 0 },
          ]),
        ),
      ).toBe('invalid_ttl')
      cell.kv.put([{ key: 'c', value: 'v' }])
    })
    expect(cell.kv.list().entries.map(({ key }) => key)).toEqual(['before', 'c'])
    expect(() =>
      cell.transaction(() => {
        cell.kv.put([{ key: 'd', value: 'v' }])
        cell.kv.delete(['c'])
        throw new Error('undo')
      }),
    ).toThrow('undo')
    expect(cell.kv.list().entries.map(({ key }) => key)).toEqual(['before', 'c'])
  })
})

describe('the deletion of a list of keys', () => {
  test('tells for each key whether there was a live entry', async () => {
    const { clock, cell } = await openTestCell()
    cell.kv.put(['a', 'b', 'c'].map((key) => ({ key, value: 'v' })))
    cell.kv.put('gone', 'v', { ttlSeconds: 1 })
    clock.step(1_000)
    expect(cell.kv.delete(['a', 'b', 'a', 'none', 'gone'])).toEqual([true, true, false, false, false])
    expect(cell.kv.delete([])).toEqual([])
    expect(cell.kv.list().entries.map(({ key }) => key)).toEqual(['c'])
  })
})
