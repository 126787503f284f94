import type { Clock } from '../base/clock.ts'
import { CellError } from '../errors.ts'

export interface RateLimit {
  /** Requests a second that an account may make for as long as it likes. */
  perSecond: number
  /** Requests that it may make at once after a pause; those of one second by default. */
  burst?: number | undefined
}

/** Some 10 MB. Accounts that were quiet are forgotten first, and quiet ones have nothing that needs remembering. */
const ACCOUNTS_MAX = 100_000

/**
 * A token bucket for each account. Of a bucket only the instant is kept at which it will be full again: before that it
 * lacks one token for each interval that is left, and after that there is nothing to know.
 */
export class RateLimiter {
  readonly #clock: Clock
  readonly #perSecond: number
  readonly #intervalMs: number
  /** How far ahead that instant may lie. */
  readonly #depthMs: number
  readonly #accountsMax: number
  /** By account, in the order of their last requests. Milliseconds of the clock's monotonic time. */
  readonly #fullAt = new Map<string, number>()

  /** @throws `TypeError` for what is no rate */
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

  /** No more are looked at than one request can have added, and one more: so the quiet ones go, at no cost to speak of. */
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

/** @throws `TypeError` for what is no rate */
export function checkRate(rate: RateLimit): void {
  const { perSecond } = rate
  const burst = burstOf(rate)
  if (perSecond > 0 && burst >= 1 && Number.isFinite(perSecond) && Number.isFinite(burst)) return
  throw new TypeError('A rate takes perSecond above 0, and a burst of 1 or more.')
}

function burstOf({ perSecond, burst }: RateLimit): number {
  return burst ?? Math.max(1, perSecond)
}
