import { isBytes } from '../../base/any-realm.ts'
import type { Limits } from '../../base/options/limits.ts'
import { shownValue } from '../../base/options/shown-value.ts'
import { CellError } from '../../errors.ts'
import { Placeholders } from './placeholders.ts'
import { type Bindable, MixedParams, type SqlParam, type SqlParams } from './sql-values.ts'

type Encoded = readonly Bindable[] | Readonly<Record<string, Bindable>>
/** The arguments for a statement of the driver. */
export type BoundParams = readonly Encoded[]

const NONE: readonly Bindable[] = []

/**
 * Prepares parameters for the driver, which would bind every JavaScript number as REAL: whole numbers become bigints
 * and so INTEGERs.
 *
 * @param placeholders of a statement with numbered ones; others are bound by the driver
 * @throws `invalid_parameter` for a value that SQLite can't hold exactly, naming which; `param_count_mismatch`
 */
export function encodeParams(
  params: SqlParams | MixedParams,
  limits: Limits,
  { placeholders, statement }: { placeholders: Placeholders | undefined; statement: { source: string } },
): BoundParams {
  if (params instanceof MixedParams) {
    const named = new Map([...params.named].map(([name, value]) => [name, encodeParam(value, name)]))
    const all = placeholders ?? Placeholders.in(statement.source)
    return all.bindMixed(encodeList(params.list, limits), named).filter((some) => sizeOf(some) > 0)
  }
  const encoded = encode(params, limits)
  if (placeholders === undefined) return [encoded]
  return isList(encoded) ? placeholders.bindList(encoded) : placeholders.bindNamed(encoded)
}

/** The driver takes an empty list or object for a parameter too many. */
function sizeOf(values: Encoded): number {
  return isList(values) ? values.length : Object.keys(values).length
}

function isList(values: Encoded): values is readonly Bindable[] {
  return Array.isArray(values)
}

function encode(params: SqlParams, limits: Limits): Encoded {
  if (Array.isArray(params)) return encodeList(params as readonly SqlParam[], limits)
  // A map, a typed array or a date would pass for an object without members.
  if (typeof params !== 'object' || params === null || Symbol.iterator in params || params instanceof Date) {
    throw new CellError('invalid_parameter', 'Parameters are an array, or a plain object for named ones.', {
      field: 'params',
    })
  }
  const entries = Object.entries(params)
  // An empty object would count as a parameter to a statement that takes none.
  if (entries.length === 0) return NONE
  const named: Record<string, Bindable> = Object.create(null)
  for (const [name, value] of entries) named[name] = encodeParam(value, name)
  return named
}

function encodeList(params: readonly SqlParam[], { paramsMax }: Limits): readonly Bindable[] {
  if (params.length === 0) return NONE
  if (params.length > paramsMax) {
    throw new CellError(
      'invalid_parameter',
      `A statement takes at most ${paramsMax} parameters (limits.paramsMax).`,
      {
        field: 'params',
        limit: paramsMax,
      },
    )
  }
  const list: Bindable[] = []
  // By index: a hole in the array must be seen.
  for (let i = 0; i < params.length; i++) list.push(encodeParam(params[i], i))
  return list
}

/** @param at name or position, for the message @throws `invalid_parameter` */
export function encodeParam(value: SqlParam | undefined, at: string | number): Bindable {
  switch (typeof value) {
    case 'string':
      if (!value.isWellFormed())
        throw refused(at, 'the text holds a lone surrogate, which is not valid Unicode')
      return value
    case 'number':
      return encodeNumber(value, at)
    case 'bigint':
      if (BigInt.asIntN(64, value) !== value) throw refused(at, 'the integer does not fit in 64 bits')
      return value
    case 'boolean':
      return value ? 1n : 0n
    case 'object':
      if (value === null) return null
      if (isBytes(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
      if ('type' in value && value.type === 'real' && typeof value.value === 'number')
        return Number.isNaN(value.value) ? refuseNaN(at) : value.value
      break
  }
  throw refused(
    at,
    `it is ${shownValue(value)}; use null, a number, a bigint, a string, a boolean, a Uint8Array or { type: 'real', value }`,
  )
}

function encodeNumber(value: number, at: string | number): number | bigint {
  if (Number.isSafeInteger(value)) return BigInt(value)
  if (Number.isNaN(value)) refuseNaN(at)
  if (mayBeRounded(value)) {
    throw refused(
      at,
      "a whole number beyond ±(2^53−1) may have been rounded; use a bigint, or { type: 'real', value } for a REAL",
    )
  }
  return value
}

/** Whether it is a whole number beyond ±(2^53−1) that fits in 64 bits: one that does not can only be meant as a REAL. */
export function mayBeRounded(value: number): boolean {
  return Number.isInteger(value) && !Number.isSafeInteger(value) && value >= -(2 ** 63) && value < 2 ** 63
}

function refuseNaN(at: string | number): never {
  throw refused(at, 'NaN has no counterpart in SQLite; use null')
}

function refused(at: string | number, why: string): CellError {
  const field = typeof at === 'number' ? `params[${at}]` : `params.${at}`
  return new CellError('invalid_parameter', `Parameter ${field}: ${why}.`, { field })
}
