import { deserialize, serialize } from 'node:v8'
import { isError } from '../../base/any-realm.ts'
import type { CellAccess } from '../../engine/holds/cell-access.ts'
import type { SqlParam } from '../../engine/statements/sql-values.ts'
import { CellError } from '../../errors.ts'
import { prefixEnd } from '../../kv/key.ts'

/** Which keys, in which order, and how many of them. */
export interface StorageListOptions {
  /** From this key on. */
  start?: string | undefined
  /** From the first key after this one. Not together with `start`. */
  startAfter?: string | undefined
  /** Before this key. */
  end?: string | undefined
  /** Only keys that start with this text. */
  prefix?: string | undefined
  /** Descending instead of ascending order of the UTF-8 bytes. `start` is the least key all the same. */
  reverse?: boolean | undefined
  /** Entries at most. */
  limit?: number | undefined
}

/** A Durable Object has a table of this name too, and drizzle-kit leaves alone what begins so. */
const TABLE = '_cf_KV'
const CREATE = `CREATE TABLE IF NOT EXISTS ${TABLE} (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID`
const EXISTS = `SELECT 1 FROM main.sqlite_schema WHERE name = '${TABLE}'`
const TRUSTED = { policy: 'trusted', rowMode: 'array' } as const

/**
 * Keys with values of any kind that `structuredClone()` takes, in the table `_cf_KV` of the cell. They are not those of `cell.kv`, which
 * are text and have times to live.
 */
export class StorageKv {
  readonly #use: () => CellAccess

  /** @internal Comes with a cell, as `cell.storage.kv`. */
  constructor(use: () => CellAccess) {
    this.#use = use
  }

  /** The value; undefined if the key does not exist. */
  get<T = unknown>(key: string): T | undefined {
    const [row] = this.#rows(`SELECT value FROM ${TABLE} WHERE key = ?`, [key])
    return row && (deserialize(row[0] as Uint8Array) as T)
  }

  /** @throws `invalid_request` for a value that can't be cloned, a function for example, and for undefined; `invalid_key` */
  put(key: string, value: unknown): void {
    if (typeof key !== 'string') throw new CellError('invalid_key', 'key is a string.', { field: 'key' })
    const bytes = serialized(value)
    const database = this.#use()
    database.transaction(() => {
      if (!hasTable(database)) database.sql(CREATE, [], TRUSTED)
      database.sql(`INSERT OR REPLACE INTO ${TABLE} VALUES (?, ?)`, [key, bytes], TRUSTED)
    })
  }

  /** @returns whether the key existed */
  delete(key: string): boolean {
    const database = this.#use()
    if (!hasTable(database)) return false
    return database.sql(`DELETE FROM ${TABLE} WHERE key = ?`, [key], TRUSTED).changes > 0
  }

  /**
   * Keys and values in the order of the keys' UTF-8 bytes, as they are at the time of the call.
   *
   * @throws `invalid_request` for `start` together with `startAfter`
   */
  list<T = unknown>(options: StorageListOptions = {}): IterableIterator<[string, T]> {
    const { start, startAfter, end, prefix, reverse, limit } = options
    if (start !== undefined && startAfter !== undefined)
      throw new CellError('invalid_request', 'Give start or startAfter, not both.', { field: 'startAfter' })
    const bounds: [condition: string, key: string | null | undefined][] = [
      ['key >= ?', start],
      ['key > ?', startAfter],
      ['key < ?', end],
      ['key >= ?', prefix],
      ['key < ?', prefix ? prefixEnd(prefix) : undefined],
    ]
    const given = bounds.filter(([, key]) => key !== undefined && key !== null)
    const where = ['TRUE', ...given.map(([condition]) => condition)].join(' AND ')
    const sql = `SELECT key, value FROM ${TABLE} WHERE ${where} ORDER BY key ${reverse ? 'DESC' : 'ASC'} LIMIT ?`
    const rows = this.#rows(sql, [...given.map(([, key]) => key as string), limit ?? -1])
    return rows.map(([key, value]): [string, T] => [key as string, deserialize(value as Uint8Array)]).values()
  }

  #rows(sql: string, params: SqlParam[]) {
    const database = this.#use()
    return hasTable(database) ? database.sql<unknown[]>(sql, params, TRUSTED).rows : []
  }
}

/** A restore can take it away. */
function hasTable(database: CellAccess): boolean {
  return database.sql(EXISTS, [], TRUSTED).rows.length > 0
}

function serialized(value: unknown): Buffer {
  const field = 'value'
  if (value === undefined)
    throw new CellError('invalid_request', 'value is undefined: use delete().', { field })
  try {
    return serialize(value)
  } catch (error) {
    if (!isError(error)) throw error
    throw new CellError('invalid_request', `value can't be cloned: ${error.message}`, { field, cause: error })
  }
}
