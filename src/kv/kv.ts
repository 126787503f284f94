import type { Clock } from '../base/clock.ts'
import type { Limits } from '../base/options/limits.ts'
import type { Given } from '../base/options/option-shapes.ts'
import { type Paged, paged, pageLimit } from '../base/paging.ts'
import type { CellAccess } from '../engine/holds/cell-access.ts'
import { decodeInteger } from '../engine/statements/rows.ts'
import { deleteConditionOf, preconditionFailed } from './condition.ts'
import { addTo, checkDelta } from './counter.ts'
import type {
  KvDeleteOptions,
  KvEntry,
  KvExpireResult,
  KvIncrResult,
  KvKeysOptions,
  KvListEntry,
  KvListOptions,
  KvPage,
  KvPutEntry,
  KvPutOptions,
  KvPutResult,
  KvTtlOptions,
} from './entry.ts'
import { checkKey, checkKeys, checkList, isList, refuseListOptions, toJson } from './key.ts'
import { keyRange, keysOf, type ListRow, toPage } from './listing.ts'
import { checkDeleteOptions, checkKeysOptions, checkListOptions, checkTtlOptions } from './options.ts'
import { checkEntryPut, checkPut, momentOf, runPut, weigh } from './puts.ts'
import * as queries from './queries.ts'
import { KvStatements } from './statements.ts'
import { expiryAfter, expiryOf, secondsLeft } from './ttl.ts'

/** What the KV part needs of its cell. */
export interface KvContext {
  /** The open database; opens it again if the pool has closed it. */
  database(): CellAccess
  readonly clock: Clock
  readonly limits: Limits
  /** Called for every time to live that is set. */
  expiryNoted(expiresAt: number): void
}

/**
 * Keys with values and exact times to live, in the same file as the cell's tables. Every method is one transaction, or
 * part of the one in which it is called. Where a method takes one key or a list of keys, a list gets a list of the same
 * results in the order of the keys, all or none. Keys are 1–1,024 bytes of UTF-8 without NUL; values are text up to 1 MiB.
 * All throw `invalid_key` for a bad key, and what the engine throws: `cell_full`, `cell_quarantined`, `busy`,
 * `cell_restoring`, `no_backup`, `store_closed`. With a list they throw `invalid_request` if it is longer than `kvKeysMax`.
 */
export class Kv {
  readonly #context: KvContext
  #bound: KvStatements | undefined

  /** @internal Comes with a cell, as `cell.kv`. */
  constructor(context: KvContext) {
    this.#context = context
  }

  /** @returns the value; undefined if there is no live entry */
  get(key: string): string | undefined
  get(keys: readonly string[]): (string | undefined)[]
  get(key: string | readonly string[]): string | undefined | (string | undefined)[] {
    if (isList(key)) {
      return this.#readEach(key, (statements, each, now) => statements.value(each, now))
    }
    const { limits, clock } = this.#context
    checkKey(key, limits)
    const statements = this.#statements()
    statements.database.reads.before()
    try {
      return statements.value(key, clock.now())
    } catch (error) {
      throw statements.database.failure(error)
    }
  }

