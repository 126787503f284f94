import type { OperationRow } from './operation-row.ts'

/** The codes of mistakes in a call, as the server and the library have them. */
export type ArgumentCode = 'invalid_request' | 'invalid_parameter' | 'invalid_ttl'

/** A mistake in a call, found before anything is sent. */
export class ArgumentError extends TypeError {
  override readonly name = 'ArgumentError'
  readonly code: ArgumentCode
  /** Which argument, by its path: `params[0]`, `entries[2].if_version`. */
  readonly field: string

  constructor(field: string, why: string, code?: ArgumentCode) {
    super(`${field} ${why}`)
    this.code = code ?? codeOf(field)
    this.field = field
  }
}

/**
 * What may be present and undefined, and then counts as absent. All else is refused so: without its version, its condition or its
 * time to live a call would do something else than its caller wants.
 */
const MAY_BE_UNDEFINED: ReadonlySet<string> = new Set([
  'cursor',
  'limit',
  'reverse',
  'values',
  'timeout_ms',
  'row_mode',
  'params',
  'delta',
])
/** From here on JSON writes a number with an exponent, which the server takes for a REAL; below, for an integer. */
const EXPONENT_MIN = 1e21
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
  const known = [...namesIn(path), ...query, ...(body ?? [])]
  const checked: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(args)) {
    if (!known.includes(name))
      throw new ArgumentError(
        name,
        `is not known. ${known.length === 0 ? 'None is taken here.' : `Known are ${known.join(', ')}.`}`,
      )
    // A new cell or key need not have a name; a search by name must not be one of all.
    const isFree = MAY_BE_UNDEFINED.has(name) || (name === 'name' && body?.includes(name))
    if (value === undefined && isFree) continue
    checked[name] = name === 'params' ? paramsOf(value, name) : jsonOf(value, name, 0)
  }
  return checked
}

/** The names of an object of options. @throws `ArgumentError` for others */
export function checkNames(options: object, known: readonly string[], what: string): void {
  if (typeof options !== 'object' || options === null) throw new ArgumentError(what, 'must be an object.')
  const unknown = Object.keys(options).find((name) => !known.includes(name))
  if (unknown !== undefined)
    throw new ArgumentError(`${what}.${unknown}`, `is not known. Known are ${known.join(', ')}.`)
}

function namesIn(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name)
}

function jsonOf(value: unknown, at: string, depth: number): unknown {
  if (depth > DEPTH_MAX) throw new ArgumentError(at, 'is nested too deeply, or holds itself.')
  switch (typeof value) {
    case 'undefined':
      throw new ArgumentError(at, 'is undefined: leave it out if that is meant.')
    case 'bigint':
      throw new ArgumentError(at, 'is a bigint, which JSON has no form for: pass integer(…).')
    case 'function':
    case 'symbol':
      throw new ArgumentError(at, `is a ${typeof value}, which JSON has no form for.`)
    case 'number':
      return numberOf(value, at)
    case 'object':
      break
    default:
      return value
  }
  if (value === null || value instanceof Date) return value
  if (Array.isArray(value)) return Array.from(value, (each, i) => jsonOf(each, `${at}[${i}]`, depth + 1))
  if (isReal(value)) return realOf(value.value, at)
  const prototype = Object.getPrototypeOf(value)
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null)
    throw new ArgumentError(
      at,
      `is a ${prototype.constructor?.name}, which JSON has no form for: pass blob(…) for bytes.`,
    )
  const members: Record<string, unknown> = {}
  for (const [name, member] of Object.entries(value)) {
    if (member === undefined && MAY_BE_UNDEFINED.has(name)) continue
    const path = `${at}.${name}`
    members[name] = name === 'params' ? paramsOf(member, path) : jsonOf(member, path, depth + 1)
  }
  return members
}

/** Parameters of a statement. An infinite number is a valid REAL. */
function paramsOf(params: unknown, at: string): unknown {
  if (typeof params !== 'object' || params === null) return jsonOf(params, at, 0)
  if (Array.isArray(params)) return Array.from(params, (each, i) => paramOf(each, `${at}[${i}]`))
  if (Symbol.iterator in params || params instanceof Date)
    throw new ArgumentError(at, 'must be a list, or a plain object for named parameters.')
  return Object.fromEntries(
    Object.entries(params).map(([name, value]) => [name, paramOf(value, `${at}.${name}`)]),
  )
}

function paramOf(value: unknown, at: string): unknown {
  if (value === Number.POSITIVE_INFINITY || value === Number.NEGATIVE_INFINITY) return realOf(value, at)
  if (value instanceof Date) throw new ArgumentError(at, 'is a Date: pass a number or a text.')
  return jsonOf(value, at, 0)
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
  if (Number.isNaN(value)) throw new ArgumentError(at, 'is NaN, which JSON has no form for.')
  if (!Number.isFinite(value)) throw new ArgumentError(at, 'is infinite, which JSON has no form for.')
  if (Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < EXPONENT_MIN)
    throw new ArgumentError(
      at,
      'is a whole number beyond ±(2^53−1), which may have been rounded: pass integer(…), or real(…) for a REAL.',
    )
  return value
}

function codeOf(field: string): ArgumentCode {
  if (/(^|\.)params\b/.test(field)) return 'invalid_parameter'
  return /(^|\.)ttl_seconds$/.test(field) ? 'invalid_ttl' : 'invalid_request'
}
