import type { Clock } from './clock.ts'
import { TokenBuckets, type TokenRate } from './token-buckets.ts'
import { unlessAborted } from './unless-aborted.ts'

/** Makes an account that does something too often wait for its next turn. */
export class AccountPace {
  readonly #clock: Clock
  readonly #buckets: TokenBuckets

  constructor(rate: TokenRate, clock: Clock) {
    this.#clock = clock
    this.#buckets = new TokenBuckets(rate, clock)
  }

  /** @throws the signal's reason */
  async turn(account: string, signal: AbortSignal | undefined): Promise<void> {
    const waitMs = this.#buckets.waitMs(account)
    this.#buckets.take(account)
    if (waitMs === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = this.#clock.setTimer(resolve, waitMs, { keepsAlive: true })
    await unlessAborted(promise, signal).finally(() => timer.cancel())
  }
}