  /** Like {@link get}, with version and time to live. */
  entry(key: string): KvEntry | undefined
  entry(keys: readonly string[]): (KvEntry | undefined)[]
  entry(key: string | readonly string[]): KvEntry | undefined | (KvEntry | undefined)[] {
    if (isList(key)) {
      return this.#readEach(key, (statements, each, now) => statements.entry(each, now))
    }
    checkKey(key, this.#context.limits)
    return this.#read((statements, now) => statements.entry(key, now))
  }

  /**
   * Puts an entry. Without a time to live it does not expire, even if the entry before did (as with Redis SET).
   * `{ ifVersion: null }` puts it only if there is none, `{ ifVersion: entry.version }` only if nobody has changed it since.
   *
   * @throws `precondition_failed`, `invalid_ttl`, `value_too_large`, `invalid_request`
   */
  put<O extends KvPutOptions & Given<O, KvPutOptions>>(key: string, value: string, options?: O): KvPutResult
  /** Puts all entries or none. An error's field names the entry. */
  put<E extends KvPutEntry & Given<E, KvPutEntry>>(entries: readonly E[]): KvPutResult[]
  put(
    key: string | readonly KvPutEntry[],
    value?: string,
    options?: KvPutOptions,
  ): KvPutResult | KvPutResult[] {
    if (isList(key)) return this.#putEach(key, value)
    const { limits } = this.#context
    const clock = options === undefined ? this.#context.clock : momentOf(this.#context.clock)
    const put = checkPut(key, value as string, options, { limits, clock, at: '' })
    const statements = this.#statements()
    const result = statements.database.write(() => runPut(statements, put, clock), weigh(put.value))
    this.#noteExpiry(result)
    return result
  }

  /**
   * @returns false if there was no live entry
   * @throws `precondition_failed`, `invalid_request`
   */
  delete<O extends KvDeleteOptions & Given<O, KvDeleteOptions>>(key: string, options?: O): boolean
  delete(keys: readonly string[]): boolean[]
  delete(key: string | readonly string[], options: KvDeleteOptions = {}): boolean | boolean[] {
    if (isList(key)) {
      refuseListOptions(
        options,
        'of keys takes no options: delete keys with conditions one by one, in a transaction.',
      )
      return this.#deleteEach(key, (statements, each, now) => statements.delete(each, now))
    }
    checkKey(key, this.#context.limits)
    checkDeleteOptions(options)
    const condition = deleteConditionOf(options)
    const isDeleted = this.#delete((statements, now) => statements.delete(key, now, condition))
    if (!isDeleted && condition !== undefined) throw preconditionFailed(condition)
    return isDeleted
  }

  /** Deletes an entry and returns it (as Redis GETDEL does): of several callers only one gets it. */
  getdel(key: string): KvEntry | undefined
  getdel(keys: readonly string[]): (KvEntry | undefined)[]
  getdel(key: string | readonly string[]): KvEntry | undefined | (KvEntry | undefined)[] {
    if (isList(key)) {
      return this.#deleteEach(key, (statements, each, now) => statements.takeEntry(each, now))
    }
    checkKey(key, this.#context.limits)
    return this.#delete((statements, now) => statements.takeEntry(key, now))
  }

  /**
   * Adds to a decimal number. A missing or expired entry counts from 0; a live one keeps its time to live.
   *
   * @param delta a whole number of 64 bits, 1 by default
   * @param options a time to live for an entry that this call creates
   * @returns the new value; a bigint beyond ±(2^53−1)
   * @throws `not_an_integer`, `integer_overflow` (the value is unchanged), `invalid_ttl`, `invalid_request`
   */
  incr<O extends KvTtlOptions & Given<O, KvTtlOptions>>(
    key: string,
    delta?: number | bigint,
    options?: O,
  ): number | bigint
  incr(key: string, delta: number | bigint = 1, options: KvTtlOptions = {}): number | bigint {
    return this.incrEntry(key, delta, options).value
  }

  /** Like {@link incr}, with version and time to live. */
  incrEntry<O extends KvTtlOptions & Given<O, KvTtlOptions>>(
    key: string,
    delta?: number | bigint,
    options?: O,
  ): KvIncrResult
  incrEntry(key: string, delta: number | bigint = 1, options: KvTtlOptions = {}): KvIncrResult {
    const { limits, clock } = this.#context
    checkKey(key, limits)
    const step = checkDelta(delta)
    checkTtlOptions(options)
    const moment = momentOf(clock)
    const now = moment.now()
    const expiryIfNew = expiryOf(options, now, limits)
    const statements = this.#statements()
    const { database } = statements
    const add = () => {
      const entry = statements.counter(key, now)
      const value = addTo(entry?.value, step)
      const expiresAt = entry === undefined ? expiryIfNew : entry.expiresAt
      const put = runPut(statements, { key, value: value.toString(), expiresAt }, moment)
      this.#noteExpiry(put)
      const { version, ttlSeconds } = put
      return { key, version, ttlSeconds, expiresAt, value: decodeInteger(value) }
    }
    // Only one of its statements changes anything, so that within a transaction it needs no savepoint.
    return database.inTransaction ? database.write(add) : database.transaction(add)
  }

  /** @returns seconds left, rounded up; −1 if the entry does not expire; null if there is no live entry */
  ttl(key: string): number | null
  ttl(keys: readonly string[]): (number | null)[]
  ttl(key: string | readonly string[]): number | null | (number | null)[] {
    if (isList(key)) {
      return this.#readEach(key, (statements, each, now) => statements.ttl(each, now))
    }
    checkKey(key, this.#context.limits)
    return this.#read((statements, now) => statements.ttl(key, now))
  }

  /**
   * Sets a live entry's time to live. With null the entry no longer expires; `undefined` is refused.
   *
   * @throws `invalid_ttl`
   */
  expire(key: string, ttlSeconds: number | null): KvExpireResult {
    const { limits, clock } = this.#context
    checkKey(key, limits)
    const now = clock.now()
    const expiresAt = ttlSeconds === null ? null : expiryAfter(ttlSeconds, now, limits)
    const statements = this.#statements()
    const version = statements.versions.next()
    const updated = statements.database.write(() => statements.setExpiry(key, expiresAt, version, now))
    if (!updated) return { updated, version: null, ttlSeconds: null }
    this.#noteExpiry({ expiresAt })
    return { updated, version: version.toString(), ttlSeconds: secondsLeft(expiresAt, now) }
  }

  /**
   * Live entries in UTF-8 byte order of their keys, a page at a time; with `for await`, all of them from this page on.
   *
   * @throws `invalid_request` for a bad limit or cursor
   */
  list<O extends KvListOptions & { values?: true | undefined } & Given<O, KvListOptions>>(
    options?: O,
  ): Paged<KvPage<KvEntry>, KvEntry>
  /** Without their values, which are not read then; or with a choice that is known only when the program runs. */
  list<O extends KvListOptions & Given<O, KvListOptions>>(options: O): Paged<KvPage, KvListEntry>
  list(options: KvListOptions = {}): Paged<KvPage, KvListEntry> {
    const { limits } = this.#context
    checkListOptions(options)
    const limit = pageLimit(options.limit, limits.pageMax)
    const { from, to } = keyRange(options, limits)
    const page = this.#read((statements, now) => {
      const list = statements.find(queries.listQuery(options.values ?? true, options.reverse ?? false))
      return toPage(list.all(from, to, now, limit + 1) as ListRow[], limit, now)
    })
    return paged<KvPage, KvListEntry, KvPage>(page, {
      entries: ({ entries }) => entries,
      next: (cursor) => this.list({ ...options, cursor }),
    })
  }

  /**
   * The keys of live entries in UTF-8 byte order, for `for await`. They are read `limit` at a time, with turns of the event
   * loop in between, so a key that is put or deleted meanwhile may be among them or not.
   *
   * @throws as {@link list}
   */
  keys<O extends KvKeysOptions & Given<O, KvKeysOptions>>(
    options?: O,
  ): AsyncGenerator<string, void, undefined>
  keys(options: KvKeysOptions = {}): AsyncGenerator<string, void, undefined> {
    checkKeysOptions(options)
    return keysOf(this.list({ ...options, values: false }))
  }

  /** The value parsed as JSON; undefined if there is no live entry. @throws `SyntaxError` if it is not JSON */
  getJson<T = unknown>(key: string): T | undefined {
    const text = this.get(key)
    return text === undefined ? undefined : (JSON.parse(text) as T)
  }

  /** Puts `value` as JSON text. @throws `invalid_request` for a value that JSON can't hold; as {@link put} */
  putJson<O extends KvPutOptions & Given<O, KvPutOptions>>(
    key: string,
    value: unknown,
    options?: O,
  ): KvPutResult
  putJson(key: string, value: unknown, options: KvPutOptions = {}): KvPutResult {
    return this.put(key, toJson(value), options)
  }

  #read<T>(read: (statements: KvStatements, now: number) => T): T {
    const statements = this.#statements()
    statements.database.reads.before()
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

  #readEach<T>(
    keys: readonly string[],
    read: (statements: KvStatements, key: string, now: number) => T,
  ): T[] {
    checkKeys(keys, this.#context.limits)
    return this.#read((statements, now) => keys.map((key) => read(statements, key, now)))
  }

  #putEach(entries: readonly KvPutEntry[], options: unknown): KvPutResult[] {
    refuseListOptions(options, 'of entries takes no options: each entry has its own.')
    const { limits, clock } = this.#context
    checkList(entries, 'entries', limits)
    const moment = momentOf(clock)
    const puts = entries.map((entry, i) =>
      checkEntryPut(entry, { limits, clock: moment, at: `entries[${i}].` }),
    )
    const statements = this.#statements()
    const results = statements.database.transaction(() => puts.map((put) => runPut(statements, put, moment)))
    for (const result of results) this.#noteExpiry(result)
    return results
  }

  #delete<T>(run: (statements: KvStatements, now: number) => T): T {
    const statements = this.#statements()
    return statements.database.writeDelete(() => run(statements, this.#context.clock.now()))
  }

  #deleteEach<T>(
    keys: readonly string[],
    run: (statements: KvStatements, key: string, now: number) => T,
  ): T[] {
    const { limits, clock } = this.#context
    checkKeys(keys, limits)
    const now = clock.now()
    const statements = this.#statements()
    const { database } = statements
    return database.transaction(() =>
      keys.map((key) => database.writeDelete(() => run(statements, key, now))),
    )
  }

  #noteExpiry({ expiresAt }: { expiresAt: number | null }): void {
    if (expiresAt !== null) this.#context.expiryNoted(expiresAt)
  }
}
