import type { Clock } from '../base/clock.ts'
import type { Limits } from '../base/limits.ts'
import { pageLimit } from '../base/paging.ts'
import type { CellDatabase } from '../engine/cell-database.ts'
import { decodeInteger } from '../engine/statements/rows.ts'
import { CellError } from '../errors.ts'
import { addTo, checkDelta } from './counter.ts'
import type {
  KvEntry,
  KvExpireResult,
  KvIncrResult,
  KvListOptions,
  KvPage,
  KvPutEntry,
  KvPutOptions,
  KvPutResult,
  KvTtlOptions,
} from './entry.ts'
import { toJson } from './json.ts'
import { checkKey, checkKeys, checkList, checkValue } from './key.ts'
import { keyRange, type ListRow, toPage } from './listing.ts'
import { checkEntry, checkListOptions, checkPutOptions, checkTtlOptions } from './options.ts'
import * as queries from './queries.ts'
import { KvStatements } from './statements.ts'
import { expiryOf, secondsLeft } from './ttl.ts'

/** What the KV part needs of its cell. */
export interface KvContext {
  /** The open database; opens it again if the pool has closed it. */
  database(): CellDatabase
  readonly clock: Clock
  readonly limits: Limits
  /** Called for every time to live that is set. */
  expiryNoted(expiresAt: number): void
}

/**
 * Keys with values and exact times to live, in the same file as the cell's tables. Every method is one transaction, or
 * part of the one in which it is called. Keys are 1–1,024 bytes of UTF-8 without NUL; values are text up to 1 MiB. All
 * throw `invalid_key` for a bad key, and what the engine throws: `cell_full`, `cell_quarantined`, `busy`, `cell_restoring`,
 * `no_backup`, `store_closed`.
 */
export class Kv {
  readonly #context: KvContext
  #bound: KvStatements | undefined

  /** @internal Comes with a cell, as `cell.kv`. */
  constructor(context: KvContext) {
    this.#context = context
  }

  /** @returns the value; undefined if there is no live entry */
  get(key: string): string | undefined {
    const { limits, clock } = this.#context
    checkKey(key, limits)
    const statements = this.#statements()
    try {
      return statements.find(queries.GET_VALUE).get(key, clock.now()) as string | undefined
    } catch (error) {
      throw statements.database.failure(error)
    }
  }

