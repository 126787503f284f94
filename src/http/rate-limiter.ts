import type { Clock } from '../base/clock.ts'
import { CellError } from '../errors.ts'

/** How many requests an account may make. */
export interface RateLimit {
  /** Requests per second that an account may make all the time. */
  perSecond: number
  /** Requests that it may make at once after a pause; by default as many as in one second. */
  burst?: number | undefined
}

/** About 10 MB. Quiet accounts are forgotten first: their buckets are full, so nothing is lost. */
const ACCOUNTS_MAX = 100_000

/**
 * A token bucket for each account. Only the time at which a bucket will be full again is kept: until then it lacks one
 * token for each interval that is left.
 */
export class RateLimiter {
  readonly #clock: Clock
  readonly #perSecond: number
  readonly #intervalMs: number
  /** How far ahead that time may lie. */
  readonly #depthMs: number
  readonly #accountsMax: number
  /** By account, in the order of their last requests. Milliseconds of the clock's monotonic time. */
  readonly #fullAt = new Map<string, number>()

  /** @throws `TypeError` for a rate that is not valid */
  constructor(rate: RateLimit, clock: Clock, accountsMax = ACCOUNTS_MAX) {
    checkRate(rate)
    this.#clock = clock
    this.#perSecond = rate.perSecond
    this.#intervalMs = 1_000 / rate.perSecond
    this.#depthMs = burstOf(rate) * this.#intervalMs
    this.#accountsMax = accountsMax
  }

  /** How many accounts are remembered. */
  get size(): number {
    return this.#fullAt.size
  }

  /**
   * Takes a token. A refused request costs none.
   *
   * @throws `rate_limited`, with the time until there is one
   */
  take(accountId: string): void {
    const now = this.#clock.monotonic()
    const fullAt = Math.max(now, this.#fullAt.get(accountId) ?? now) + this.#intervalMs
    const wait = fullAt - now - this.#depthMs
    // Sums of fractions: a token that is due must not be missed by a rounding error.
    if (wait > 1e-6) throw this.#limited(wait)
    this.#fullAt.delete(accountId)
    this.#fullAt.set(accountId, fullAt)
    this.#forget(now)
  }

  /** Looks at two accounts at most, one more than a request can add, so that quiet ones go at little cost. */
  #forget(now: number): void {
    let looked = 0
    for (const [accountId, fullAt] of this.#fullAt) {
      if (looked++ === 2 || (fullAt > now && this.#fullAt.size <= this.#accountsMax)) return
      this.#fullAt.delete(accountId)
    }
  }

  #limited(retryAfterMs: number): CellError {
    const message = `The account may make ${this.#perSecond} requests a second. Try again later.`
    return new CellError('rate_limited', message, { limit: this.#perSecond, retryAfterMs })
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
