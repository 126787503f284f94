import { CellError, type CellErrorCode } from '../../errors.ts'
import { unknownName } from './known-names.ts'
import { shownValue } from './shown-value.ts'

/**
 * What an option may be. Every function that takes an object of options has a {@link Shape} of it, and {@link checkOptions} is
 * the one way in which names, types and the absence of a value are checked.
 */
export interface Kind<T> {
  /** What follows `must be` in a message. */
  readonly what: string
  fits(value: unknown): boolean
  /** Of an object with options of its own. */
  readonly shape?: AnyShape
  /** Whether the option may be there and undefined: see {@link maybe}. */
  readonly mayBeUndefined?: true
  /** Whether a wrong value stays out of the message. */
  readonly secret?: true
  /** Never there: it makes TypeScript compare the option's type exactly. */
  readonly type?: (value: T) => T
}

/**
 * The options of an interface, none missing and none too many, each with its type: TypeScript checks the table against the interface.
 * An option whose type leaves out undefined narrows or guards, and is refused if it is undefined (docs/store.md).
 */
export type Shape<T> = { readonly [K in keyof T]-?: Kind<Required<T>[K]> }

// biome-ignore lint/suspicious/noExplicitAny: of any option
type AnyKind = Kind<any>
type AnyShape = Readonly<Record<string, AnyKind>>

/**
 * What a call gives as its options: `O extends Options & Given<O, Options>`. Nothing that narrows or guards may be undefined, also without
 * `exactOptionalPropertyTypes`, where TypeScript does not tell such options from others: so they are named here. What a
 * variable's type declares as optional passes: only the call itself finds out.
 *
 * @typeParam More names that narrow in this call alone
 */
export type Given<O, Options, More extends string = never> = {
  [K in keyof O]: K extends keyof Options
    ? K extends 'from'
      ? Given<O[K], Options[K]>
      : K extends
            | ('accountId' | 'access' | 'cellIds' | 'surface' | 'version' | 'timestamp' | 'ifVersion')
            | ('prefix' | 'tables' | 'ttlSeconds' | 'ttlMs' | 'expiresAt' | 'graceMs' | 'dryRun')
            | More
        ? Record<never, never> extends Pick<O, K>
          ? O[K]
          : Exclude<O[K], undefined>
        : O[K]
    : unknown extends O
      ? // biome-ignore lint/suspicious/noExplicitAny: what `Parameters` makes of such a method has no names to check
        any
      : never
}

export interface OptionContext {
  /** Default `invalid_request`. */
  code?: Extract<CellErrorCode, 'invalid_request' | 'invalid_setting'> | undefined
  /** What precedes the name in messages: `backups.`, `entries[2].`. */
  at?: string | undefined
  /** What follows where the object is none: what its caller has most likely meant. */
  hint?: string | undefined
}

/**
 * Checks options before anything happens: an unknown one would be ignored without a word, and a text such as 'false' would count
 * as true.
 *
 * @throws `invalid_request` or `invalid_setting`, with the option's name
 */
export function checkOptions<T extends object>(given: T, shape: Shape<T>, context: OptionContext = {}): void {
  check(given, shape as AnyShape, context)
}

function check(given: unknown, shape: AnyShape, context: OptionContext): void {
  if (!isPlain(given)) throw noObject(given, context)
  const { code = 'invalid_request', at = '' } = context
  // Also what is inherited: an option may come from defaults.
  for (const name in given) {
    const kind = Object.hasOwn(shape, name) ? shape[name] : undefined
    if (kind === undefined)
      throw unknownName(name, Object.keys(shape), { code, at, elsewhere: grouped(shape) })
    const value = given[name]
    if (value === undefined ? kind.mayBeUndefined === true : kind.fits(value)) {
      if (kind.shape !== undefined && isPlain(value)) check(value, kind.shape, { code, at: `${at}${name}.` })
      continue
    }
    throw notOfKind(at + name, kind, value, code)
  }
}

function notOfKind(field: string, { what, secret }: AnyKind, value: unknown, code: CellErrorCode): CellError {
  const message =
    value === undefined
      ? `${field} is undefined: give ${what}, or leave it out.`
      : `${field} must be ${what}${secret ? '' : `, but it is ${shownValue(value)}`}.`
  return new CellError(code, message, { field })
}

function noObject(
  given: unknown,
  { code = 'invalid_request', at = '', hint = '' }: OptionContext,
): CellError {
  const what = at === '' ? 'options' : at.replace(/\.$/, '')
  const but = Array.isArray(given) ? ', not a list' : ''
  return new CellError(code, `${what} must be an object${but}.${hint}`, { field: what })
}

