import { createHash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { API_KEY_PREFIX, hashApiKey, hintOf, makeApiKey, parseApiKey } from '../../src/auth/api-key.ts'
import { SEED } from '../support/seed.ts'

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const keyOf = (bytes: Uint8Array) => makeApiKey(() => bytes)

function decodeBase62(text: string): bigint {
  return [...text].reduce((value, character) => value * 62n + BigInt(BASE62.indexOf(character)), 0n)
}

describe('a key', () => {
  test('is the prefix, 43 characters that hold the 256 bits, and 6 that hold the CRC32 of what precedes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        const key = keyOf(bytes)
        expect(key).toMatch(/^cell_sk_[0-9A-Za-z]{49}$/)
        const secret = key.slice(API_KEY_PREFIX.length, -6)
        expect(decodeBase62(secret)).toBe(BigInt(`0x${Buffer.from(bytes).toString('hex')}`))
        expect(decodeBase62(key.slice(-6))).toBe(BigInt(crc32(key.slice(0, -6))))
      }),
      { seed: SEED },
    )
  })

  test('keeps leading zeros, of the secret and of the checksum', () => {
    const zeros = keyOf(new Uint8Array(32))
    expect(zeros.slice(0, -6)).toBe(API_KEY_PREFIX + '0'.repeat(43))
    expect(parseApiKey(zeros)).toBe(zeros)
    expect(keyOf(new Uint8Array(32).fill(255))).toHaveLength(57)

    let low = 0
    for (let n = 0; n < 2_000; n++) {
      const bytes = Buffer.alloc(32)
      bytes.writeUInt32BE(n, 28)
      const key = keyOf(bytes)
      expect(key).toHaveLength(57)
      expect(parseApiKey(key)).toBe(key)
      if (key.at(-6) === '0') low++
    }
    expect(low).toBeGreaterThan(0)
  })

  test('takes exactly 32 bytes from the source', () => {
    const sizes: number[] = []
    makeApiKey((size) => {
      sizes.push(size)
      return randomBytes(size)
    })
    expect(sizes).toEqual([32])
    expect(() => keyOf(new Uint8Array(31))).toThrow(RangeError)
    expect(() => keyOf(new Uint8Array(33))).toThrow(RangeError)
  })

  test('is another one each time', () => {
    expect(new Set(Array.from({ length: 100 }, () => makeApiKey(randomBytes))).size).toBe(100)
  })
})

describe('parsing', () => {
  const key = keyOf(Uint8Array.from({ length: 32 }, (_, i) => (i * 37) % 256))

  test('refuses every typo of one character, anywhere', () => {
    const typos = [...BASE62, '_', '-', ' ', 'é', '\n']
    for (let at = 0; at < key.length; at++) {
      for (const typo of typos) {
        if (typo === key[at]) continue
        expect(parseApiKey(key.slice(0, at) + typo + key.slice(at + 1))).toBeUndefined()
      }
    }
  })

  test('refuses two neighbours that changed places', () => {
    for (let at = 0; at < key.length - 1; at++) {
      if (key[at] === key[at + 1]) continue
      const swapped = key.slice(0, at) + key[at + 1] + key[at] + key.slice(at + 2)
      expect(parseApiKey(swapped)).toBeUndefined()
    }
  })

  test('refuses a missing and an extra character, anywhere', () => {
    for (let at = 0; at <= key.length; at++) {
      if (at < key.length) expect(parseApiKey(key.slice(0, at) + key.slice(at + 1))).toBeUndefined()
      expect(parseApiKey(`${key.slice(0, at)}0${key.slice(at)}`)).toBeUndefined()
    }
  })

  test('refuses another prefix, even with a checksum that fits', () => {
    for (const prefix of ['cell_pk_', 'CELL_sk_', 'cell-sk-', 'sell_sk_', 'cell_sk']) {
      const text = prefix + key.slice(API_KEY_PREFIX.length, -6)
      let checksum = ''
      for (let rest = crc32(text); checksum.length < 6; rest = Math.floor(rest / 62))
        checksum = BASE62[rest % 62] + checksum
      expect(parseApiKey(text + checksum)).toBeUndefined()
    }
  })

  test.each([
    '',
    'cell_sk_',
    'x',
    key.toLowerCase(),
    ` ${key}`,
    `${key} `,
    `${key}\n`,
    `${key},${key}`,
    'cell_sk_'.padEnd(57, '0'),
  ])('refuses %j', (text) => {
    expect(parseApiKey(text)).toBeUndefined()
  })

  test('never refuses a key that was made, and never takes a random lookalike', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 32, maxLength: 32 }),
        (bytes) => parseApiKey(keyOf(bytes)) !== undefined,
      ),
      { seed: SEED },
    )
    fc.assert(
      fc.property(fc.stringMatching(/^cell_sk_[0-9A-Za-z]{49}$/), (text) => parseApiKey(text) === undefined),
      { seed: SEED },
    )
  })
})

test('the hash is the SHA-256 of the text, and the hint its first 12 characters', () => {
  const key = makeApiKey(randomBytes)
  expect(hashApiKey(key)).toBe(createHash('sha256').update(key, 'utf8').digest('hex'))
  expect(hintOf(key)).toBe(key.slice(0, 12))
  expect(hintOf(key)).toMatch(/^cell_sk_[0-9A-Za-z]{4}$/)
})
