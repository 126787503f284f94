import * as z from 'zod'
import type { Limits } from '../../base/options/limits.ts'
import { mayBeRounded } from '../../engine/statements/parameters.ts'
import { checkSqlLength } from '../../engine/statements/prepared-statements.ts'
import type { SqlParam, SqlParams } from '../../engine/statements/sql-values.ts'
import { CellError } from '../../errors.ts'
import { text } from './fields.ts'
import { checkedByHand, noted } from './schema-notes.ts'

export const typedInteger = noted(
  z.object({ type: z.literal('integer'), value: z.string().regex(/^-?\d+$/) }),
  {
    id: 'TypedInteger',
    description: 'The digits of an integer of 64 bits.',
  },
)

const param = noted(
  z.union([
    z.string(),
    z.number(),
    z.boolean(),
    z.null(),
    typedInteger,
    z.object({
      type: z.literal('real'),
      value: z.union([z.number(), typedInteger, z.enum(['Infinity', '-Infinity'])]),
    }),
    z.object({ type: z.literal('blob'), base64: z.string() }),
  ]),
  {
    id: 'SqlParam',
    description: 'An integer of JSON is bound with all of its digits, true and false as 1 and 0.',
  },
)

const params = noted(
  checkedByHand(z.unknown(), () => z.union([z.array(param), z.record(z.string(), param), z.null()])),
  { description: 'An array for ? and ?NNN, an object for :name, @name and $name.' },
)

/** Parameters are decoded by hand: their values differ in kind, and there can be 32,766 of them. */
export const sqlSchema = z.strictObject({
  sql: text,
  params: params.optional(),
  row_mode: z.enum(['object', 'array'], { error: 'must be "object" or "array"' }).optional(),
})

const INTEGER = /^-?\d{1,19}$/
const ANY_INTEGER = /^-?\d+$/
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/
/** Names in SQL begin with one of these signs; in `params` it may be left out. */
const PLACEHOLDER_SIGN = /^[:@$?]/

/** What decoding a statement needs besides it. */
export interface StatementContext {
  /** Whether integers are as they were sent: see `JsonBody`. */
  exact: boolean
  limits: Pick<Limits, 'sqlBytesMax' | 'paramsMax'>
}

/**
 * A statement and its parameters. The length of its text is checked before anything reads the text.
 *
 * @param at where in the body the statement stands, with a point: `operations[2].`
 * @throws `sql_too_long`, `invalid_parameter`
 */
export function decodeStatement(
  { sql, params, row_mode }: z.infer<typeof sqlSchema>,
  context: StatementContext,
  at = '',
): { sql: string; params: SqlParams | undefined; rowMode: 'object' | 'array' | undefined } {
  checkSqlLength(sql, context.limits)
  return { sql, params: decodeParams(params, context, `${at}params`), rowMode: row_mode }
}

/**
 * The parameters of a statement, from JSON.
 *
 * @throws `invalid_parameter`
 */
function decodeParams(
  params: unknown,
  { exact, limits: { paramsMax } }: StatementContext,
  at: string,
): SqlParams | undefined {
  if (params === undefined || params === null) return undefined
  if (Array.isArray(params)) {
    checkCount(params.length, paramsMax, at)
    return params.map((value, i) => decodeParam(value, exact, { at, name: i }))
  }
  if (typeof params !== 'object') {
    throw new CellError('invalid_parameter', `${at} must be a list, or an object for named placeholders.`, {
      field: at,
    })
  }
  const named: Record<string, SqlParam> = Object.create(null)
  const names = Object.keys(params)
  checkCount(names.length, paramsMax, at)
  for (const name of names) {
    const bare = name.replace(PLACEHOLDER_SIGN, '')
    const place = { at, name }
    if (bare in named) throw refused(place, 'is given twice, with and without the sign before its name')
    named[bare] = decodeParam((params as Record<string, unknown>)[name], exact, place)
  }
  return named
}

