import { describe, expect, test } from 'vitest'
import type { Kv } from '../../src/kv/kv.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { codeOf, thrownBy } from '../support/thrown.ts'

/** Every way in which a key comes into the KV part. */
const KEY_USES: Record<string, (kv: Kv, key: string) => unknown> = {
  get: (kv, key) => kv.get(key),
  entry: (kv, key) => kv.entry(key),
  put: (kv, key) => kv.put(key, 'v'),
  'put with keepTtl': (kv, key) => kv.put(key, 'v', { keepTtl: true }),
  delete: (kv, key) => kv.delete(key),
  incr: (kv, key) => kv.incr(key),
  ttl: (kv, key) => kv.ttl([key]),
  expire: (kv, key) => kv.expire(key, 1),
  mget: (kv, key) => kv.entry([key]),
  mset: (kv, key) => kv.put([{ key, value: 'v' }]),
  deleteMany: (kv, key) => kv.delete([key]),
  putJson: (kv, key) => kv.putJson(key, 1),
  getJson: (kv, key) => kv.getJson(key),
}

/** A text of so many bytes in characters of one to four. */
function textOf(bytes: number, character: string): string {
  const size = Buffer.byteLength(character)
  return character.repeat(Math.floor(bytes / size)) + 'x'.repeat(bytes % size)
}

describe.each(Object.entries(KEY_USES))('a key of %s', (_name, use) => {
  test('may have 1,024 bytes of UTF-8, and not one more', async () => {
    const { kv } = (await openTestCell()).cell
    for (const character of ['a', 'é', '€', '𝄞']) {
      expect(Buffer.byteLength(textOf(1_024, character))).toBe(1_024)
      use(kv, textOf(1_024, character))
      kv.delete(textOf(1_024, character))
      const error = thrownBy(() => use(kv, textOf(1_025, character)))
      expect(error).toMatchObject({ code: 'invalid_key', details: { limit: 1_024 } })
    }
  })

  test.each([
    ['is empty', ''],
    ['holds a NUL', 'a\0b'],
    ['is a NUL', '\0'],
    ['holds a lone high surrogate', 'a\ud834'],
    ['holds a lone low surrogate', '\udd1ea'],
    ['is a number', 7],
    ['is missing', undefined],
    ['is null', null],
  ])('that %s is refused', async (_what, key) => {
    const { kv } = (await openTestCell()).cell
    expect(thrownBy(() => use(kv, key as string))).toMatchObject({ code: 'invalid_key' })
    expect(kv.list().entries).toEqual([])
  })
})

test('the field names which of several keys was wrong', async () => {
  const { kv } = (await openTestCell()).cell
  const field = (use: () => unknown) => thrownBy(use).details.field
  expect(field(() => kv.get(''))).toBe('key')
  expect(field(() => kv.entry(['a', '']))).toBe('keys[1]')
  expect(field(() => kv.ttl(['']))).toBe('keys[0]')
  expect(field(() => kv.delete(['a', 'b', '']))).toBe('keys[2]')
  expect(
    field(() =>
      kv.put([
        { key: 'a', value: 'v' },
        { key: '', value: 'v' },
      ]),
    ),
  ).toBe('entries[1].key')
  expect(field(() => kv.put([{ key: 'a', value: 7 as never }]))).toBe('entries[0].value')
  expect(field(() => kv.put([{ key: 'a', value: 'v', ttlSeconds: 0 }]))).toBe('entries[0].ttlSeconds')
  expect(field(() => kv.put('a', 'v', { ttlSeconds: 0.5 }))).toBe('ttlSeconds')
  expect(field(() => kv.put('a', 'v', { ttlMs: 0 }))).toBe('ttlMs')
  expect(field(() => kv.put('a', 'v', { ttlSeconds: 1, keepTtl: true }))).toBe('keepTtl')
  expect(field(() => kv.expire('a', 0))).toBe('ttlSeconds')
  expect(field(() => kv.list({ prefix: '\0' }))).toBe('prefix')
})

describe('a value', () => {
  test.each(['a', 'é', '€', '𝄞'])(
    'may have as many bytes as its limit in %s, and not one more',
    async (character) => {
      const { kv } = (await openTestCell({ limits: { valueBytesMax: 1_000 } })).cell
      const [fits, tooLarge] = [textOf(1_000, character), textOf(1_001, character)]
      const uses: ((value: string) => unknown)[] = [
        (value) => kv.put('k', value),
        (value) => kv.put('k', value, { keepTtl: true }),
        (value) => kv.put([{ key: 'k', value }]),
      ]
      for (const use of uses) {
        use(fits)
        expect(kv.get('k')).toBe(fits)
        expect(thrownBy(() => use(tooLarge))).toMatchObject({
          code: 'value_too_large',
          details: { limit: 1_000 },
        })
      }
    },
  )

  test('is 1 MiB by default', async () => {
    const { kv } = (await openTestCell()).cell
    kv.put('k', 'x'.repeat(1_048_576))
    expect(codeOf(() => kv.put('k', 'x'.repeat(1_048_577)))).toBe('value_too_large')
    expect(kv.get('k')).toHaveLength(1_048_576)
  })

  test.each([undefined, null, 1, true, {}, new Uint8Array(1)])(
    'that is no string is refused (%s)',
    async (value) => {
      const { kv } = (await openTestCell()).cell
      expect(codeOf(() => kv.put('k', value as never))).toBe('invalid_request')
      expect(codeOf(() => kv.put([{ key: 'k', value: value as never }]))).toBe('invalid_request')
    },
  )

  test('with a lone surrogate is refused', async () => {
    const { kv } = (await openTestCell()).cell
    expect(codeOf(() => kv.put('k', '\ud834'))).toBe('invalid_request')
    expect(kv.get('k')).toBeUndefined()
  })
})

test('as many keys as the limit are taken at once, and not one more', async () => {
  const { kv } = (await openTestCell({ limits: { kvKeysMax: 3 } })).cell
  const keys = ['a', 'b', 'c', 'd']
  const uses: ((keys: string[]) => unknown)[] = [
    (some) => kv.entry(some),
    (some) => kv.ttl(some),
    (some) => kv.delete(some),
    (some) => kv.put(some.map((key) => ({ key, value: 'v' }))),
  ]
  for (const use of uses) {
    expect(() => use(keys.slice(0, 3))).not.toThrow()
    expect(thrownBy(() => use(keys))).toMatchObject({ code: 'invalid_request', details: { limit: 3 } })
  }
})
