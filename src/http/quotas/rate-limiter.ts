import type { Clock } from '../../base/clock.ts'
import { TokenBuckets, type TokenRate } from '../../base/fairness/token-buckets.ts'
import { type Kind, maybe, type Shape } from '../../base/options/option-shapes.ts'
import { overLimit, TRY_LATER } from '../../base/options/over-limit.ts'
import type { QuotaOverrides } from '../../catalog/account-quotas.ts'
import type { CellError } from '../../errors.ts'

/** How many requests an account may make. */
export interface RateLimit {
  /** Requests per second that an account may make all the time. */
  perSecond: number
  /** Requests that it may make at once after a pause; by default as many as in one second. */
  burst?: number | undefined
}

const PER_SECOND: Kind<number> = {
  what: 'a number above 0',
  fits: (value) => Number.isFinite(value) && (value as number) > 0,
}
const BURST: Kind<number> = {
  what: 'a number, 1 or more',
  fits: (value) => Number.isFinite(value) && (value as number) >= 1,
}
export const RATE: Shape<RateLimit> = { perSecond: PER_SECOND, burst: maybe(BURST) }

/** Used by no account: each bucket is asked at the rate of its account. */
const NO_RATE: TokenRate = { perSecond: 1, burst: 1 }

/** A bound on each account's requests: its own quota, or else the rate of all. */
export class RateLimiter {
  readonly #rate: TokenRate | undefined
  readonly #quotasOf: (accountId: string) => QuotaOverrides | undefined
  readonly #buckets: TokenBuckets

  /** @param rate undefined: accounts without a quota of their own have no bound */
  constructor(
    rate: RateLimit | undefined,
    clock: Clock,
    quotasOf: (accountId: string) => QuotaOverrides | undefined,
  ) {
    this.#rate = rate && { perSecond: rate.perSecond, burst: burstOf(rate) }
    this.#quotasOf = quotasOf
    this.#buckets = new TokenBuckets(this.#rate ?? NO_RATE, clock)
  }

  /**
   * Takes a token. A refused request costs none.
   *
   * @throws `rate_limited`, with the time until there is one
   */
  take(accountId: string): void {
    const own = this.#quotasOf(accountId)?.requestsPerSecond
    const rate = own === undefined ? this.#rate : { perSecond: own, burst: own }
    if (rate === undefined) return
    const retryAfterMs = this.#buckets.waitMs(accountId, 1, rate)
    if (retryAfterMs > 0) throw this.#limited(accountId, rate, own !== undefined, retryAfterMs)
    this.#buckets.take(accountId, 1, rate)
  }

  #limited(accountId: string, rate: TokenRate, isOwn: boolean, retryAfterMs: number): CellError {
    const usage = this.#buckets.taken(accountId, rate)
    const setting = isOwn ? 'quotas.requestsPerSecond' : 'rate.perSecond'
    const facts = { setting, limit: rate.perSecond, usage, retryAfterMs }
    return overLimit('rate_limited', `The account has just made ${usage} requests`, facts, TRY_LATER)
  }
}

function burstOf({ perSecond, burst }: RateLimit): number {
  return burst ?? Math.max(1, perSecond)
}
