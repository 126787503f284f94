import { describe, expect, test } from 'vitest'
import type { KvListOptions } from '../../src/kv/entry.ts'
import { prefixEnd } from '../../src/kv/key.ts'
import type { Kv } from '../../src/kv/kv.ts'
import { listQuery } from '../../src/kv/queries.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { seededRandom } from '../support/seed.ts'
import { thrownBy } from '../support/thrown.ts'

function keys(kv: Kv, options: KvListOptions = {}): string[] {
  return kv.list(options).entries.map(({ key }) => key)
}

/** All pages, one after the other. */
function paged(kv: Kv, options: KvListOptions): string[][] {
  const pages: string[][] = []
  let cursor: string | null | undefined
  do {
    const page = kv.list({ ...options, cursor: cursor ?? undefined })
    pages.push(page.entries.map(({ key }) => key))
    cursor = page.nextCursor
  } while (cursor !== null)
  return pages
}

function byUtf8(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}

/** Around every place where the order of UTF-16 units and that of UTF-8 bytes part. */
const TRICKY = [
  'a',
  'z',
  '\x7f',
  '\x80',
  '\u07ff',
  '\u0800',
  '\ud7ff',
  '\ue000',
  '\uffff',
  '\u{10000}',
  '\u{1d11e}',
  '\u{10fffe}',
  '\u{10ffff}',
]

async function openKv(entries: string[]): Promise<Kv> {
  const { kv } = (await openTestCell()).cell
  for (const key of entries) kv.put(key, `value of ${key}`)
  return kv
}

describe('order', () => {
  test('is that of UTF-8 bytes, also where surrogate pairs sort otherwise in JavaScript', async () => {
    const kv = await openKv(TRICKY.toReversed())
    expect(keys(kv)).toEqual(TRICKY)
    expect([...TRICKY].sort()).not.toEqual(TRICKY)
    expect(keys(kv, { reverse: true })).toEqual(TRICKY.toReversed())
  })

  test('a shorter key comes before what it begins', async () => {
    const kv = await openKv(['ab', 'a', 'aa', 'b', 'a\x01'])
    expect(keys(kv)).toEqual(['a', 'a\x01', 'aa', 'ab', 'b'])
  })
})

describe('a prefix', () => {
  test.each(TRICKY)('of %j finds exactly the keys that start with it', async (prefix) => {
    const all = [...TRICKY, ...TRICKY.flatMap((first) => TRICKY.map((second) => first + second))].sort(byUtf8)
    const kv = await openKv(all)
    const expected = all.filter((key) => key.startsWith(prefix))
    expect(keys(kv, { prefix, limit: 1_000 })).toEqual(expected)
    expect(keys(kv, { prefix, limit: 1_000, reverse: true })).toEqual(expected.toReversed())
  })

  test('of the last character there is, many times over, still finds what starts with it', async () => {
    const last = '\u{10ffff}'
    const all = [last, last + last, `${last + last}a`, last + last + last]
    const kv = await openKv(all)
    expect(keys(kv, { prefix: last + last })).toEqual(all.slice(1).sort(byUtf8))
    expect(keys(kv, { prefix: last + last, reverse: true })).toEqual(all.slice(1).sort(byUtf8).toReversed())
  })

  test('is no pattern: what LIKE and GLOB make of it does not count', async () => {
    const kv = await openKv(['a%b', 'axb', 'a_b', 'a*b', 'a[b', 'A%b', 'a\\b', "a'b"])
    for (const prefix of ['a%', 'a_', 'a*', 'a[', 'A', 'a\\', "a'"]) {
      expect(keys(kv, { prefix })).toEqual([`${prefix}b`.replace('Ab', 'A%b')])
    }
    expect(keys(kv, { prefix: '%' })).toEqual([])
  })

  test('of nothing finds everything; one that is a whole key finds that too', async () => {
    const kv = await openKv(['a', 'ab', 'b'])
    expect(keys(kv, { prefix: '' })).toEqual(['a', 'ab', 'b'])
    expect(keys(kv, { prefix: 'ab' })).toEqual(['ab'])
  })

  test('ends before the least text that sorts after all that start with it', () => {
    expect(prefixEnd('a')).toBe('b')
    expect(prefixEnd('\ud7ff')).toBe('\ue000')
    expect(prefixEnd('a\u{10ffff}')).toBe('b')
    expect(prefixEnd('\uffff')).toBe('\u{10000}')
    expect(prefixEnd('\u{10ffff}\u{10ffff}')).toBeNull()
    expect(prefixEnd('')).toBeNull()
  })

  test('one that is no key is refused', async () => {
    const kv = await openKv([])
    for (const prefix of ['\0', 'a'.repeat(1_025), '\ud800', 7 as never, null as never]) {
      expect(thrownBy(() => kv.list({ prefix }))).toMatchObject({
        code: 'invalid_key',
        details: { field: 'prefix' },
      })
    }
  })
})

