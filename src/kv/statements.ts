import type { CellDatabase } from '../engine/cell-database.ts'
import type { Statement } from '../engine/sqlite.ts'
import * as queries from './queries.ts'

/**
 * The KV statements of one open database, which end with it. Each is prepared with its first use: most of thousands of
 * open cells need two or three.
 */
export class KvStatements {
  static readonly #byDatabase = new WeakMap<CellDatabase, KvStatements>()
  readonly database: CellDatabase
  #getValue: Statement | undefined
  #getEntry: Statement | undefined
  #getExpiry: Statement | undefined
  #updateLive: Statement | undefined
  #updateLiveValue: Statement | undefined
  #upsert: Statement | undefined
  #updateExpiry: Statement | undefined
  #deleteLive: Statement | undefined
  #lists: Map<string, Statement> | undefined

  private constructor(database: CellDatabase) {
    this.database = database
  }

  /** All handles of a cell share one instance. */
  static of(database: CellDatabase): KvStatements {
    let statements = KvStatements.#byDatabase.get(database)
    if (statements === undefined) {
      statements = new KvStatements(database)
      KvStatements.#byDatabase.set(database, statements)
    }
    return statements
  }

  get getValue(): Statement {
    this.#getValue ??= this.database.prepare(queries.GET_VALUE).pluck()
    return this.#getValue
  }

  get getEntry(): Statement {
    this.#getEntry ??= this.database.prepare(queries.GET_ENTRY).raw()
    return this.#getEntry
  }

  get getExpiry(): Statement {
    this.#getExpiry ??= this.database.prepare(queries.GET_EXPIRY).raw()
    return this.#getExpiry
  }

  get updateLive(): Statement {
    this.#updateLive ??= this.database.prepare(queries.UPDATE_LIVE)
    return this.#updateLive
  }

  get updateLiveValue(): Statement {
    this.#updateLiveValue ??= this.database.prepare(queries.UPDATE_LIVE_VALUE)
    return this.#updateLiveValue
  }

  get upsert(): Statement {
    this.#upsert ??= this.database.prepare(queries.UPSERT)
    return this.#upsert
  }

  get updateExpiry(): Statement {
    this.#updateExpiry ??= this.database.prepare(queries.UPDATE_EXPIRY)
    return this.#updateExpiry
  }

  get deleteLive(): Statement {
    this.#deleteLive ??= this.database.prepare(queries.DELETE_LIVE)
    return this.#deleteLive
  }

  list(values: boolean, reverse: boolean): Statement {
    this.#lists ??= new Map()
    const sql = queries.listQuery(values, reverse)
    let statement = this.#lists.get(sql)
    if (statement === undefined) {
      statement = this.database.prepare(sql).raw()
      this.#lists.set(sql, statement)
    }
    return statement
  }
}
