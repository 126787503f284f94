import { types } from 'node:util'
import { isBytes } from '../../base/any-realm.ts'
import { checkWork, refuseLate } from '../../engine/commits/transaction-work.ts'
import type { CellAccess } from '../../engine/holds/cell-access.ts'
import { runScript } from '../../engine/script.ts'
import { statementsOf } from '../../engine/sql-policy/sql-script.ts'
import type { SqlParam, SqlValue } from '../../engine/statements/sql-values.ts'
import { StorageCursor, type StorageValue } from './storage-cursor.ts'
import { StorageKv, type StorageListOptions } from './storage-kv.ts'

/** What the storage needs of its cell. */
export interface StorageContext {
  /** The open database; opens it again if the pool has closed it. */
  database(): CellAccess
  sizeBytes(): number
}

/** A value for a placeholder: what `cell.sql()` takes, and bytes in any form. */
export type StorageBinding = SqlParam | ArrayBuffer | ArrayBufferView

/** SQL in the manner of a Durable Object. */
export class StorageSql {
  readonly #context: StorageContext

  /** @internal Comes with a cell, as `cell.storage.sql`. */
  constructor(context: StorageContext) {
    this.#context = context
  }

  /** Bytes of the database and its write-ahead log on this machine. */
  get databaseSize(): number {
    return this.#context.sizeBytes()
  }

  /**
   * Runs one statement, or several with semicolons between them: these in one transaction, all or none. The values are those of
   * the last statement, and so are the rows. Nothing waits for the cursor: the statement has run to its end.
   *
   * @returns rows of the type that the caller names; SQLite does not check it
   * @throws as `cell.sql()`, and as `cell.exec()` for the statements before the last
   */
  exec<Row = Record<string, StorageValue>>(query: string, ...bindings: StorageBinding[]): StorageCursor<Row> {
    const params = bindings.map(paramOf)
    const database = this.#context.database()
    const [script, last] = splitLast(query)
    const run = () => database.sql<SqlValue[]>(last, params, { rowMode: 'array' })
    if (script === '') return new StorageCursor<Row>(run())
    return new StorageCursor<Row>(
      database.transaction(() => {
        runScript(database, script)
        return run()
      }),
    )
  }
}

/**
 * A cell in the shape of the storage of a SQLite-backed Durable Object, for code that was written for one: Drizzle's
 * `durable-sqlite` for example. A call has committed its change when it returns, so several that belong together need
 * {@link transactionSync}. There are no alarms, bookmarks or snapshots, no `deleteAll()`, `sync()` or `transaction()`.
 */
export class CellStorage {
  readonly sql: StorageSql
  readonly kv: StorageKv
  readonly #database: () => CellAccess

  /** @internal Comes with a cell, as `cell.storage`. */
  constructor(context: StorageContext) {
    this.#database = context.database
    this.sql = new StorageSql(context)
    this.kv = new StorageKv(context.database)
  }

  /** As `cell.transaction()`. What it returns may be a cursor, whose rows have been read. */
  transactionSync<T>(work: () => T): T {
    checkWork(work)
    const [result] = this.#database().transaction(() => {
      const value = work()
      return [value instanceof StorageCursor ? value : refuseLate(value)]
    })
    return result as T
  }

  /** The value, or undefined; of a list of keys, a map of those that exist. */
  get<T = unknown>(key: string): Promise<T | undefined>
  get<T = unknown>(keys: string[]): Promise<Map<string, T>>
  async get(key: string | string[]): Promise<unknown> {
    if (!Array.isArray(key)) return this.kv.get(key)
    const entries = key.map((each) => [each, this.kv.get(each)] as const)
    return new Map(entries.filter(([, value]) => value !== undefined).sort(byKey))
  }

  /** Puts one value, or all members of an object or none. @throws as {@link StorageKv.put} */
  put<T>(key: string, value: T): Promise<void>
  put<T>(entries: Record<string, T>): Promise<void>
  async put(key: string | Record<string, unknown>, value?: unknown): Promise<void> {
    if (typeof key !== 'object' || key === null) return this.kv.put(key, value)
    this.transactionSync(() => {
      for (const [each, its] of Object.entries(key)) this.kv.put(each, its)
    })
  }

  /** @returns whether the key existed; of a list of keys, how many did */
  delete(key: string): Promise<boolean>
  delete(keys: string[]): Promise<number>
  async delete(key: string | string[]): Promise<boolean | number> {
    if (!Array.isArray(key)) return this.kv.delete(key)
    return this.transactionSync(() => key.filter((each) => this.kv.delete(each)).length)
  }

  /** As {@link StorageKv.list}. */
  async list<T = unknown>(options?: StorageListOptions): Promise<Map<string, T>> {
    return new Map(this.kv.list<T>(options))
  }
}

/** What stands before the last statement, and that one. */
function splitLast(query: string): [script: string, last: string] {
  let [start, end] = [0, 0]
  // Most texts have one statement, and need not be read.
  if (query.includes(';'))
    for (const statement of statementsOf(query)) [start, end] = [end, statement.end ?? query.length]
  return [query.slice(0, start), query.slice(start)]
}

function paramOf(value: StorageBinding): SqlParam {
  if (types.isArrayBuffer(value)) return new Uint8Array(value)
  if (!ArrayBuffer.isView(value) || isBytes(value)) return value
  return new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
}

/** As SQLite sorts them. */
function byKey([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b))
}
