/** A value as SQLite holds it. An INTEGER is a number while it is safe (±(2^53−1)) and a bigint beyond. */
export type SqlValue = null | number | bigint | string | Uint8Array

/** A number that is bound as REAL, also where it is whole. */
export interface SqlReal {
  type: 'real'
  value: number
}

/** A value as a statement takes it: booleans are bound as 1 and 0, whole numbers and bigints as INTEGER. */
export type SqlParam = SqlValue | boolean | SqlReal

/**
 * A list is bound to `?` in order and to `?NNN` by its number, an object by name to `:name`, `@name`, `$name` and `?NNN`
 * (its keys carry no prefix).
 */
export type SqlParams = readonly SqlParam[] | Readonly<Record<string, SqlParam>>

/**
 * An object of names whose type is an interface: it has no index signature, as {@link SqlParams} asks for. A call that names the
 * type of its rows takes a copy of one: `cell.sql<Row>(sql, { ...user })`.
 */
export type NamedParams<P extends object> = P & { readonly [Name in keyof P]-?: SqlParam }

/**
 * Values for placeholders by SQLite's number, and for those whose name is among the second ones, with its sign or without it. All of a
 * statement's forms may be mixed.
 */
export class MixedParams {
  readonly list: readonly SqlParam[]
  readonly named: ReadonlyMap<string, SqlParam>

  constructor(list: readonly SqlParam[], named: ReadonlyMap<string, SqlParam>) {
    this.list = list
    this.named = named
  }
}

/** A parameter as the driver takes it. */
export type Bindable = null | number | bigint | string | Buffer

/** A row by column names, in the order of the columns. */
export type SqlRow = Record<string, SqlValue>

/** The result of one statement. */
export interface SqlResult<Row = SqlRow> {
  /** Column names in order, as the rows use them: the second column called `name` is `name_2`. */
  columns: string[]
  /** Empty for a statement that returns none. */
  rows: Row[]
  /** Rows inserted, changed or deleted by this statement. */
  changes: number
  /** Of an INSERT that inserted a row; otherwise null. A bigint beyond ±(2^53−1). */
  lastInsertRowid: number | bigint | null
}
