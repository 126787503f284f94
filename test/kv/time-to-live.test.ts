import { describe, expect, test } from 'vitest'
import type { Kv } from '../../src/kv/kv.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { codeOf, thrownBy } from '../support/thrown.ts'

const YEAR_MS = 365 * 24 * 3_600_000

/** Every way in which an entry can be seen: all of them must agree on whether it is there. */
function sightings(
  cell: { kv: Kv; sql: (sql: string, params: string[]) => { rows: unknown[] } },
  key: string,
): boolean[] {
  const { kv } = cell
  return [
    kv.get(key) !== undefined,
    kv.entry(key) !== undefined,
    kv.getJson(key) !== undefined,
    kv.entry([key])[0] !== undefined,
    kv.ttl([key])[0] !== null,
    kv.list().entries.some((entry) => entry.key === key),
    kv.list({ values: false, reverse: true, prefix: key }).entries.length > 0,
    cell.sql('SELECT 1 FROM cell_kv WHERE key = ?', [key]).rows.length > 0,
    cell.sql('SELECT key FROM (SELECT * FROM cell_kv) WHERE key = ?', [key]).rows.length > 0,
  ]
}

describe('an entry with a time to live', () => {
  test.each([1, 999, 1_000, 1_001, 60_000, 100 * YEAR_MS])(
    'of %i ms is there to its last millisecond and on no path after it (invariant 11)',
    async (ttlMs) => {
      const { clock, cell } = await openTestCell()
      cell.kv.put('k', '1', { ttlMs })
      clock.step(ttlMs - 1)
      expect(new Set(sightings(cell, 'k'))).toEqual(new Set([true]))
      clock.step(1)
      expect(new Set(sightings(cell, 'k'))).toEqual(new Set([false]))
      clock.step(1)
      expect(new Set(sightings(cell, 'k'))).toEqual(new Set([false]))
    },
  )

  test('shows whole seconds left, rounded up, so that a live one never shows 0', async () => {
    const { clock, cell } = await openTestCell()
    expect(cell.kv.put('k', 'v', { ttlMs: 2_500 }).ttlSeconds).toBe(3)
    const seen: (number | null)[] = []
    for (let i = 0; i < 6; i++) {
      seen.push(...cell.kv.ttl(['k']))
      clock.step(499)
    }
    seen.push(...cell.kv.ttl(['k']))
    expect(seen).toEqual([3, 3, 2, 2, 1, 1, null])
    cell.kv.put('k', 'v', { ttlSeconds: 60 })
    expect(cell.kv.ttl(['k'])).toEqual([60])
    clock.step(1)
    expect(cell.kv.ttl(['k'])).toEqual([60])
    clock.step(999)
    expect(cell.kv.ttl(['k'])).toEqual([59])
  })

  test('after it has expired is no entry to put, delete, incr, expire and keepTtl', async () => {
    const { clock, cell } = await openTestCell()
    const { kv } = cell
    const expired = (key: string) => {
      kv.put(key, '5', { ttlSeconds: 1 })
      clock.step(1_000)
    }
    expired('a')
    expect(kv.put('a', 'w')).toMatchObject({ created: true, ttlSeconds: -1, expiresAt: null })
    expired('b')
    expect(kv.delete('b')).toBe(false)
    expired('c')
    expect(kv.expire('c', 60)).toMatchObject({ updated: false, ttlSeconds: null })
    expect(kv.get('c')).toBeUndefined()
    expired('d')
    expect(kv.put('d', 'w', { keepTtl: true })).toMatchObject({
      created: true,
      ttlSeconds: -1,
      expiresAt: null,
    })
    clock.step(YEAR_MS)
    expect(kv.get('d')).toBe('w')
    expired('e')
    expect(kv.delete(['e'])).toEqual([false])
    expired('f')
    expect(kv.put([{ key: 'f', value: 'w' }])).toMatchObject([{ created: true }])
    clock.step(YEAR_MS)
    expect([kv.get('a'), kv.get('f')]).toEqual(['w', 'w'])
  })

  test('survives a restart with the time that is left', async () => {
    const test = await openTestCell()
    test.cell.kv.put('k', 'v', { ttlSeconds: 100 })
    test.clock.step(40_000)
    await test.reopen()
    const { kv } = test.store.openCell(test.cell.id)
    expect(kv.ttl(['k'])).toEqual([60])
    test.clock.step(59_999)
    expect(kv.get('k')).toBe('v')
    test.clock.step(1)
    expect(kv.get('k')).toBeUndefined()
  })

  test('is not lost when the clock steps back a year, and not earlier gone than its instant', async () => {
    const { clock, cell } = await openTestCell()
    cell.kv.put('k', 'v', { ttlSeconds: 10 })
    cell.kv.put('p', 'w')
    clock.step(-YEAR_MS)
    clock.advance(60_000)
    expect([cell.kv.get('k'), cell.kv.get('p')]).toEqual(['v', 'w'])
    expect(cell.kv.ttl(['k'])[0]).toBeGreaterThan(31_000_000)
    clock.step(YEAR_MS)
    expect([cell.kv.get('k'), cell.kv.get('p')]).toEqual([undefined, 'w'])
  })
})

