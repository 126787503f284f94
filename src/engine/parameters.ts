import { CellError } from '../errors.ts'
import type { Limits } from './limits.ts'
import type { SqlParam, SqlParams } from './sql-values.ts'

const INT64_MIN = -(2n ** 63n)
const INT64_MAX = 2n ** 63n - 1n

type Bindable = null | number | bigint | string | Buffer

/**
 * Prepares parameters for the driver, which would bind every JavaScript number as REAL: whole numbers become bigints
 * and so INTEGERs.
 *
 * @throws `invalid_parameter` for a value that SQLite can't hold exactly, naming which.
 */
export function encodeParams(params: SqlParams, limits: Limits): unknown[] {
  if (Array.isArray(params)) {
    if (params.length > limits.paramsMax) {
      throw new CellError('invalid_parameter', `At most ${limits.paramsMax} parameters a statement.`, {
        field: 'params',
        limit: limits.paramsMax,
      })
    }
    return (params as readonly SqlParam[]).map((value, i) => encodeParam(value, `params[${i}]`))
  }
  if (typeof params !== 'object' || params === null) {
    throw new CellError('invalid_parameter', 'Parameters are an array, or an object for named ones.', { field: 'params' })
  }
  const named: Record<string, Bindable> = Object.create(null)
  for (const [name, value] of Object.entries(params)) named[name] = encodeParam(value, `params.${name}`)
  // An empty object would count as a parameter to a statement that takes none.
  return Object.keys(named).length === 0 ? [] : [named]
}

function encodeParam(value: SqlParam, field: string): Bindable {
  switch (typeof value) {
    case 'string':
      if (!value.isWellFormed()) throw refused(field, 'the text holds a lone surrogate, which is not valid Unicode')
      return value
    case 'number':
      return encodeNumber(value, field)
    case 'bigint':
      if (value < INT64_MIN || value > INT64_MAX) throw refused(field, 'the integer does not fit in 64 bits')
      return value
    case 'boolean':
      return value ? 1n : 0n
    case 'object':
      if (value === null) return null
      if (value instanceof Uint8Array) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
      break
  }
  throw refused(field, 'use null, a number, a bigint, a string, a boolean or a Uint8Array')
}

function encodeNumber(value: number, field: string): number | bigint {
  if (Number.isSafeInteger(value)) return BigInt(value)
  if (Number.isNaN(value)) throw refused(field, 'NaN has no counterpart in SQLite; use null')
  // Beyond 2^53 a whole number may have been rounded before it got here; from 2^63 on it can only be meant as a REAL.
  if (Number.isInteger(value) && Math.abs(value) < 2 ** 63) {
    throw refused(field, 'an integer beyond ±(2^53−1) has to be a bigint, or {"type":"integer","value":"…"} over HTTP')
  }
  return value
}

function refused(field: string, why: string): CellError {
  return new CellError('invalid_parameter', `Parameter ${field}: ${why}.`, { field })
}