  /** Like {@link get}, with the time to live. */
  entry(key: string): KvEntry | undefined {
    checkKey(key, this.#context.limits)
    return this.#read((statements, now) => statements.entry(key, now))
  }

  /**
   * Puts an entry. Without a time to live it does not expire, even if the entry before did (as with Redis SET).
   *
   * @throws `invalid_ttl`, `value_too_large`, `invalid_request`, also for an option that is not known
   */
  put(key: string, value: string, options: KvPutOptions = {}): KvPutResult {
    const { limits, clock } = this.#context
    checkKey(key, limits)
    checkValue(value, limits)
    checkPutOptions(options)
    const now = clock.now()
    if (options.keepTtl) return this.#putKeepingTtl(key, value, options, now)
    const expiresAt = expiryOf(options, now, limits)
    const statements = this.#statements()
    const created = statements.database.write(
      () => this.#putRow(statements, key, value, expiresAt, now),
      weigh(value),
    )
    return { created, ttlSeconds: secondsLeft(expiresAt, now), expiresAt }
  }

  /** @returns false if there was no live entry */
  delete(key: string): boolean {
    checkKey(key, this.#context.limits)
    const statements = this.#statements()
    const remove = statements.find(queries.DELETE_LIVE)
    return statements.database.writeDelete(() => remove.run(key, this.#context.clock.now()).changes > 0)
  }

  /**
   * Adds to a decimal number. A missing or expired entry counts from 0; a live one keeps its time to live.
   *
   * @param delta a whole number of 64 bits, 1 by default
   * @param options a time to live for an entry that this call creates
   * @returns the new value; a bigint beyond ±(2^53−1)
   * @throws `not_an_integer`, `integer_overflow` (the value is unchanged), `invalid_ttl`, `invalid_request`
   */
  incr(key: string, delta: number | bigint = 1, options: KvTtlOptions = {}): number | bigint {
    return this.incrEntry(key, delta, options).value
  }

  /** Like {@link incr}, with the time to live. */
  incrEntry(key: string, delta: number | bigint = 1, options: KvTtlOptions = {}): KvIncrResult {
    const { limits, clock } = this.#context
    checkKey(key, limits)
    const step = checkDelta(delta)
    checkTtlOptions(options)
    const now = clock.now()
    const expiryIfNew = expiryOf(options, now, limits)
    const statements = this.#statements()
    return statements.database.transaction(() => {
      const entry = statements.entry(key, now)
      const value = addTo(entry?.value, step)
      const expiresAt = entry === undefined ? expiryIfNew : entry.expiresAt
      this.#putRow(statements, key, value.toString(), expiresAt, now)
      return { value: decodeInteger(value), ttlSeconds: secondsLeft(expiresAt, now) }
    })
  }

  /** @returns for each key, in order: seconds left, rounded up; −1 if it does not expire; null if there is no live entry */
  ttl(keys: readonly string[]): (number | null)[] {
    checkKeys(keys, this.#context.limits)
    return this.#read((statements, now) =>
      keys.map((key) => {
        const expiresAt = statements.expiry(key, now)
        return expiresAt === undefined ? null : secondsLeft(expiresAt, now)
      }),
    )
  }

  /**
   * Sets a live entry's time to live. With null the entry no longer expires.
   *
   * @throws `invalid_ttl`
   */
  expire(key: string, ttlSeconds: number | null): KvExpireResult {
    const { limits, clock } = this.#context
    checkKey(key, limits)
    const now = clock.now()
    const expiresAt = ttlSeconds === null ? null : expiryOf({ ttlSeconds }, now, limits)
    const statements = this.#statements()
    const updated = statements.database.write(
      () => statements.find(queries.UPDATE_EXPIRY).run(expiresAt, key, now).changes > 0,
    )
    if (updated && expiresAt !== null) this.#context.expiryNoted(expiresAt)
    return { updated, ttlSeconds: updated ? secondsLeft(expiresAt, now) : null }
  }

  /**
   * Live entries in UTF-8 byte order of their keys, a page at a time.
   *
   * @throws `invalid_request` for a bad limit or cursor
   */
  list(options: KvListOptions = {}): KvPage {
    const { limits } = this.#context
    checkListOptions(options)
    const limit = pageLimit(options.limit, limits.pageMax)
    const { from, to } = keyRange(options, limits)
    return this.#read((statements, now) => {
      const list = statements.find(queries.listQuery(options.values ?? true, options.reverse ?? false))
      return toPage(list.all(from, to, now, limit + 1) as ListRow[], limit, now)
    })
  }

  /** @returns for each key, in order, the live entry or undefined */
  mget(keys: readonly string[]): (KvEntry | undefined)[] {
    checkKeys(keys, this.#context.limits)
    return this.#read((statements, now) => keys.map((key) => statements.entry(key, now)))
  }

  /**
   * Puts all entries or none.
   *
   * @returns how many entries were given
   * @throws `invalid_ttl`, `value_too_large`, `invalid_request`, whose field names the entry
   */
  mset(entries: readonly KvPutEntry[]): number {
    const { limits, clock } = this.#context
    checkList(entries, 'entries', limits)
    const now = clock.now()
    const rows = entries.map((entry, i) => {
      checkEntry(entry, `entries[${i}].`)
      const { key, value, ...ttl } = entry
      checkKey(key, limits, `entries[${i}].key`)
      checkValue(value, limits, `entries[${i}].value`)
      return { key, value, expiresAt: expiryOf(ttl, now, limits, `entries[${i}].`) }
    })
    const statements = this.#statements()
    statements.database.transaction(() => {
      for (const { key, value, expiresAt } of rows) this.#putRow(statements, key, value, expiresAt, now)
    })
    return entries.length
  }

  /** Deletes all keys or none. @returns how many of them had a live entry */
  deleteMany(keys: readonly string[]): number {
    checkKeys(keys, this.#context.limits)
    const now = this.#context.clock.now()
    const statements = this.#statements()
    const remove = statements.find(queries.DELETE_LIVE)
    const { database } = statements
    return database.transaction(() =>
      keys.reduce((count, key) => count + database.writeDelete(() => remove.run(key, now).changes), 0),
    )
  }

  /** The value parsed as JSON; undefined if there is no live entry. @throws `SyntaxError` if it is not JSON */
  getJson<T = unknown>(key: string): T | undefined {
    const text = this.get(key)
    return text === undefined ? undefined : (JSON.parse(text) as T)
  }

  /** Puts `value` as JSON text. @throws `invalid_request` for a value that JSON can't hold; as {@link put} */
  putJson(key: string, value: unknown, options: KvPutOptions = {}): KvPutResult {
    return this.put(key, toJson(value), options)
  }

  #read<T>(read: (statements: KvStatements, now: number) => T): T {
    const statements = this.#statements()
    try {
      return read(statements, this.#context.clock.now())
    } catch (error) {
      throw statements.database.failure(error)
    }
  }

  #statements(): KvStatements {
    const bound = this.#bound
    if (bound?.database.usable) {
      bound.database.touch()
      return bound
    }
    const database = this.#context.database()
    database.assertUsable()
    this.#bound = KvStatements.of(database)
    return this.#bound
  }

  /** @returns true if there was no live entry */
  #putRow(
    statements: KvStatements,
    key: string,
    value: string,
    expiresAt: number | null,
    now: number,
  ): boolean {
    const updated = statements.find(queries.UPDATE_LIVE).run(value, expiresAt, key, now).changes > 0
    if (!updated) statements.find(queries.UPSERT).run(key, value, expiresAt)
    if (expiresAt !== null) this.#context.expiryNoted(expiresAt)
    return !updated
  }

  #putKeepingTtl(key: string, value: string, options: KvPutOptions, now: number): KvPutResult {
    if (options.ttlSeconds !== undefined || options.ttlMs !== undefined) {
      throw new CellError('invalid_ttl', 'Keep the time to live or give a new one, not both.', {
        field: 'keepTtl',
      })
    }
    const statements = this.#statements()
    return statements.database.transaction(() => {
      const kept = statements.expiry(key, now)
      if (kept === undefined) statements.find(queries.UPSERT).run(key, value, null)
      else statements.find(queries.UPDATE_LIVE_VALUE).run(value, key, now)
      const expiresAt = kept ?? null
      return { created: kept === undefined, ttlSeconds: secondsLeft(expiresAt, now), expiresAt }
    })
  }
}

/** A put's share of the write-ahead log, in ordinary row changes. */
function weigh(value: string): number {
  return 1 + value.length / 1_024
}
