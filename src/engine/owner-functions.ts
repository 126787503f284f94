import { isBytes } from '../base/any-realm.ts'
import {
  callback,
  checkOptions,
  FLAG,
  list,
  maybe,
  record,
  type Shape,
} from '../base/options/option-shapes.ts'
import { CellError } from '../errors.ts'
import { isLate } from './commits/transaction-work.ts'
import type { OwnersNames } from './sql-policy/owners-names.ts'
import { type DriverConnection, openInMemory } from './sqlite.ts'
import { encodeParam } from './statements/parameters.ts'
import { decodeInteger } from './statements/rows.ts'
import type { SqlParam, SqlValue } from './statements/sql-values.ts'

/**
 * A function for SQL. It takes values as rows have them, and returns one as statements take them; undefined is NULL. It
 * must be quick, because the statement and the process wait for it, must not be async, and must not use the cell.
 */
export type SqlFunction = (...args: never[]) => SqlParam | undefined

/** A {@link SqlFunction} and how SQLite may use it. */
export interface SqlFunctionOptions {
  run: SqlFunction
  /** The same arguments always give the same result, so that SQLite may call it once for several rows. Default false. */
  deterministic?: boolean | undefined
  /** It takes any number of arguments. Default false: as many as `run` declares. */
  varargs?: boolean | undefined
}

/** What the owner of a store adds to the SQL of its cells. */
export interface OwnerFunctionsOptions {
  functions?: Readonly<Record<string, SqlFunction | SqlFunctionOptions>> | undefined
  /** Paths of SQLite extensions, native code: `sqliteVec.getLoadablePath()`. */
  extensions?: readonly string[] | undefined
  /** Names of functions and modules, of those above, that the policy `tenant` allows. */
  tenantFunctions?: readonly string[] | undefined
}

export const OWNER_FUNCTIONS: Shape<OwnerFunctionsOptions> = {
  functions: maybe(record('an object of functions')),
  extensions: maybe(list('paths')),
  tenantFunctions: maybe(list('names')),
}
const FUNCTION: Shape<SqlFunctionOptions> = {
  run: callback(),
  deterministic: maybe(FLAG),
  varargs: maybe(FLAG),
}

/** Of an SQLite identifier that needs no quotes and is not the engine's. */
const NAME = /^(?!_cell|sqlite_|pragma_)[a-z_][a-z0-9_]*$/i

/** The functions and extensions of a store, which each connection to one of its cells gets when it is opened. */
export class OwnerFunctions {
  /** What tenants can't use, by name. */
  readonly refused: OwnersNames
  readonly #functions: [name: string, options: SqlFunctionOptions][]
  readonly #extensions: readonly string[]

  /**
   * Tries everything on a database in memory.
   *
   * @returns undefined if there is nothing to add
   * @throws `invalid_setting`
   */
  static of(options: OwnerFunctionsOptions): OwnerFunctions | undefined {
    const { functions = {}, extensions = [], tenantFunctions = [] } = options
    const nothing = [Object.keys(functions), extensions, tenantFunctions].every(({ length }) => length === 0)
    return nothing ? undefined : new OwnerFunctions(functions, extensions, tenantFunctions)
  }

  private constructor(
    functions: Readonly<Record<string, SqlFunction | SqlFunctionOptions>>,
    extensions: readonly string[],
    tenantFunctions: readonly string[],
  ) {
    this.#functions = Object.entries(functions).map(([name, given]) => [name, checkFunction(name, given)])
    this.#extensions = extensions
    const connection = openInMemory()
    try {
      const before = namesOf(connection)
      for (const [name] of this.#functions) {
        if (before.functions.has(name.toLowerCase()))
          throw invalid(`functions.${name}`, 'is a function of SQLite. Choose another name.')
      }
      this.#try(connection)
      this.refused = ownersNames(before, namesOf(connection), tenantFunctions)
    } finally {
      connection.close()
    }
  }

