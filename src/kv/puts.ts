import type { Limits } from '../base/limits.ts'
import { CellError } from '../errors.ts'
import { type Condition, conditionOf, preconditionFailed } from './condition.ts'
import type { KvPutEntry, KvPutOptions, KvPutResult } from './entry.ts'
import { checkKey, checkValue } from './key.ts'
import { checkEntry, checkPutOptions } from './options.ts'
import * as queries from './queries.ts'
import type { KvStatements } from './statements.ts'
import { expiryOf, secondsLeft } from './ttl.ts'

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

interface PutContext {
  limits: Limits
  now: number
  /** Where in the input it stands, for errors: `entries[2].` */
  at: string
}

/** @throws `invalid_key`, `value_too_large`, `invalid_ttl`, `invalid_request` */
export function checkPut(
  key: string,
  value: string,
  options: KvPutOptions,
  { limits, now, at }: PutContext,
): Put {
  checkKey(key, limits, `${at}key`)
  checkValue(value, limits, `${at}value`)
  checkPutOptions(options, at)
  const { keepTtl } = options
  if (keepTtl && (options.ttlSeconds !== undefined || options.ttlMs !== undefined)) {
    throw new CellError('invalid_ttl', 'Keep the time to live or give a new one, not both.', {
      field: `${at}keepTtl`,
    })
  }
  const expiresAt = expiryOf(options, now, limits, at)
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
export function runPut(statements: KvStatements, put: Put, now: number): KvPutResult {
  const version = statements.versions.next()
  const kept = put.condition === 'absent' ? undefined : replaceLive(statements, put, version, now)
  if (kept === undefined) insert(statements, put, version, now)
  statements.touched(put.key)
  const expiresAt = kept === undefined ? put.expiresAt : kept.expiresAt
  return {
    key: put.key,
    created: kept === undefined,
    version: version.toString(),
    ttlSeconds: secondsLeft(expiresAt, now),
    expiresAt,
  }
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
