import { isBytes } from '../any-realm.ts'

/**
 * What a value counts in an answer, in bytes. An answer is bounded before it becomes JSON, so a value counts as much as its
 * JSON and its memory need: a bound of 10 MiB never becomes 60 MB, and a million empty values are not free.
 */

/** A number, null, or a text of a few characters. */
const VALUE_COST_MIN = 8
/** An integer that no number holds: half of its typed form in JSON, `{"type":"integer","value":"9007199254740993"}`. */
const BIG_INTEGER_COST = 24
/** An object of its own, with its type and its base64. */
const BLOB_COST_MIN = 64
/** JSON writes these as six bytes, `\u0001`, and no other character as more than twice its own. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones
const SIX_BYTES = /[\0-\x07\x0b\x0e-\x1f]/

/** A text's bytes, or half of what JSON makes of them if that is more. Only a text of many control characters counts more. */
export function textCost(text: string): number {
  const bytes = Buffer.byteLength(text)
  const inJson = SIX_BYTES.test(text) ? bytes + 5 * countSixBytes(text) : bytes
  return Math.max(VALUE_COST_MIN, bytes, Math.ceil(inJson / 2))
}

function countSixBytes(text: string): number {
  let count = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code < 0x20 && (code < 0x08 || code === 0x0b || code > 0x0d)) count++
  }
  return count
}

export function valueCost(value: unknown): number {
  if (typeof value === 'string') return textCost(value)
  if (typeof value === 'bigint') return isNumber(value) ? VALUE_COST_MIN : BIG_INTEGER_COST
  return isBytes(value) ? Math.max(BLOB_COST_MIN, value.byteLength) : VALUE_COST_MIN
}

function isNumber(value: bigint): boolean {
  return value <= Number.MAX_SAFE_INTEGER && value >= Number.MIN_SAFE_INTEGER
}

/** What a column's name counts in each row: all of its bytes in JSON. */
export function nameCost(name: string): number {
  return Buffer.byteLength(JSON.stringify(name)) - 2
}