function checkCount(count: number, max: number, field: string): void {
  if (count <= max) return
  const message = `A statement takes at most ${max} parameters (limits.paramsMax).`
  throw new CellError('invalid_parameter', message, { field, limit: max })
}

/** Where a parameter stands. It is put into words only for an error: there can be a million parameters in a batch. */
interface Place {
  at: string
  name: string | number
}

function decodeParam(value: unknown, exact: boolean, field: Place): SqlParam {
  switch (typeof value) {
    case 'string':
    case 'boolean':
    case 'bigint':
      return value
    case 'number':
      checkNotRounded(value, exact, field)
      return value
    case 'object':
      if (value === null) return null
      return decodeTyped(value as { type?: unknown; value?: unknown; base64?: unknown }, field)
  }
  throw refused(field, 'must be a JSON value')
}

/**
 * A whole number, as JSON or in the typed form of parameters.
 *
 * @throws `invalid_request`
 */
export function decodeInteger(value: unknown, exact: boolean, field: string): number | bigint {
  if (typeof value === 'bigint' || Number.isSafeInteger(value)) return value as number | bigint
  if (isTypedInteger(value) && INTEGER.test(value.value)) return BigInt(value.value)
  const beyond = exact ? '' : '; send one beyond ±(2^53−1) as {"type":"integer","value":"…"}'
  throw new CellError('invalid_request', `${field} must be a whole number of 64 bits${beyond}.`, { field })
}

/**
 * A framework's parser rounds every large integer. Ours keeps those that are written as integers, so that only a fraction
 * or an exponent can be meant here.
 */
function checkNotRounded(value: number, exact: boolean, field: Place): void {
  if (Number.isSafeInteger(value) || !Number.isInteger(value) || (exact && !mayBeRounded(value))) return
  throw refused(
    field,
    'is a whole number beyond ±(2^53−1) that may have been rounded: send {"type":"integer","value":"…"} or {"type":"real","value":…}',
  )
}

function decodeTyped(
  { type, value, base64 }: { type?: unknown; value?: unknown; base64?: unknown },
  field: Place,
): SqlParam {
  if (type === 'integer') {
    if (typeof value === 'string' && INTEGER.test(value)) return BigInt(value)
    if (typeof value === 'string' && ANY_INTEGER.test(value)) throw refused(field, 'does not fit in 64 bits')
    throw refused(
      field,
      'must be {"type":"integer","value":"…"} with the digits of a 64-bit integer in a string',
    )
  }
  if (type === 'real') {
    if (typeof value === 'number') return { type, value }
    // An integer beyond ±(2^53−1), as our parser gives it.
    if (isTypedInteger(value)) return { type, value: Number(value.value) }
    // As an answer shows it: JSON has no number for it.
    if (value === 'Infinity' || value === '-Infinity') return { type, value: Number(value) }
    throw refused(field, 'must be {"type":"real","value":…} with a number, "Infinity" or "-Infinity"')
  }
  if (type === 'blob') {
    if (typeof base64 === 'string' && base64.length % 4 !== 1 && BASE64.test(base64))
      return Buffer.from(base64, 'base64')
    throw refused(field, 'must be {"type":"blob","base64":"…"} with the bytes in base64')
  }
  throw refused(
    field,
    'must be null, true, false, a number, a string, {"type":"integer","value":"…"}, {"type":"real","value":…} or {"type":"blob","base64":"…"}',
  )
}

function isTypedInteger(value: unknown): value is { type: 'integer'; value: string } {
  if (typeof value !== 'object' || value === null || !('type' in value) || !('value' in value)) return false
  return value.type === 'integer' && typeof value.value === 'string'
}

function refused({ at, name }: Place, why: string): CellError {
  const field = typeof name === 'number' ? `${at}[${name}]` : `${at}.${name}`
  return new CellError('invalid_parameter', `${field} ${why}.`, { field })
}
