import { randomBytes } from 'node:crypto'
import type { CellAccess } from '../engine/holds/cell-access.ts'
import type { Statement } from '../engine/sqlite.ts'
import type { Condition } from './condition.ts'
import type { KvEntry } from './entry.ts'
import {
  DELETE_IF,
  DELETE_LIVE,
  DELETE_RETURNING,
  GET_COUNTER,
  GET_ENTRY,
  GET_EXPIRY,
  GET_VALUE,
  UPDATE_EXPIRY,
} from './queries.ts'
import { secondsLeft } from './ttl.ts'

/**
 * The KV statements of one open database, which end with it. Each is prepared with its first use: most of thousands of
 * open cells need two or three.
 */
export class KvStatements {
  static readonly #byDatabase = new WeakMap<CellAccess, KvStatements>()
  readonly database: CellAccess
  readonly versions = new Versions()
  readonly #prepared = new Map<string, Statement>()

  private constructor(database: CellAccess) {
    this.database = database
  }

  /** All handles of a cell share one instance. */
  static of(database: CellAccess): KvStatements {
    let statements = KvStatements.#byDatabase.get(database)
    if (statements === undefined) {
      statements = new KvStatements(database)
      KvStatements.#byDatabase.set(database, statements)
    }
    return statements
  }

  /** For those who watch the cell: the entry was put, changed or deleted. */
  touched(key: string): void {
    this.database.recorder?.key(key)
  }

  /** @param sql one of queries.ts. Rows of one column come as its value, others as arrays */
  find(sql: string): Statement {
    return this.#prepared.get(sql) ?? this.#prepare(sql)
  }

  /** @returns undefined if there is no live entry */
  value(key: string, now: number): string | undefined {
    return this.find(GET_VALUE).get(key, now) as string | undefined
  }

  /** @returns undefined if there is no live entry */
  entry(key: string, now: number): KvEntry | undefined {
    return toEntry(key, this.find(GET_ENTRY).get(key, now), now)
  }

  /** What a counter needs of its {@link entry}. */
  counter(key: string, now: number): Pick<KvEntry, 'value' | 'expiresAt'> | undefined {
    const row = this.find(GET_COUNTER).get(key, now) as [string, number | null] | undefined
    return row && { value: row[0], expiresAt: row[1] }
  }

  /** @returns the entry that it deletes; undefined if there is no live entry */
  takeEntry(key: string, now: number): KvEntry | undefined {
    const row = this.find(DELETE_RETURNING).get(key, now)
    if (row !== undefined) this.touched(key)
    return toEntry(key, row, now)
  }

  /** @returns false if there is no live entry, or not of the condition's version */
  delete(key: string, now: number, condition?: Condition): boolean {
    const remove =
      typeof condition === 'bigint'
        ? this.find(DELETE_IF).run(key, now, condition)
        : this.find(DELETE_LIVE).run(key, now)
    if (remove.changes === 0) return false
    this.touched(key)
    return true
  }

  /** @returns false if there is no live entry */
  setExpiry(key: string, expiresAt: number | null, version: bigint, now: number): boolean {
    if (this.find(UPDATE_EXPIRY).run(expiresAt, version, key, now).changes === 0) return false
    this.touched(key)
    return true
  }

  /** @returns whole seconds left; −1 for an entry that does not expire; null if there is no live entry */
  ttl(key: string, now: number): number | null {
    const expiresAt = this.find(GET_EXPIRY).get(key, now) as number | null | undefined
    return expiresAt === undefined ? null : secondsLeft(expiresAt, now)
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

function toEntry(key: string, row: unknown, now: number): KvEntry | undefined {
  if (row === undefined) return undefined
  const [value, expiresAt, version] = row as [string, number | null, string]
  return { key, value, version, ttlSeconds: secondsLeft(expiresAt, now), expiresAt }
}

/** A version fits into 63 bits, with room above the highest start for more writes than any process lives to make. */
const START_BITS = 62

/**
 * The versions of entries, of one open database. Each write takes the next number of a series, and each opening of the
 * file begins a series at a random place. So no version comes back for a key: not after its deletion, a rollback, a
 * crash, or a restore that takes the cell back to an earlier state, where a counter in the file would count the same
 * numbers again for other values. Two series meet by accident with a chance of 2^-62 for each pair of versions.
 */
class Versions {
  #last: bigint | undefined

  next(): bigint {
    this.#last = (this.#last ?? randomStart()) + 1n
    return this.#last
  }
}

/** A version for all entries that have none, of a cell made before there were versions. */
export function randomStart(): bigint {
  return BigInt.asUintN(START_BITS, randomBytes(8).readBigUInt64BE())
}
