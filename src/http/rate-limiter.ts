import type { Clock } from '../base/clock.ts'
import type { Known } from '../base/known-names.ts'
import { overLimit, TRY_LATER } from '../base/over-limit.ts'
import { TokenBuckets } from '../base/token-buckets.ts'
import type { CellError } from '../errors.ts'

/** How many requests an account may make. */
export interface RateLimit {
  /** Requests per second that an account may make all the time. */
  perSecond: number
  /** Requests that it may make at once after a pause; by default as many as in one second. */
  burst?: number | undefined
}

export const RATE_NAMES: Known<RateLimit> = { perSecond: true, burst: true }

/** A bound on each account's requests. */
export class RateLimiter {
  readonly #perSecond: number
  readonly #buckets: TokenBuckets

  /** @throws `TypeError` for a rate that is not valid */
  constructor(rate: RateLimit, clock: Clock) {
    checkRate(rate)
    this.#perSecond = rate.perSecond
    this.#buckets = new TokenBuckets({ perSecond: rate.perSecond, burst: burstOf(rate) }, clock)
  }

  /**
   * Takes a token. A refused request costs none.
   *
   * @throws `rate_limited`, with the time until there is one
   */
  take(accountId: string): void {
    const retryAfterMs = this.#buckets.waitMs(accountId)
    if (retryAfterMs > 0) throw this.#limited(accountId, retryAfterMs)
    this.#buckets.take(accountId)
  }

  #limited(accountId: string, retryAfterMs: number): CellError {
    const usage = this.#buckets.taken(accountId)
    const facts = { setting: 'rate.perSecond', limit: this.#perSecond, usage, retryAfterMs }
    return overLimit('rate_limited', `The account has just made ${usage} requests`, facts, TRY_LATER)
  }
}

/** @throws `TypeError` for a rate that is not valid */
export function checkRate(rate: RateLimit): void {
  const { perSecond } = rate
  const burst = burstOf(rate)
  if (perSecond > 0 && burst >= 1 && Number.isFinite(perSecond) && Number.isFinite(burst)) return
  throw new TypeError('rate.perSecond must be above 0, and rate.burst at least 1.')
}

function burstOf({ perSecond, burst }: RateLimit): number {
  return burst ?? Math.max(1, perSecond)
}