describe('put', () => {
  test('without a time to live makes the entry persistent, also if it had one', async () => {
    const { clock, cell } = await openTestCell()
    cell.kv.put('k', 'v', { ttlSeconds: 1 })
    cell.kv.put('k', 'w')
    expect(cell.kv.ttl(['k'])).toEqual([-1])
    clock.step(YEAR_MS)
    expect(cell.kv.get('k')).toBe('w')
  })

  test('with a new one takes that', async () => {
    const { cell } = await openTestCell()
    cell.kv.put('k', 'v', { ttlSeconds: 100 })
    cell.kv.put('k', 'w', { ttlSeconds: 5 })
    expect(cell.kv.ttl(['k'])).toEqual([5])
  })

  test('with keepTtl keeps what there is: a time to live, or none', async () => {
    const { clock, cell } = await openTestCell()
    cell.kv.put('k', 'v', { ttlSeconds: 100 })
    clock.step(40_000)
    expect(cell.kv.put('k', 'w', { keepTtl: true })).toMatchObject({
      created: false,
      ttlSeconds: 60,
      expiresAt: clock.now() + 60_000,
    })
    expect(cell.kv.get('k')).toBe('w')
    cell.kv.put('p', 'v')
    expect(cell.kv.put('p', 'w', { keepTtl: true })).toMatchObject({
      created: false,
      ttlSeconds: -1,
      expiresAt: null,
    })
    expect(cell.kv.put('new', 'w', { keepTtl: true })).toMatchObject({ created: true, ttlSeconds: -1 })
  })

  test('with keepTtl: false or undefined is a put without it', async () => {
    const { cell } = await openTestCell()
    for (const keepTtl of [false, undefined]) {
      cell.kv.put('k', 'v', { ttlSeconds: 100 })
      cell.kv.put('k', 'w', { keepTtl })
      expect(cell.kv.ttl(['k'])).toEqual([-1])
    }
  })

  test('with both keepTtl and a time to live, or with two of them, is refused', async () => {
    const { kv } = (await openTestCell()).cell
    expect(codeOf(() => kv.put('k', 'v', { keepTtl: true, ttlSeconds: 1 }))).toBe('invalid_ttl')
    expect(codeOf(() => kv.put('k', 'v', { keepTtl: true, ttlMs: 1 }))).toBe('invalid_ttl')
    expect(codeOf(() => kv.put('k', 'v', { ttlSeconds: 1, ttlMs: 1 }))).toBe('invalid_ttl')
    expect(kv.get('k')).toBeUndefined()
  })
})

