import { describe, expect, test } from 'vitest'
import { TEST_EPOCH_MS } from '../support/fake-clock.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { codeOf } from '../support/thrown.ts'

describe('put and get', () => {
  test('a value comes back as it went in, and a key that is not there is undefined', async () => {
    const { kv } = (await openTestCell()).cell
    kv.put('k', 'v')
    expect([kv.get('k'), kv.get('K'), kv.get('k '), kv.get('other')]).toEqual([
      'v',
      undefined,
      undefined,
      undefined,
    ])
  })

  test('put says whether the entry is new', async () => {
    const { kv } = (await openTestCell()).cell
    expect(kv.put('k', 'v')).toMatchObject({ created: true, ttlSeconds: -1, expiresAt: null })
    expect(kv.put('k', 'w')).toMatchObject({ created: false, ttlSeconds: -1, expiresAt: null })
    kv.delete('k')
    expect(kv.put('k', 'x').created).toBe(true)
  })

  test('values are text and never parsed', async () => {
    const { kv } = (await openTestCell()).cell
    for (const value of [
      '',
      ' 1 ',
      '007',
      '1e3',
      '{"a":1}',
      'null',
      'a\0b',
      '\u{1f600}',
      'x'.repeat(1_048_576),
    ]) {
      kv.put('k', value)
      expect(kv.get('k')).toBe(value)
    }
  })

  test('keys are exact: case, blanks, colons, slashes, dots and combining marks', async () => {
    const { kv } = (await openTestCell()).cell
    const keys = [
      'a',
      'A',
      ' a',
      'a ',
      'a:b',
      'a/b',
      'a%2Fb',
      '.',
      '..',
      'é',
      'e\u0301',
      '\ufeffa',
      "'; DROP TABLE x",
      '%',
      '_',
    ]
    for (const [i, key] of keys.entries()) kv.put(key, String(i))
    expect(keys.map((key) => kv.get(key))).toEqual(keys.map((_, i) => String(i)))
    expect(new Set(kv.list().entries.map(({ key }) => key))).toEqual(new Set(keys))
  })

  test('entry has the time to live as well', async () => {
    const { kv } = (await openTestCell()).cell
    const version = expect.stringMatching(/^\d+$/)
    kv.put('k', 'v', { ttlSeconds: 60 })
    kv.put('p', 'w')
    expect(kv.entry('k')).toEqual({
      key: 'k',
      value: 'v',
      version,
      ttlSeconds: 60,
      expiresAt: TEST_EPOCH_MS + 60_000,
    })
    expect(kv.entry('p')).toEqual({ key: 'p', value: 'w', version, ttlSeconds: -1, expiresAt: null })
    expect(kv.entry('none')).toBeUndefined()
  })
})

describe('delete', () => {
  test('says whether there was an entry', async () => {
    const { kv } = (await openTestCell()).cell
    kv.put('k', 'v')
    expect([kv.delete('k'), kv.delete('k'), kv.get('k')]).toEqual([true, false, undefined])
  })
})

describe('JSON', () => {
  test('comes back as it went in', async () => {
    const { kv } = (await openTestCell()).cell
    for (const value of [null, 1, 'text', [1, 'a', null], { a: { b: [true] } }]) {
      kv.putJson('k', value)
      expect(kv.getJson('k')).toEqual(value)
      expect(kv.get('k')).toBe(JSON.stringify(value))
    }
    expect(kv.getJson('none')).toBeUndefined()
  })

  test('takes the options of put', async () => {
    const { clock, cell } = await openTestCell()
    expect(cell.kv.putJson('k', [1], { ttlSeconds: 5 })).toMatchObject({
      created: true,
      ttlSeconds: 5,
      expiresAt: clock.now() + 5_000,
    })
  })

  test('text that is none is a SyntaxError', async () => {
    const { kv } = (await openTestCell()).cell
    kv.put('k', '{')
    expect(() => kv.getJson('k')).toThrow(SyntaxError)
  })

  test('what has no JSON form is refused, and changes nothing', async () => {
    const { kv } = (await openTestCell()).cell
    kv.putJson('k', 'before')
    const cycle: { self?: unknown } = {}
    cycle.self = cycle
    for (const value of [undefined, () => 1, Symbol('x'), 1n, { a: 1n }, cycle]) {
      expect(codeOf(() => kv.putJson('k', value))).toBe('invalid_request')
    }
    expect(kv.getJson('k')).toBe('before')
  })
})

test('a second handle sees the same entries, and each works while the other is in use', async () => {
  const { store, cell } = await openTestCell()
  const other = store.openCell(cell.id)
  cell.kv.put('k', 'v')
  expect(other.kv.get('k')).toBe('v')
  cell.transaction(() => {
    other.kv.put('k', 'w')
    expect(cell.kv.get('k')).toBe('w')
  })
  expect([cell.kv.incr('n'), other.kv.incr('n')]).toEqual([1, 2])
})
