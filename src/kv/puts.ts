import type { Clock } from '../base/clock.ts'
import type { Limits } from '../base/options/limits.ts'
import { CellError } from '../errors.ts'
import { type Condition, conditionOf, preconditionFailed } from './condition.ts'
import type { KvPutEntry, KvPutOptions, KvPutResult } from './entry.ts'
import { checkKey, checkValue } from './key.ts'
import { checkEntry, checkPutOptions } from './options.ts'
import * as queries from './queries.ts'
import type { KvStatements } from './statements.ts'
import { expiryOf, NO_EXPIRY, secondsLeft } from './ttl.ts'

/** A put whose input was checked. */
export interface Put {
  key: string
  value: string
  /** Epoch milliseconds; null: it does not expire. */
  expiresAt: number | null
  /** A live entry keeps its time to live; `expiresAt` is for a new one. */
  keepTtl?: boolean | undefined
  condition?: Condition
  /** As in {@link PutContext}. */
  at?: string
}

/** What the time is for a put; asked only if it matters, because most puts need it for nothing. */
export type PutClock = Pick<Clock, 'now'>

/** One moment, for puts that need it more than once. */
export function momentOf(clock: Clock): PutClock {
  const now = clock.now()
  return { now: () => now }
}

interface PutContext {
  limits: Limits
  clock: PutClock
  /** Where in the input it stands, for errors: `entries[2].` */
  at: string
}

/** @throws `invalid_key`, `value_too_large`, `invalid_ttl`, `invalid_request` */
export function checkPut(
  key: string,
  value: string,
  options: KvPutOptions | undefined,
  { limits, clock, at }: PutContext,
): Put {
  checkKey(key, limits, `${at}key`)
  checkValue(value, limits, `${at}value`)
  if (options === undefined)
    return { key, value, expiresAt: null, keepTtl: undefined, condition: undefined, at }
  checkPutOptions(options, at)
  const { keepTtl } = options
  if (keepTtl && (options.ttlSeconds !== undefined || options.ttlMs !== undefined)) {
    throw new CellError('invalid_ttl', 'Keep the time to live or give a new one, not both.', {
      field: `${at}keepTtl`,
    })
  }
  const expiresAt = expiryOf(options, clock.now(), limits, at)
  return { key, value, expiresAt, keepTtl, condition: conditionOf(options, at), at }
}

/** As {@link checkPut}, for one of several entries. */
export function checkEntryPut(entry: KvPutEntry, context: PutContext): Put {
  checkEntry(entry, context.at)
  const { key, value, ...options } = entry
  return checkPut(key, value, options, context)
}

/**
 * Puts an entry, in one statement that changes something: so it needs no transaction of its own.
 *
 * @throws `precondition_failed`; nothing is changed then
 */
export function runPut(statements: KvStatements, put: Put, clock: PutClock): KvPutResult {
  const version = statements.versions.next()
  const { created, expiresAt, ttlSeconds } =
    putPersistent(statements, put, version) ?? putAny(statements, put, version, clock.now())
  statements.touched(put.key)
  return { key: put.key, created, version: version.toString(), ttlSeconds, expiresAt }
}

type PutDone = Pick<KvPutResult, 'created' | 'ttlSeconds' | 'expiresAt'>

/**
 * A put of an entry that does not expire, by statements that need not look at the index of the expiries: that index is 15 % of what
 * a put costs SQLite.
 *
 * @returns undefined if it takes {@link putAny}: for a put with a time to live or a condition, and where there is an entry that has
 * a time to live or is expired; nothing is changed then
 */
function putPersistent(
  statements: KvStatements,
  { key, value, expiresAt, keepTtl, condition }: Put,
  version: bigint,
): PutDone | undefined {
  if (expiresAt !== null || keepTtl || condition !== undefined) return undefined
  if (statements.find(queries.UPDATE_PERSISTENT).run(value, version, key).changes > 0) return REPLACED
  if (statements.find(queries.INSERT_NEW).run(key, value, version).changes > 0) return CREATED
  return undefined
}

const REPLACED: PutDone = { created: false, ...NO_EXPIRY }
const CREATED: PutDone = { created: true, ...NO_EXPIRY }

function putAny(statements: KvStatements, put: Put, version: bigint, now: number): PutDone {
  const kept = put.condition === 'absent' ? undefined : replaceLive(statements, put, version, now)
  if (kept === undefined) insert(statements, put, version, now)
  const { expiresAt } = kept ?? put
  return { created: kept === undefined, ttlSeconds: secondsLeft(expiresAt, now), expiresAt }
}

/** @returns when the entry expires; undefined if there is no live entry, or not of the version */
function replaceLive(
  statements: KvStatements,
  { key, value, expiresAt, keepTtl, condition }: Put,
  version: bigint,
  now: number,
): { expiresAt: number | null } | undefined {
  const asked = typeof condition === 'bigint' ? [condition] : []
  if (keepTtl) {
    const query = asked.length > 0 ? queries.UPDATE_VALUE_IF : queries.UPDATE_VALUE
    const kept = statements.find(query).get(value, version, key, now, ...asked) as number | null | undefined
    return kept === undefined ? undefined : { expiresAt: kept }
  }
  const query = asked.length > 0 ? queries.UPDATE_IF : queries.UPDATE_LIVE
  const { changes } = statements.find(query).run(value, expiresAt, version, key, now, ...asked)
  return changes > 0 ? { expiresAt } : undefined
}

function insert(
  statements: KvStatements,
  { key, value, expiresAt, condition, at }: Put,
  version: bigint,
  now: number,
): void {
  if (condition === undefined) {
    statements.find(queries.UPSERT).run(key, value, expiresAt, version)
    return
  }
  const isInserted =
    condition === 'absent' &&
    statements.find(queries.INSERT_IF_ABSENT).run(key, value, expiresAt, version, now).changes > 0
  if (!isInserted) throw preconditionFailed(condition, at)
}

/** A put's share of the write-ahead log, in ordinary row changes. */
export function weigh(value: string): number {
  return 1 + value.length / 1_024
}
