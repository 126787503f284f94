import { nameMend } from '../base/options/known-names.ts'
import type { BodyFields, OperationRow } from './operation-row.ts'

/** The codes of mistakes in a call, as the server and the library have them. */
export type ArgumentCode = 'invalid_request' | 'invalid_key' | 'invalid_parameter' | 'invalid_ttl'

/** A mistake in a call, found before anything is sent. */
export class ArgumentError extends TypeError {
  override readonly name = 'ArgumentError'
  readonly code: ArgumentCode
  /** Which argument, by its path: `params[0]`, `entries[2].if_version`. */
  readonly field: string

  constructor(field: string, why: string) {
    super(`${field} ${why}`)
    this.code = codeOf(field)
    this.field = field
  }
}

/**
 * What may be present and undefined, and then counts as absent. All else is refused so: without its version, its condition or its
 * time to live a call would do something else than its caller wants.
 */
export const MAY_BE_UNDEFINED = [
  ...(['cursor', 'limit', 'reverse', 'values'] as const),
  ...(['timeout_ms', 'row_mode', 'params', 'delta'] as const),
] as const
/** Of a new cell or key, which need not have one. A search by name must not be one of all. */
export const NEW_NAME = 'name'

/** From here on a number can only be meant as a REAL; as JSON writes it, the server would take it for an integer. */
const REAL_MIN = 2 ** 63
const DEPTH_MAX = 64

type Arguments = Readonly<Record<string, unknown>>

/**
 * The arguments of a call as JSON can hold them.
 *
 * @throws `ArgumentError` for names that the operation does not take, for what is undefined and must not be, and for values that
 * JSON has no form for
 */
export function checkedArguments({ path, query, body }: OperationRow, args: Arguments): Arguments {
  if (typeof args !== 'object' || args === null || Array.isArray(args))
    throw new ArgumentError('arguments', 'must be an object.')
  const fields = body ?? {}
  checkNames(args, [...namesIn(path), ...query, ...Object.keys(fields)])
  const given = Object.entries(args).filter(([name, value]) => {
    const isFree = mayBeUndefined(name) || (name === NEW_NAME && Object.hasOwn(fields, name))
    return value !== undefined || !isFree
  })
  return Object.fromEntries(
    given.map(([name, value]) => [name, argumentOf(value, name, name, fields[name] ?? {}, 0)]),
  )
}

/** @param at what precedes the names in messages: `options.` @throws `ArgumentError` for a name that is not known */
export function checkNames(given: object, known: readonly string[], at = ''): void {
  const unknown = Object.keys(given).find((name) => !known.includes(name))
  if (unknown !== undefined) throw new ArgumentError(at + unknown, `is not known${nameMend(unknown, known)}`)
}

function mayBeUndefined(name: string): boolean {
  return (MAY_BE_UNDEFINED as readonly string[]).includes(name)
}

function namesIn(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
}

function argumentOf(value: unknown, name: string, at: string, fields: BodyFields, depth: number): unknown {
  return name === 'params' ? paramsOf(value, at, depth) : jsonOf(value, at, fields, depth)
}

/** @param fields those that an object has here; none: any */
function jsonOf(value: unknown, at: string, fields: BodyFields, depth: number): unknown {
  if (depth > DEPTH_MAX) throw new ArgumentError(at, 'is nested too deeply, or holds itself.')
  switch (typeof value) {
    case 'undefined':
      throw new ArgumentError(at, 'is undefined: leave it out if that is meant.')
    case 'bigint':
      throw noForm(at, 'a bigint', 'integer(…)')
    case 'function':
    case 'symbol':
      throw noForm(at, `a ${typeof value}`)
    case 'number':
      return numberOf(value, at)
    case 'string':
      if (!value.isWellFormed())
        throw new ArgumentError(at, 'holds a lone surrogate, which is not valid Unicode.')
      return value
    case 'object':
      return value === null ? null : objectOf(value, at, fields, depth)
    default:
      return value
  }
}

function objectOf(value: object, at: string, fields: BodyFields, depth: number): unknown {
  if (Array.isArray(value))
    return Array.from(value, (each, i) => jsonOf(each, `${at}[${i}]`, fields, depth + 1))
  if (value instanceof Date && !Number.isNaN(value.getTime())) return value.toISOString()
  if (isReal(value)) return realOf(value.value, at)
  const prototype = Object.getPrototypeOf(value)
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null)
    throw noForm(at, `a ${prototype.constructor?.name}`, ArrayBuffer.isView(value) ? 'blob(…)' : undefined)
  const known = Object.keys(fields)
  if (known.length > 0) checkNames(value, known, `${at}.`)
  const members = Object.entries(value).filter(
    ([name, member]) => member !== undefined || !mayBeUndefined(name),
  )
  return Object.fromEntries(
    members.map(([name, member]) => [
      name,
      argumentOf(member, name, `${at}.${name}`, fields[name] ?? {}, depth + 1),
    ]),
  )
}

/** Parameters of a statement. */
function paramsOf(params: unknown, at: string, depth: number): unknown {
  if (typeof params !== 'object' || params === null) return jsonOf(params, at, {}, depth)
  if (Array.isArray(params)) return Array.from(params, (each, i) => paramOf(each, `${at}[${i}]`, depth + 1))
  if (Symbol.iterator in params || params instanceof Date)
    throw new ArgumentError(at, 'must be a list, or a plain object for named parameters.')
  return Object.fromEntries(
    Object.entries(params).map(([name, value]) => [name, paramOf(value, `${at}.${name}`, depth + 1)]),
  )
}

function paramOf(value: unknown, at: string, depth: number): unknown {
  // An infinite number is a valid REAL.
  if (typeof value === 'number' && (value >= REAL_MIN || value < -REAL_MIN)) return realOf(value, at)
  if (value instanceof Date) throw new ArgumentError(at, 'is a Date: pass a number or a text.')
  return jsonOf(value, at, {}, depth)
}

function isReal(value: object): value is { type: 'real'; value: number } {
  return 'type' in value && value.type === 'real' && 'value' in value && typeof value.value === 'number'
}

function realOf(value: number, at: string): { type: 'real'; value: number | string } {
  if (Number.isNaN(value))
    throw new ArgumentError(at, 'is NaN, which SQLite has no counterpart for: pass null.')
  return { type: 'real', value: Number.isFinite(value) ? value : String(value) }
}

function numberOf(value: number, at: string): number {
  if (!Number.isFinite(value)) throw noForm(at, String(value))
  if (Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) <= REAL_MIN) {
    const mend = takesTyped(at) ? ': pass integer(…), or real(…) for a REAL.' : '.'
    throw new ArgumentError(at, `is a whole number beyond ±(2^53−1), which may have been rounded${mend}`)
  }
  return value
}

/** @param typed the function that makes a form of it, where one is taken */
function noForm(at: string, what: string, typed?: string): ArgumentError {
  const mend = typed !== undefined && takesTyped(at) ? `: pass ${typed}.` : '.'
  return new ArgumentError(at, `is ${what}, which JSON has no form for${mend}`)
}

function takesTyped(at: string): boolean {
  return /(^|\.)(params\b|delta$)/.test(at)
}

function codeOf(field: string): ArgumentCode {
  if (/(^|\.)params\b/.test(field)) return 'invalid_parameter'
  if (/(^|\.)(key|keys\[\d+\])$/.test(field)) return 'invalid_key'
  return /(^|\.)ttl_seconds$/.test(field) ? 'invalid_ttl' : 'invalid_request'
}
