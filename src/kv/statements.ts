import type { CellDatabase } from '../engine/cell-database.ts'
import type { Statement } from '../engine/sqlite.ts'
import * as queries from './queries.ts'

/** The KV statements, prepared on one open database; they die with it. */
export class KvStatements {
  readonly database: CellDatabase
  readonly getValue: Statement
  readonly getEntry: Statement
  readonly getExpiry: Statement
  readonly updateLive: Statement
  readonly updateLiveValue: Statement
  readonly upsert: Statement
  readonly updateExpiry: Statement
  readonly deleteLive: Statement
  readonly #lists = new Map<string, Statement>()

  constructor(database: CellDatabase) {
    this.database = database
    this.getValue = database.prepare(queries.GET_VALUE).pluck()
    this.getEntry = database.prepare(queries.GET_ENTRY).raw()
    this.getExpiry = database.prepare(queries.GET_EXPIRY).raw()
    this.updateLive = database.prepare(queries.UPDATE_LIVE)
    this.updateLiveValue = database.prepare(queries.UPDATE_LIVE_VALUE)
    this.upsert = database.prepare(queries.UPSERT)
    this.updateExpiry = database.prepare(queries.UPDATE_EXPIRY)
    this.deleteLive = database.prepare(queries.DELETE_LIVE)
  }

  list(values: boolean, reverse: boolean): Statement {
    const sql = queries.listQuery(values, reverse)
    let statement = this.#lists.get(sql)
    if (statement === undefined) {
      statement = this.database.prepare(sql).raw()
      this.#lists.set(sql, statement)
    }
    return statement
  }
}
