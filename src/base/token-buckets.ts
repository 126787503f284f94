import type { Clock } from './clock.ts'

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
  readonly #intervalMs: number
  /** How far ahead that time may lie. */
  readonly #depthMs: number
  readonly #keysMax: number
  /** By key, in the order of their last uses. Milliseconds of the clock's monotonic time. */
  readonly #fullAt = new Map<string, number>()

  constructor({ perSecond, burst }: TokenRate, clock: Clock, keysMax = KEYS_MAX) {
    this.#clock = clock
    this.#intervalMs = 1_000 / perSecond
    this.#depthMs = burst * this.#intervalMs
    this.#keysMax = keysMax
  }

  /** How many keys are remembered. */
  get size(): number {
    return this.#fullAt.size
  }

  /** Whole milliseconds, rounded up, until a bucket holds this many tokens; 0 if it does. */
  waitMs(key: string, tokens = 1): number {
    const now = this.#clock.monotonic()
    const fullAt = Math.max(now, this.#fullAt.get(key) ?? now) + tokens * this.#intervalMs
    const wait = fullAt - now - this.#depthMs
    return Math.max(0, Math.ceil(wait - ROUNDING_ERROR))
  }

  /** Tokens that a bucket lacks, rounded up: what was taken and has not come back. */
  taken(key: string): number {
    const now = this.#clock.monotonic()
    return Math.ceil(Math.max(0, (this.#fullAt.get(key) ?? now) - now) / this.#intervalMs - ROUNDING_ERROR)
  }

  /** Takes tokens; the bucket may end up below zero, and then fills for longer. */
  take(key: string, tokens = 1): void {
    const now = this.#clock.monotonic()
    const fullAt = Math.max(now, this.#fullAt.get(key) ?? now) + tokens * this.#intervalMs
    this.#fullAt.delete(key)
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