/** Names inside of groups, for a name that stands beside them: `backups.keep`. */
function grouped(shape: AnyShape): string[] {
  return Object.entries(shape).flatMap(([group, kind]) =>
    Object.keys(kind.shape ?? {}).map((name) => `${group}.${name}`),
  )
}

function isPlain(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** It may be there and undefined, as people write it, and counts as left out then. Not for what narrows or guards. */
export function maybe<T>(kind: Kind<T>): Kind<T | undefined> {
  return { ...(kind as Kind<T | undefined>), mayBeUndefined: true }
}

export function orNull<T>(kind: Kind<T>): Kind<T | null> {
  const { shape, what } = kind
  return {
    what: `${what}, or null`,
    fits: (value) => value === null || kind.fits(value),
    ...(shape && { shape }),
  }
}

export const FLAG: Kind<boolean> = { what: 'true or false', fits: (value) => typeof value === 'boolean' }

export const TEXT: Kind<string> = { what: 'a string', fits: (value) => typeof value === 'string' }

/** A number of things, bytes or milliseconds. */
export const COUNT: Kind<number> = {
  what: 'a whole number above 0',
  fits: (value) => Number.isSafeInteger(value) && (value as number) > 0,
}

/** A bound: Infinity is none. */
export const BOUND: Kind<number> = {
  what: 'a number, 0 or more',
  fits: (value) => typeof value === 'number' && value >= 0,
}

/** A time that may be none; no time is endless. */
export const MILLISECONDS: Kind<number> = {
  what: 'a number of milliseconds, 0 or more',
  fits: (value) => Number.isFinite(value) && (value as number) >= 0,
}

/** Also one of another realm, or of a library: it is used by its methods. */
export const SIGNAL: Kind<AbortSignal> = {
  what: 'an AbortSignal',
  fits: (value) => hasAll(value, ['addEventListener', 'removeEventListener', 'throwIfAborted']),
}

export function callback<T extends (...args: never[]) => unknown>(): Kind<T> {
  return { what: 'a function', fits: (value) => typeof value === 'function' }
}

export function oneOf<T extends string>(...choices: readonly T[]): Kind<T> {
  const others = choices.slice(0, -1).join(', ')
  return {
    what: `${others} or ${choices.at(-1)}`,
    fits: (value) => choices.includes(value as T),
  }
}

/** A list, whose entries its reader judges. */
export function list<T>(what: string): Kind<readonly T[]> {
  return { what: `a list of ${what}`, fits: Array.isArray }
}

/** An object that is used by its functions: a log, a clock. */
export function having<T extends object>(...functions: readonly (keyof T & string)[]): Kind<T> {
  const names = functions.join(', ').replace(/, (\w+)$/, ' and $1')
  return { what: `an object with ${names}()`, fits: (value) => hasAll(value, functions) }
}

export function either<A, B>(a: Kind<A>, b: Kind<B>): Kind<A | B> {
  const shape = a.shape ?? b.shape
  return {
    what: `${a.what} or ${b.what}`,
    fits: (value) => a.fits(value) || b.fits(value),
    ...(shape && { shape }),
  }
}

/** An object with options of its own. */
export function group<T extends object>(shape: Shape<T>): Kind<T> {
  return { what: 'an object', fits: isPlain, shape: shape as AnyShape }
}

/** An object whose names are the caller's. */
export function record<T extends object>(what: string): Kind<T> {
  return { what, fits: isPlain }
}

/** Settings that have defaults, of which some are given. */
export type Some<T> = { [K in keyof T]?: T[K] | undefined }

/** A group of {@link Some} of the settings. */
export function some<T extends object>(shape: Shape<T>): Kind<Some<T>> {
  const entries = Object.entries(shape as AnyShape).map(([name, kind]) => [name, maybe(kind)])
  return group(Object.fromEntries(entries)) as Kind<Some<T>>
}

type Defined<T> = { [K in keyof T as undefined extends T[K] ? never : K]: T[K] } & {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>
}

/** What is given, without what is undefined. */
export function definedOnly<T extends object>(given: T): Defined<T> {
  const defined: Partial<T> = {}
  for (const name in given) if (given[name] !== undefined) defined[name] = given[name]
  return defined as unknown as Defined<T>
}

/**
 * What only its reader can judge, by bounds and in words of its own: a time to live, a cursor. A value is there; whether it is a
 * right one is checked by what reads it, before anything happens, too.
 */
export function judgedByReader<T>(what: string): Kind<T> {
  return { what, fits: () => true }
}

/** What has to be there: its reader refuses it where it is not, and so where it is undefined. */
export function required<T>(): Kind<T> {
  return { what: '', fits: () => true, mayBeUndefined: true }
}

function hasAll(value: unknown, functions: readonly string[]): boolean {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false
  return functions.every((name) => typeof (value as Record<string, unknown>)[name] === 'function')
}
