import type { CellDatabase } from '../engine/cell-database.ts'
import type { Statement } from '../engine/sqlite.ts'
import type { KvEntry } from './entry.ts'
import { GET_ENTRY, GET_EXPIRY } from './queries.ts'
import { secondsLeft } from './ttl.ts'

/**
 * The KV statements of one open database, which end with it. Each is prepared with its first use: most of thousands of
 * open cells need two or three.
 */
export class KvStatements {
  static readonly #byDatabase = new WeakMap<CellDatabase, KvStatements>()
  readonly database: CellDatabase
  readonly #prepared = new Map<string, Statement>()

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

  /** @param sql one of queries.ts. Rows of one column come as its value, others as arrays */
  find(sql: string): Statement {
    return this.#prepared.get(sql) ?? this.#prepare(sql)
  }

  /** @returns undefined if there is no live entry */
  entry(key: string, now: number): KvEntry | undefined {
    const row = this.find(GET_ENTRY).get(key, now) as [string, number | null] | undefined
    return row && { key, value: row[0], ttlSeconds: secondsLeft(row[1], now), expiresAt: row[1] }
  }

  /** @returns null for an entry that does not expire, undefined if there is no live entry */
  expiry(key: string, now: number): number | null | undefined {
    return this.find(GET_EXPIRY).get(key, now) as number | null | undefined
  }

  #prepare(sql: string): Statement {
    const statement = this.database.prepare(sql)
    if (statement.reader) {
      if (statement.columns().length === 1) statement.pluck()
      else statement.raw()
    }
    this.#prepared.set(sql, statement)
    return statement
  }
}
