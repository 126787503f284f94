import { isBytes } from '../../base/any-realm.ts'
import type { ResultLimits } from '../../base/options/limits.ts'
import { checkOptions, type Shape } from '../../base/options/option-shapes.ts'
import type { CellAccess } from '../../engine/holds/cell-access.ts'
import { rowObject } from '../../engine/statements/rows.ts'
import { SQL_OPTIONS } from '../../engine/statements/sql-options.ts'
import type {
  NamedParams,
  SqlParam,
  SqlParams,
  SqlReal,
  SqlRow,
  SqlValue,
} from '../../engine/statements/sql-values.ts'
import type { SqlOptions } from '../../engine/statements/statement-runner.ts'

/** How {@link Cell.prepare}'s statement is run. */
export interface PrepareOptions extends Pick<SqlOptions, 'policy'> {
  /** Bounds on the rows of `all()` and `iterate()`. Default: none for `all()`; 64 MiB for `iterate()`. */
  limits?: ResultLimits | undefined
}

const { policy, limits } = SQL_OPTIONS
const PREPARE: Shape<PrepareOptions> = { policy, limits }

/** What a change has done. */
export interface RunResult {
  /** Rows inserted, changed or deleted. */
  changes: number
  /** Of an INSERT that inserted a row; otherwise null. A bigint beyond ±(2^53−1). */
  lastInsertRowid: number | bigint | null
}

/** Of {@link CellStatement}: values for `?` one by one, or all of them as a list or, for named placeholders, an object. */
export type StatementParams<P extends object = never> =
  | readonly SqlParam[]
  | readonly [SqlParams | NamedParams<P>]

/** What `iterate()` reads at once, if the statement has no limits of its own. */
const ITERATE_LIMITS: ResultLimits = { rowsMax: Number.MAX_SAFE_INTEGER, bytesMax: 64 * 1_048_576 }

/** `object`: by column name. `array`: in column order. `value`: the first column's alone. */
type RowShape = 'object' | 'array' | 'value'

/**
 * A statement of one cell, used as one of better-sqlite3. It stays valid for as long as the cell's handle does: while the store
 * closes and reopens the file, after a change of the schema and after a restore, it is prepared again with its next use.
 *
 * ```ts
 * const byId = cell.prepare<User>('SELECT * FROM users WHERE id = ?')
 * byId.get(7)?.name
 * const count = cell.prepare<number>('SELECT count(*) FROM users').pluck()
 * count.get()
 * ```
 *
 * Each of its methods can throw what {@link Cell.sql} throws, and what any use of the cell can throw.
 *
 * @typeParam Row what a row is, in the form that `pluck()` or `raw()` chose; SQLite does not check it
 */
export class CellStatement<Row = SqlRow> {
  /** The SQL text. */
  readonly source: string
  /** Whether it gives rows: a SELECT, a PRAGMA that answers, a change with RETURNING. */
  readonly reader: boolean
  readonly #use: () => CellAccess
  readonly #options: PrepareOptions
  #shape: RowShape = 'object'
  /** What the shape asks for: made once, not for each row. */
  #runOptions: SqlOptions

  /** @internal Statements come from `cell.prepare()`. */
  constructor(sql: string, options: PrepareOptions, use: () => CellAccess) {
    checkOptions(options, PREPARE)
    this.source = sql
    this.#options = { policy: options.policy, limits: options.limits }
    this.#runOptions = this.#options
    this.#use = use
    this.reader = use().statement((runner) => runner.prepare(sql, this.#options))
  }

  /**
   * The first row, or undefined. SQLite looks for no other row.
   *
   * @throws `invalid_request` for a statement that gives no rows
   */
  get<P extends object = never>(...params: StatementParams<P>): Row | undefined {
    const row = this.#use().statement((runner) =>
      runner.first(this.source, paramsOf(params), this.#runOptions),
    )
    return (this.#shape === 'value' && row !== undefined ? (row as SqlValue[])[0] : row) as Row | undefined
  }

  /** All rows. @throws `result_too_large` beyond the statement's `limits` */
  all<P extends object = never>(...params: StatementParams<P>): Row[] {
    const { rows } = this.#use().sql<Row | SqlValue[]>(this.source, paramsOf(params), this.#runOptions)
    return (this.#shape === 'value' ? (rows as SqlValue[][]).map(([value]) => value) : rows) as Row[]
  }

  /** Runs it without keeping rows. Outside {@link Cell.transaction} a change is committed when this returns. */
  run<P extends object = never>(...params: StatementParams<P>): RunResult {
    const { changes, lastInsertRowid } = this.#use().sql(this.source, paramsOf(params), this.#options)
    return { changes, lastInsertRowid }
  }

  /**
   * The rows one by one. The statement runs to its end with the first step, so all rows are of one state, and anything may happen
   * to the cell between two steps. The rows that have not been taken stay in memory, at most 64 MiB of them or the statement's
   * `limits`; `break` frees them. For more, ask for pages: `WHERE id > ? ORDER BY id LIMIT 1000`.
   *
   * @throws `result_too_large`, at the first step
   */
  *iterate<P extends object = never>(...params: StatementParams<P>): Generator<Row, void, undefined> {
    const options = {
      ...this.#options,
      limits: this.#options.limits ?? ITERATE_LIMITS,
      rowMode: 'array',
    } as const
    const { columns, rows } = this.#use().sql<SqlValue[] | undefined>(this.source, paramsOf(params), options)
    for (let i = 0; i < rows.length; i++) {
      const row = rows[i] as SqlValue[]
      rows[i] = undefined
      yield this.#shaped(columns, row)
    }
  }

  /** Whether a row is the value of its first column; true without an argument. @returns this statement */
  pluck(toggle = true): this {
    return this.#as(toggle ? 'value' : 'object')
  }

  /** Whether a row is an array of its values, in the order of the columns; true without an argument. @returns this statement */
  raw(toggle = true): this {
    return this.#as(toggle ? 'array' : 'object')
  }

  #as(shape: RowShape): this {
    this.#shape = shape
    this.#runOptions = { ...this.#options, rowMode: shape === 'object' ? 'object' : 'array' }
    return this
  }

  #shaped(columns: readonly string[], row: SqlValue[]): Row {
    if (this.#shape === 'array') return row as Row
    return (this.#shape === 'value' ? row[0] : rowObject(columns, row)) as Row
  }
}

function paramsOf<P extends object>(params: StatementParams<P>): SqlParams {
  const [only] = params
  if (params.length !== 1 || typeof only !== 'object' || only === null) return params as readonly SqlParam[]
  return isBytes(only) || isReal(only) ? [only] : (only as SqlParams)
}

/** A lone `{ type: 'real', value: 1 }` is a value: an object with these two names for placeholders is passed in no other way. */
function isReal(value: object): value is SqlReal {
  return 'type' in value && value.type === 'real' && 'value' in value && typeof value.value === 'number'
}
