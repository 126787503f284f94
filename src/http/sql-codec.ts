import { z } from 'zod'
import type { SqlParam, SqlParams, SqlRow, SqlValue } from '../engine/statements/sql-values.ts'
import { CellError } from '../errors.ts'
import type { OperationResults } from '../service/operations.ts'
import { integer, text } from './fields.ts'

/** Parameters are decoded by hand: their values differ in kind, and there can be 32,766 of them. */
export const sqlSchema = z.object({
  sql: text,
  params: z.unknown().optional(),
  row_mode: z.enum(['object', 'array'], { error: 'takes "object" or "array"' }).optional(),
})

/** What the body of a request can say beside its statements. */
export const timeoutSchema = z.object({ timeout_ms: integer.optional() })

const INTEGER = /^-?\d{1,19}$/
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/
/** How names are written in SQL; in `params` they go with this sign or without. */
const PLACEHOLDER_SIGN = /^[:@$?]/

/**
 * The parameters of a statement, from JSON.
 *
 * @param exact whether integers are as they were sent: see `JsonBody`
 * @throws `invalid_parameter`
 */
export function decodeParams(params: unknown, exact: boolean, at = 'params'): SqlParams | undefined {
  if (params === undefined || params === null) return undefined
  if (Array.isArray(params)) return params.map((value, i) => decodeParam(value, exact, `${at}[${i}]`))
  if (typeof params !== 'object') {
    throw new CellError('invalid_parameter', `${at} takes a list, or an object for named placeholders.`, {
      field: at,
    })
  }
  const named: Record<string, SqlParam> = Object.create(null)
  for (const [key, value] of Object.entries(params)) {
    const bare = key.replace(PLACEHOLDER_SIGN, '')
    const field = `${at}.${key}`
    if (bare in named) throw refused(field, 'is given twice, with and without the sign before its name')
    named[bare] = decodeParam(value, exact, field)
  }
  return named
}

function decodeParam(value: unknown, exact: boolean, field: string): SqlParam {
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
  throw refused(field, 'takes a JSON value')
}

/**
 * A whole number, beside `delta` also as the typed form.
 *
 * @throws `invalid_request`
 */
export function decodeInteger(value: unknown, exact: boolean, field: string): number | bigint {
  if (typeof value === 'bigint' || Number.isSafeInteger(value)) return value as number | bigint
  if (
    typeof value === 'object' &&
    value !== null &&
    'type' in value &&
    value.type === 'integer' &&
    'value' in value
  ) {
    if (typeof value.value === 'string' && INTEGER.test(value.value)) return BigInt(value.value)
  }
  const beyond = exact ? '' : ', and beyond ±(2^53−1) {"type":"integer","value":"…"}'
  throw new CellError('invalid_request', `${field} takes a whole number of 64 bits${beyond}.`, { field })
}

/**
 * A framework's parser rounds every large integer. Ours keeps those that are written as integers, so that only a fraction
 * or an exponent can be meant here; from 2^63 on it can only be meant as a REAL.
 */
function checkNotRounded(value: number, exact: boolean, field: string): void {
  if (!Number.isInteger(value) || Number.isSafeInteger(value)) return
  if (exact && Math.abs(value) >= 2 ** 63) return
  throw refused(
    field,
    'is a whole number beyond ±(2^53−1) that may have been rounded: send {"type":"integer","value":"…"} or {"type":"real","value":…}',
  )
}

function decodeTyped(
  { type, value, base64 }: { type?: unknown; value?: unknown; base64?: unknown },
  field: string,
): SqlParam {
  if (type === 'integer') {
    if (typeof value === 'string' && INTEGER.test(value)) return BigInt(value)
    throw refused(
      field,
      'takes {"type":"integer","value":"…"} with the digits of a 64-bit integer as a string',
    )
  }
  if (type === 'real') {
    if (typeof value === 'number' || typeof value === 'bigint') return { type, value: Number(value) }
    throw refused(field, 'takes {"type":"real","value":…} with a number')
  }
  if (type === 'blob') {
    if (typeof base64 === 'string' && base64.length % 4 !== 1 && BASE64.test(base64))
      return Buffer.from(base64, 'base64')
    throw refused(field, 'takes {"type":"blob","base64":"…"} with the bytes in base64')
  }
  throw refused(
    field,
    'takes null, true, false, a number, a string, {"type":"integer","value":"…"}, {"type":"real","value":…} or {"type":"blob","base64":"…"}',
  )
}

function refused(field: string, why: string): CellError {
  return new CellError('invalid_parameter', `${field} ${why}.`, { field })
}

export type SqlDocument = ReturnType<typeof encodeSqlResult>

/** The answer to a statement. Takes the result's rows over: their values become what JSON can hold exactly. */
export function encodeSqlResult(result: OperationResults['sql']) {
  const { columns, rows, changes, lastInsertRowid, durationMs } = result
  for (const row of rows) encodeRow(row)
  return {
    columns,
    rows,
    row_count: rows.length,
    changes,
    last_insert_rowid: typeof lastInsertRowid === 'bigint' ? lastInsertRowid.toString() : lastInsertRowid,
    duration_ms: Math.round(durationMs * 1_000) / 1_000,
  }
}

function encodeRow(row: SqlRow | SqlValue[]): void {
  // Arrays have their indexes for keys, so that both kinds are the same here.
  const values = row as Record<string, unknown>
  for (const key in values) {
    const value = values[key]
    if (typeof value === 'string' || value === null) continue
    if (typeof value === 'number') {
      if (!Number.isFinite(value)) values[key] = String(value)
    } else if (typeof value === 'bigint') values[key] = value.toString()
    else values[key] = encodeBlob(value as Uint8Array)
  }
}

function encodeBlob(bytes: Uint8Array): { type: 'blob'; base64: string } {
  const { buffer, byteOffset, byteLength } = bytes
  return { type: 'blob', base64: Buffer.from(buffer, byteOffset, byteLength).toString('base64') }
}
