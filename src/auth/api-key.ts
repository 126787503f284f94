import crypto from 'node:crypto'
import zlib from 'node:zlib'

/**
 * An API key is `cell_sk_` + 43 characters of secret + 6 of checksum, both base62. The prefix lets a scanner find a
 * leaked key in a text, and the checksum tells it from a lookalike and refuses a mistyped key without a look-up. This file
 * is pure: the catalog says what a key may do, and holds the key's hash, never the key.
 */
export const API_KEY_PREFIX = 'cell_sk_'

const SECRET_BYTES = 32
/** 62^43 is just above 2^256. */
const SECRET_CHARS = 43
/** 62^6 is above 2^32. */
const CHECKSUM_CHARS = 6
const HINT_CHARS = 12
const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const SHAPE = new RegExp(`^${API_KEY_PREFIX}[0-9A-Za-z]{${SECRET_CHARS + CHECKSUM_CHARS}}$`)

/**
 * Makes a new key.
 *
 * @param randomBytes the source of its 256 bits: `randomBytes` of node:crypto, or a test's own
 * @throws `RangeError` if the source gives another number of bytes
 */
export function makeApiKey(randomBytes: (size: number) => Uint8Array): string {
  const secret = randomBytes(SECRET_BYTES)
  if (secret.length !== SECRET_BYTES)
    throw new RangeError(`A key takes ${SECRET_BYTES} random bytes, not ${secret.length}.`)
  const text = API_KEY_PREFIX + encodeBase62(BigInt(`0x${Buffer.from(secret).toString('hex')}`), SECRET_CHARS)
  return text + checksumOf(text)
}

/**
 * Checks a key's shape and checksum, so that garbage and typos never reach the catalog.
 *
 * @returns the key, or undefined if the text can't be one
 */
export function parseApiKey(text: string): string | undefined {
  if (!SHAPE.test(text)) return undefined
  return text.slice(-CHECKSUM_CHARS) === checksumOf(text.slice(0, -CHECKSUM_CHARS)) ? text : undefined
}

/** SHA-256 of the key's text, in hexadecimal. A secret of 256 random bits needs no slow hash: there is nothing to guess. */
export function hashApiKey(key: string): string {
  return crypto.hash('sha256', key)
}

/** The first characters of a key, by which its owner recognises it: the prefix and 4 of the secret's 43. */
export function hintOf(key: string): string {
  return key.slice(0, HINT_CHARS)
}

/** CRC32 detects every single typo: any error within 32 consecutive bits. */
function checksumOf(text: string): string {
  return encodeBase62(BigInt(zlib.crc32(text)), CHECKSUM_CHARS)
}

/** Of fixed width: without the leading zeros, keys would differ in length. */
function encodeBase62(value: bigint, width: number): string {
  let text = ''
  for (let rest = value; text.length < width; rest /= 62n) text = BASE62[Number(rest % 62n)] + text
  return text
}