describe('a time to live', () => {
  const MAX = 3_153_600_000

  test('of 1 second to 100 years is taken', async () => {
    const { clock, cell } = await openTestCell()
    for (const ttlSeconds of [1, MAX]) {
      expect(cell.kv.put('k', 'v', { ttlSeconds })).toMatchObject({
        created: ttlSeconds === 1,
        ttlSeconds,
        expiresAt: clock.now() + ttlSeconds * 1_000,
      })
    }
    expect(cell.kv.put('k', 'v', { ttlMs: MAX * 1_000 }).ttlSeconds).toBe(MAX)
  })

  test.each([0, -1, 0.5, 1.5, MAX + 1, Number.NaN, Infinity, '60', null, 60n, true, {}])(
    'of %s is refused, and changes nothing',
    async (ttl) => {
      const { kv } = (await openTestCell()).cell
      kv.put('k', '1', { ttlSeconds: 100 })
      const ttlSeconds = ttl as number
      const uses: (() => unknown)[] = [
        () => kv.put('k', '2', { ttlSeconds }),
        () =>
          kv.put([
            { key: 'other', value: 'v' },
            { key: 'k', value: '2', ttlSeconds },
          ]),
        () => kv.incr('k', 1, { ttlSeconds }),
        () => kv.incr('new', 1, { ttlSeconds }),
        ...(ttl === null ? [] : [() => kv.expire('k', ttlSeconds)]),
      ]
      for (const use of uses) expect(thrownBy(use)).toMatchObject({ code: 'invalid_ttl' })
      expect([kv.get('k'), kv.get('new'), kv.get('other'), ...kv.ttl(['k'])]).toEqual([
        '1',
        undefined,
        undefined,
        100,
      ])
    },
  )

  test.each([0, -1, 0.5, MAX * 1_000 + 1, Number.NaN])('of %s milliseconds is refused', async (ttlMs) => {
    const { kv } = (await openTestCell()).cell
    expect(thrownBy(() => kv.put('k', 'v', { ttlMs }))).toMatchObject({ code: 'invalid_ttl' })
  })
})

describe('expire', () => {
  test('sets a new time to live, also on an entry that had none', async () => {
    const { clock, cell } = await openTestCell()
    cell.kv.put('k', 'v')
    expect(cell.kv.expire('k', 10)).toMatchObject({ updated: true, ttlSeconds: 10 })
    expect(cell.kv.expire('k', 20)).toMatchObject({ updated: true, ttlSeconds: 20 })
    clock.step(19_999)
    expect(cell.kv.get('k')).toBe('v')
    clock.step(1)
    expect(cell.kv.get('k')).toBeUndefined()
  })

  test('with null makes it persistent', async () => {
    const { clock, cell } = await openTestCell()
    cell.kv.put('k', 'v', { ttlSeconds: 10 })
    expect(cell.kv.expire('k', null)).toMatchObject({ updated: true, ttlSeconds: -1 })
    expect(cell.kv.expire('k', null)).toMatchObject({ updated: true, ttlSeconds: -1 })
    clock.step(YEAR_MS)
    expect(cell.kv.get('k')).toBe('v')
  })

  test('on a missing key does nothing', async () => {
    const { kv } = (await openTestCell()).cell
    expect(kv.expire('k', 10)).toMatchObject({ updated: false, ttlSeconds: null })
    expect(kv.expire('k', null)).toMatchObject({ updated: false, ttlSeconds: null })
    expect(kv.get('k')).toBeUndefined()
  })
})

test('ttl answers in the order it was asked, with duplicates', async () => {
  const { kv } = (await openTestCell()).cell
  kv.put('a', 'v', { ttlSeconds: 7 })
  kv.put('b', 'v')
  expect(kv.ttl(['b', 'none', 'a', 'b', 'a'])).toEqual([-1, null, 7, -1, 7])
  expect(kv.ttl([])).toEqual([])
})
