import type { Clock } from '../../base/clock.ts'
import { overLimit } from '../../base/over-limit.ts'
import { TokenBuckets } from '../../base/token-buckets.ts'
import type { CellError } from '../../errors.ts'

export interface KillRate {
  /** Workers that may be ended for the cells of one account in a minute, in the long run. */
  killsPerMinute: number
  /** How many of them at once. */
  killsBurst: number
}

/**
 * How many workers an account may cost. A new one takes a tenth of a second of a processor, and everything that waited
 * behind the statement waits longer. With many cells, each slow for the first time, an account could end one after the other.
 */
export class KillBudget {
  readonly #rate: KillRate
  readonly #kills: TokenBuckets

  constructor(rate: KillRate, clock: Clock) {
    this.#rate = rate
    this.#kills = new TokenBuckets({ perSecond: rate.killsPerMinute / 60, burst: rate.killsBurst }, clock)
  }

  /** @throws `rate_limited` if the account has used up its budget */
  check(accountId: string): void {
    const refusal = this.#refusal(accountId)
    if (refusal !== undefined) throw refusal
  }

  /** Charges a worker that was ended. @returns the error for its statement if the budget was used up before */
  charge(accountId: string): CellError | undefined {
    const refusal = this.#refusal(accountId)
    this.#kills.take(accountId)
    return refusal
  }

  #refusal(accountId: string): CellError | undefined {
    const waitMs = this.#kills.waitMs(accountId)
    if (waitMs === 0) return undefined
    const { killsBurst, killsPerMinute } = this.#rate
    const usage = this.#kills.taken(accountId)
    const facts = { setting: 'workers.killsBurst', limit: killsBurst, usage, retryAfterMs: waitMs }
    return overLimit(
      'rate_limited',
      `Cells of the account have ended ${usage} workers, of which ${killsPerMinute} a minute are forgotten (workers.killsPerMinute)`,
      facts,
      'Wait, and make their statements and schemas cheaper.',
    )
  }
}
