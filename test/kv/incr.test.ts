import { describe, expect, test } from 'vitest'
import { openTestCell } from '../support/open-test-store.ts'
import { codeOf, thrownBy } from '../support/thrown.ts'

const INT64_MIN = -(2n ** 63n)
const INT64_MAX = 2n ** 63n - 1n

async function openKv() {
  return (await openTestCell()).cell.kv
}

describe('incr', () => {
  test('adds one, or the delta, from 0 where there is nothing', async () => {
    const kv = await openKv()
    expect([kv.incr('n'), kv.incr('n'), kv.incr('n', 10), kv.incr('n', -15), kv.incr('n', 0)]).toEqual([
      1, 2, 12, -3, -3,
    ])
    expect(kv.get('n')).toBe('-3')
    expect(kv.incr('m', -7)).toBe(-7)
  })

  test('a refused one within a transaction undoes nothing else, and the transaction goes on', async () => {
    const { cell } = await openTestCell()
    const { kv } = cell
    kv.put('text', 'none')
    const count = () => {
      kv.incr('n')
      expect(codeOf(() => kv.incr('text'))).toBe('not_an_integer')
      expect(codeOf(() => kv.incr('n', INT64_MAX))).toBe('integer_overflow')
      return kv.incr('n')
    }
    expect(cell.transaction(count)).toBe(2)
    expect(await Promise.all([cell.commit(count), cell.commit(count)])).toEqual([4, 6])
    expect([kv.get('n'), kv.get('text')]).toEqual(['6', 'none'])
    expect(() =>
      cell.transaction(() => {
        kv.incr('n')
        throw new Error('taken back')
      }),
    ).toThrow('taken back')
    expect(kv.get('n')).toBe('6')
  })

  test('counts on from a decimal text that was put', async () => {
    const kv = await openKv()
    for (const [text, next] of [
      ['0', 1],
      ['41', 42],
      ['-1', 0],
      ['9007199254740990', 9007199254740991],
    ] as const) {
      kv.put('n', text)
      expect(kv.incr('n')).toBe(next)
    }
  })

  test('keeps a live entry’s time to live, and an entry’s having none', async () => {
    const { clock, cell } = await openTestCell()
    cell.kv.put('n', '1', { ttlSeconds: 100 })
    clock.step(40_000)
    expect(cell.kv.incrEntry('n', 1, { ttlSeconds: 5 })).toMatchObject({ value: 2, ttlSeconds: 60 })
    cell.kv.put('p', '1')
    expect(cell.kv.incrEntry('p', 1, { ttlSeconds: 5 })).toMatchObject({ value: 2, ttlSeconds: -1 })
  })

  test('gives a new entry the time to live that is asked for, and else none', async () => {
    const { clock, cell } = await openTestCell()
    expect(cell.kv.incrEntry('n', 1, { ttlSeconds: 5 })).toMatchObject({ value: 1, ttlSeconds: 5 })
    expect(cell.kv.incrEntry('m')).toMatchObject({ value: 1, ttlSeconds: -1 })
    clock.step(5_000)
    expect([cell.kv.get('n'), cell.kv.get('m')]).toEqual([undefined, '1'])
  })

  test('starts from 0 on an expired entry, with nothing of its old time to live', async () => {
    const { clock, cell } = await openTestCell()
    cell.kv.put('n', '41', { ttlSeconds: 1 })
    cell.kv.put('m', 'no number', { ttlSeconds: 1 })
    clock.step(1_000)
    expect(cell.kv.incrEntry('n')).toMatchObject({ value: 1, ttlSeconds: -1 })
    expect(cell.kv.incrEntry('m', 2, { ttlMs: 500 })).toMatchObject({ value: 2, ttlSeconds: 1 })
    clock.step(1_000_000_000)
    expect([cell.kv.get('n'), cell.kv.get('m')]).toEqual(['1', undefined])
  })
})

describe('64 bits', () => {
  test('a sum beyond ±(2^53−1) is an exact bigint', async () => {
    const kv = await openKv()
    kv.put('n', String(Number.MAX_SAFE_INTEGER))
    expect(kv.incr('n')).toBe(2n ** 53n)
    expect(kv.incr('n')).toBe(2n ** 53n + 1n)
    expect(kv.get('n')).toBe('9007199254740993')
    expect(kv.incr('n', -2)).toBe(Number.MAX_SAFE_INTEGER)
    kv.put('n', String(-Number.MAX_SAFE_INTEGER))
    expect(kv.incr('n', -1)).toBe(-(2n ** 53n))
  })

  test('both ends can be reached exactly, and not passed', async () => {
    const kv = await openKv()
    expect(kv.incr('n', INT64_MAX)).toBe(INT64_MAX)
    expect(thrownBy(() => kv.incr('n'))).toMatchObject({ code: 'integer_overflow' })
    expect(kv.get('n')).toBe('9223372036854775807')
    expect(kv.incr('m', INT64_MIN)).toBe(INT64_MIN)
    expect(codeOf(() => kv.incr('m', -1))).toBe('integer_overflow')
    expect(codeOf(() => kv.incr('m', INT64_MIN))).toBe('integer_overflow')
    expect(kv.get('m')).toBe('-9223372036854775808')
    expect(kv.incr('m', INT64_MAX)).toBe(-1)
    expect(kv.incr('n', INT64_MIN)).toBe(-1)
  })

  test('an overflow keeps the time to live too', async () => {
    const kv = await openKv()
    kv.put('n', String(INT64_MAX), { ttlSeconds: 100 })
    expect(codeOf(() => kv.incr('n'))).toBe('integer_overflow')
    expect(kv.entry('n')).toMatchObject({ value: String(INT64_MAX), ttlSeconds: 100 })
  })

  test.each([
    0.5,
    Number.NaN,
    Infinity,
    2 ** 53,
    -(2 ** 53),
    INT64_MAX + 1n,
    INT64_MIN - 1n,
    '1',
    null,
    true,
  ])('a delta of %s is refused', async (delta) => {
    const kv = await openKv()
    expect(thrownBy(() => kv.incr('n', delta as number))).toMatchObject({
      code: 'invalid_request',
      details: { field: 'delta' },
    })
    expect(kv.get('n')).toBeUndefined()
  })
})

describe('a value that is not a decimal integer', () => {
  test.each([
    '',
    ' ',
    '1 ',
    ' 1',
    '+1',
    '-0',
    '01',
    '-01',
    '1.0',
    '1e3',
    '0x10',
    '１',
    '1\n',
    '1\0',
    '9223372036854775808',
    '-9223372036854775809',
    '99999999999999999999',
    'abc',
    'NaN',
    'true',
    '"1"',
  ])('%j is refused and stays as it is', async (text) => {
    const kv = await openKv()
    kv.put('n', text, { ttlSeconds: 100 })
    expect(codeOf(() => kv.incr('n'))).toBe('not_an_integer')
    expect(kv.entry('n')).toMatchObject({ value: text, ttlSeconds: 100 })
  })
})
