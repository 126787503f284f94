import type { Limits } from '../base/options/limits.ts'
import { CellError } from '../errors.ts'
import type { KvTtlOptions } from './entry.ts'

/** What `ttlSeconds` shows for an entry that does not expire. */
const PERSISTENT = -1
/** What is told of such an entry. */
export const NO_EXPIRY = { ttlSeconds: PERSISTENT, expiresAt: null }

/**
 * The instant at which an entry put now expires.
 *
 * @param at where in the input the time to live is, for the message
 * @returns epoch milliseconds, or null for never
 * @throws `invalid_ttl`
 */
export function expiryOf(
  { ttlSeconds, ttlMs }: KvTtlOptions,
  now: number,
  limits: Limits,
  at = '',
): number | null {
  if (ttlSeconds === undefined) {
    if (ttlMs === undefined) return null
    return now + checkTtl(ttlMs, `${at}ttlMs`, limits.ttlSecondsMax * 1_000)
  }
  if (ttlMs !== undefined) {
    throw new CellError('invalid_ttl', 'Give ttlSeconds or ttlMs, not both.', { field: `${at}ttlMs` })
  }
  return expiryAfter(ttlSeconds, now, limits, at)
}

/** The instant so many seconds from now, in epoch milliseconds. @throws `invalid_ttl` */
export function expiryAfter(ttlSeconds: number, now: number, limits: Limits, at = ''): number {
  return now + checkTtl(ttlSeconds, `${at}ttlSeconds`, limits.ttlSecondsMax) * 1_000
}

function checkTtl(ttl: number, field: string, max: number): number {
  if (Number.isInteger(ttl) && ttl >= 1 && ttl <= max) return ttl
  throw new CellError('invalid_ttl', `${field} is a whole number from 1 to ${max} (limits.ttlSecondsMax).`, {
    field,
    limit: max,
  })
}

/** Seconds left, rounded up so that a live entry never shows 0; −1 if it does not expire. */
export function secondsLeft(expiresAt: number | null, now: number): number {
  return expiresAt === null ? PERSISTENT : Math.ceil((expiresAt - now) / 1_000)
}
