import type { Clock } from '../clock.ts'

export interface TokenRate {
  /** Tokens per second that come back. */
  perSecond: number
  /** Tokens that a full bucket holds. */
  burst: number
}

/** Sums of fractions: a token that is due must not be missed by a rounding error. */
const ROUNDING_ERROR = 1e-6

/** About 10 MB. Quiet keys are forgotten first: their buckets are full, so nothing is lost. */
const KEYS_MAX = 100_000

/**
 * A token bucket for each key. Only the time at which a bucket will be full again is kept: until then it lacks one token
 * for each interval that is left.
 */
export class TokenBuckets {
  readonly #clock: Clock
  readonly #rate: TokenRate
  readonly #keysMax: number
  /** By key, in the order of their last uses. Milliseconds of the clock's monotonic time. */
  readonly #fullAt = new Map<string, number>()
  #lastKey: string | undefined

  /** @param rate of all buckets, but for calls that name another one */
  constructor(rate: TokenRate, clock: Clock, keysMax = KEYS_MAX) {
    this.#clock = clock
    this.#rate = rate
    this.#keysMax = keysMax
  }

  /** How many keys are remembered. */
  get size(): number {
    return this.#fullAt.size
  }

  /** Whole milliseconds, rounded up, until a bucket holds this many tokens; 0 if it does. */
  waitMs(key: string, tokens = 1, rate = this.#rate): number {
    const now = this.#clock.monotonic()
    const intervalMs = 1_000 / rate.perSecond
    const fullAt = Math.max(now, this.#fullAt.get(key) ?? now) + tokens * intervalMs
    // How far ahead that time may lie.
    const depthMs = rate.burst * intervalMs
    const wait = fullAt - now - depthMs
    return Math.max(0, Math.ceil(wait - ROUNDING_ERROR))
  }

  /** Tokens that a bucket lacks, rounded up: what was taken and has not come back. */
  taken(key: string, { perSecond } = this.#rate): number {
    const now = this.#clock.monotonic()
    const lacksMs = Math.max(0, (this.#fullAt.get(key) ?? now) - now)
    return Math.ceil((lacksMs * perSecond) / 1_000 - ROUNDING_ERROR)
  }

  /** Takes tokens; the bucket may end up below zero, and then fills for longer. */
  take(key: string, tokens = 1, { perSecond } = this.#rate): void {
    const now = this.#clock.monotonic()
    const fullAt = Math.max(now, this.#fullAt.get(key) ?? now) + (tokens * 1_000) / perSecond
    // Each removal leaves a hole, and a map that is full of holes is built anew.
    if (key !== this.#lastKey) this.#fullAt.delete(key)
    this.#lastKey = key
    this.#fullAt.set(key, fullAt)
    this.#forget(now)
  }

  /** Looks at two keys at most, one more than a use can add, so that quiet ones are forgotten at little cost. */
  #forget(now: number): void {
    let looked = 0
    for (const [key, fullAt] of this.#fullAt) {
      if (looked++ === 2 || (fullAt > now && this.#fullAt.size <= this.#keysMax)) return
      this.#fullAt.delete(key)
    }
  }
}
