import type { RawRow } from '../../engine/statements/rows.ts'
import type { SqlParam } from '../../engine/statements/sql-values.ts'

type HranaValue = { type?: unknown; value?: unknown; base64?: unknown }

const INTEGER = /^-?\d{1,19}$/
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/

/** A value of Hrana as a statement takes it; undefined for what is none. Numbers are REAL, also where they are whole. */
export function decodeValue(sent: unknown): SqlParam | undefined {
  const { type, value, base64 } = Object(sent) as HranaValue
  switch (type) {
    case 'null':
      return null
    case 'text':
      return typeof value === 'string' ? value : undefined
    case 'integer':
      return typeof value === 'string' && INTEGER.test(value) ? BigInt(value) : undefined
    case 'float':
      return decodeFloat(value)
    case 'blob':
      return typeof base64 === 'string' && base64.length % 4 !== 1 && BASE64.test(base64)
        ? Buffer.from(base64, 'base64')
        : undefined
    default:
      return undefined
  }
}

function decodeFloat(value: unknown): SqlParam | undefined {
  if (typeof value === 'number') return { type: 'real', value }
  // A whole number beyond ±(2^53−1), as our parser gives it.
  const { type, value: digits } = Object(value) as HranaValue
  return type === 'integer' && typeof digits === 'string'
    ? { type: 'real', value: Number(digits) }
    : undefined
}

/** A value of SQLite as JSON of Hrana: of thousands in an answer, none is made an object first. */
export function writeValue(value: RawRow[number]): string {
  switch (typeof value) {
    case 'string':
      return `{"type":"text","value":${JSON.stringify(value)}}`
    case 'bigint':
      return `{"type":"integer","value":"${value}"}`
    case 'number':
      return `{"type":"float","value":${writeFloat(value)}}`
    default:
      return value === null ? '{"type":"null"}' : `{"type":"blob","base64":"${writeBase64(value)}"}`
  }
}

/** JSON has no infinity. A number that is too large for a double is read as one by JavaScript. */
function writeFloat(value: number): string {
  if (Number.isFinite(value)) return String(value)
  return value > 0 ? '1e999' : '-1e999'
}

/** Some clients take no padding. */
function writeBase64(bytes: Buffer): string {
  return bytes.toString('base64').replace(/=+$/, '')
}
