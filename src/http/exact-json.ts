import { isUtf8 } from 'node:buffer'
import { CellError } from '../errors.ts'

/** Most bodies hold no such run of digits, and then no number's source text is needed. */
const PERHAPS_UNSAFE = /\d{16}/
const INTEGER = /^-?\d+$/
/** Sign and digits of the 64-bit integers. */
const INT64_CHARS_MAX = 20
/** Stands for any integer beyond 64 bits. Every reader refuses it, so that a million digits are never converted. */
const BEYOND_INT64 = 2n ** 64n

/**
 * Parses JSON without rounding: an integer beyond ±(2^53−1) becomes a bigint.
 *
 * @throws `invalid_json`
 */
export function parseJson(bytes: Uint8Array): unknown {
  if (!isUtf8(bytes)) throw invalidJson('The body is not UTF-8.')
  const text = withoutByteOrderMark(
    Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8'),
  )
  try {
    return PERHAPS_UNSAFE.test(text) ? JSON.parse(text, exactInteger as Reviver) : JSON.parse(text)
  } catch {
    throw invalidJson('The body is not JSON.')
  }
}

/** TypeScript's library does not know the third argument yet. */
type Reviver = (this: unknown, key: string, value: unknown) => unknown

function exactInteger(_key: string, value: unknown, context: { source?: string }): unknown {
  if (typeof value !== 'number' || Number.isSafeInteger(value)) return value
  const source = context.source ?? ''
  if (!INTEGER.test(source)) return value
  if (source.length <= INT64_CHARS_MAX) return BigInt(source)
  return source.startsWith('-') ? -BEYOND_INT64 : BEYOND_INT64
}

function withoutByteOrderMark(text: string): string {
  return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text
}

function invalidJson(message: string): CellError {
  return new CellError('invalid_json', message)
}