  /** Adds all of it to a connection. */
  apply(connection: DriverConnection): void {
    for (const path of this.#extensions) connection.loadExtension(path)
    for (const [name, options] of this.#functions) define(connection, name, options)
  }

  #try(connection: DriverConnection): void {
    for (const [i, path] of this.#extensions.entries()) {
      const field = `extensions[${i}]`
      if (typeof path !== 'string') throw invalid(field, 'must be a path.')
      try {
        connection.loadExtension(path)
      } catch (cause) {
        throw invalid(field, `could not be loaded: ${(cause as Error).message}`, cause)
      }
    }
    for (const [name, options] of this.#functions) define(connection, name, options)
  }
}

function checkFunction(name: string, given: SqlFunction | SqlFunctionOptions): SqlFunctionOptions {
  const options = typeof given === 'function' ? { run: given } : given
  if (!NAME.test(name))
    throw invalid(
      `functions.${name}`,
      'is not a name for a function: use letters, digits and _, and no prefix of the engine.',
    )
  if (typeof options === 'object' && typeof options?.run === 'function') {
    checkOptions(options, FUNCTION, { code: 'invalid_setting', at: `functions.${name}.` })
    return options
  }
  throw invalid(`functions.${name}`, 'must be a function, or { run, deterministic, varargs }.')
}

function define(connection: DriverConnection, name: string, options: SqlFunctionOptions): void {
  const call = options.run as (...args: SqlValue[]) => unknown
  const run = (...args: unknown[]) => callFunction(name, call, args)
  // The driver takes the number of arguments from the function that it is given.
  Object.defineProperty(run, 'length', { value: call.length })
  const { deterministic = false, varargs = false } = options
  connection.function(name, { deterministic, varargs, safeIntegers: true }, run)
}

function callFunction(name: string, call: (...args: SqlValue[]) => unknown, args: unknown[]): unknown {
  let result: unknown
  try {
    result = call(...args.map(decodeArgument))
  } catch (cause) {
    // Its message is for the owner: the statement can be a tenant's.
    throw new CellError('sql_error', `The function ${name}() failed.`, { cause })
  }
  if (result === undefined) return null
  if (isLate(result)) {
    const text = `The function ${name}() must return its value at once, and has returned a promise or an iterator.`
    throw new CellError('sql_error', text)
  }
  try {
    return encodeParam(result as SqlParam, 'result')
  } catch (cause) {
    throw new CellError('sql_error', `The function ${name}() returned what SQLite can not hold.`, { cause })
  }
}

function decodeArgument(value: unknown): SqlValue {
  if (typeof value === 'bigint') return decodeInteger(value)
  // A copy: the driver's memory ends with the call.
  return isBytes(value) ? new Uint8Array(value) : (value as SqlValue)
}

interface Names {
  functions: ReadonlySet<string>
  modules: ReadonlySet<string>
}

function namesOf(connection: DriverConnection): Names & { added: ReadonlySet<string> } {
  const list = (sql: string) => new Set(connection.prepare(sql).pluck().all() as string[])
  return {
    functions: list('SELECT lower(name) FROM pragma_function_list'),
    added: list('SELECT lower(name) FROM pragma_function_list WHERE NOT builtin'),
    modules: list('SELECT lower(name) FROM pragma_module_list'),
  }
}

function ownersNames(
  before: ReturnType<typeof namesOf>,
  after: ReturnType<typeof namesOf>,
  tenantFunctions: readonly string[],
): OwnersNames {
  const functions = new Set([...after.added].filter((name) => !before.added.has(name)))
  const modules = new Set([...after.modules].filter((name) => !before.modules.has(name)))
  for (const [i, name] of tenantFunctions.entries()) {
    const known = typeof name === 'string' ? name.toLowerCase() : ''
    const isFunction = functions.delete(known)
    if (modules.delete(known) || isFunction) continue
    throw invalid(
      `tenantFunctions[${i}]`,
      `names ${String(name)}, which is not one of functions and extensions.`,
    )
  }
  return { functions, modules }
}

function invalid(field: string, what: string, cause?: unknown): CellError {
  return new CellError('invalid_setting', `${field} ${what}`, { field, cause })
}