describe('pages', () => {
  test.each([false, true])('follow each other without a gap or a repeat (reverse: %s)', async (reverse) => {
    const all = TRICKY.flatMap((first) => ['', 'x', 'y'].map((second) => first + second)).sort(byUtf8)
    const kv = await openKv(all)
    const expected = reverse ? all.toReversed() : all
    for (const limit of [1, 2, 7, all.length - 1, all.length, all.length + 1]) {
      const pages = paged(kv, { limit, reverse })
      expect(pages.flat()).toEqual(expected)
      expect(pages.slice(0, -1).every((page) => page.length === limit)).toBe(true)
      expect(pages.at(-1)?.length).toBeGreaterThan(0)
    }
  })

  test.each([false, true])('stay within their prefix (reverse: %s)', async (reverse) => {
    const kv = await openKv(['a', 'b', 'ba', 'bb', 'bc', 'c'])
    const expected = ['b', 'ba', 'bb', 'bc']
    expect(paged(kv, { prefix: 'b', limit: 3, reverse }).flat()).toEqual(
      reverse ? expected.toReversed() : expected,
    )
  })

  test('a cursor holds its place while entries come and go', async () => {
    const kv = await openKv(['a', 'b', 'c', 'd', 'e'])
    const { nextCursor } = kv.list({ limit: 2 })
    kv.delete('b')
    kv.delete('c')
    kv.put('aa', 'behind')
    kv.put('bb', 'ahead')
    expect(keys(kv, { cursor: nextCursor ?? '' })).toEqual(['bb', 'd', 'e'])
  })

  test('a cursor from elsewhere is only a place: before the prefix, inside, or behind it', async () => {
    const kv = await openKv(['a', 'b', 'ba', 'bb', 'c'])
    const cursorAt = (key: string) => Buffer.from(key).toString('base64url')
    const from = (key: string, reverse: boolean) => keys(kv, { prefix: 'b', cursor: cursorAt(key), reverse })
    expect(['a', 'ba', 'c'].map((key) => from(key, false))).toEqual([['b', 'ba', 'bb'], ['bb'], []])
    expect(['a', 'ba', 'c'].map((key) => from(key, true))).toEqual([[], ['b'], ['bb', 'ba', 'b']])
  })

  test('an expired entry takes no place on a page', async () => {
    const { clock, cell } = await openTestCell()
    for (let i = 0; i < 20; i++)
      cell.kv.put(`k${String(i).padStart(2, '0')}`, 'v', i % 2 ? { ttlSeconds: 1 } : {})
    clock.step(1_000)
    const pages = paged(cell.kv, { limit: 4 })
    expect(pages.map((page) => page.length)).toEqual([4, 4, 2])
    expect(pages.flat()).toHaveLength(10)
  })

  test('100 entries are on one by default, or as many as the largest allowed', async () => {
    const { kv } = (await openTestCell()).cell
    kv.put(Array.from({ length: 150 }, (_, i) => ({ key: `k${i}`, value: 'v' })))
    expect(kv.list().entries).toHaveLength(100)
    const small = (await openTestCell({ limits: { pageMax: 10 } })).cell.kv
    small.put(Array.from({ length: 20 }, (_, i) => ({ key: `k${i}`, value: 'v' })))
    expect(small.list().entries).toHaveLength(10)
  })

  test('a limit from 1 to the largest is taken, and no other', async () => {
    const { kv } = (await openTestCell({ limits: { pageMax: 50 } })).cell
    for (const limit of [1, 50]) expect(() => kv.list({ limit })).not.toThrow()
    for (const limit of [0, 51, -1, 1.5, Number.NaN, '10', null]) {
      expect(thrownBy(() => kv.list({ limit: limit as number }))).toMatchObject({
        code: 'invalid_request',
        details: { field: 'limit', limit: 50 },
      })
    }
  })

  test.each(['', '!', 'a', 'YQ==', '////', 'gICA', 7, null])('%j is no cursor', async (cursor) => {
    const kv = await openKv(['a'])
    expect(thrownBy(() => kv.list({ cursor: cursor as string }))).toMatchObject({
      code: 'invalid_request',
      details: { field: 'cursor' },
    })
  })

  test('a random listing agrees with a sorted array', async () => {
    const random = seededRandom()
    const pieces = ['a', 'b', '\ud7ff', '\ue000', '\uffff', '\u{10000}', '\u{10ffff}', '%', '_']
    const text = (length: number) => Array.from({ length }, () => random.pick(pieces)).join('')
    const all = [...new Set(Array.from({ length: 300 }, () => text(1 + random.below(5))))].sort(byUtf8)
    const kv = await openKv(all)
    for (let i = 0; i < 300; i++) {
      const prefix = text(random.below(4))
      const reverse = random.chance(0.5)
      const expected = all.filter((key) => key.startsWith(prefix))
      const got = paged(kv, {
        prefix,
        reverse,
        limit: 1 + random.below(20),
        values: random.chance(0.5),
      }).flat()
      expect(got).toEqual(reverse ? expected.toReversed() : expected)
    }
  })
})

describe('entries', () => {
  test('have their value, unless none is asked for', async () => {
    const { clock, cell } = await openTestCell()
    const version = expect.any(String)
    cell.kv.put('a', '')
    cell.kv.put('b', 'v', { ttlSeconds: 9 })
    expect(cell.kv.list().entries).toEqual([
      { key: 'a', value: '', version, ttlSeconds: -1, expiresAt: null },
      { key: 'b', value: 'v', version, ttlSeconds: 9, expiresAt: clock.now() + 9_000 },
    ])
    expect(cell.kv.list({ values: false }).entries).toEqual([
      { key: 'a', version, ttlSeconds: -1, expiresAt: null },
      { key: 'b', version, ttlSeconds: 9, expiresAt: clock.now() + 9_000 },
    ])
  })
})

test.each([
  [true, false],
  [true, true],
  [false, false],
  [false, true],
])(
  'a page costs what is on it, wherever it lies: a search of the primary key (values %s, reverse %s)',
  async (values, reverse) => {
    const { cell } = await openTestCell()
    const { rows } = cell.sql<{ detail: string }>(`EXPLAIN QUERY PLAN ${listQuery(values, reverse)}`, [
      'a',
      'b',
      0,
      1,
    ])
    expect(rows.map(({ detail }) => detail)).toEqual([
      expect.stringMatching(/^SEARCH main\._cell_kv USING PRIMARY KEY \(key>\? AND key<\?\)$/),
    ])
  },
)
