import type { Clock, Timer } from './clock.ts'
import { TokenBuckets, type TokenRate } from './token-buckets.ts'
import { unlessAborted } from './unless-aborted.ts'

/** Those of an account that wait, the first one first, and when its turn is. */
interface Waiting {
  readonly turns: Set<PromiseWithResolvers<void>>
  timer: Timer
}

/** Makes an account that does something too often wait for its next turn. A wait that ends early leaves its turn to the next one. */
export class AccountPace {
  readonly #clock: Clock
  readonly #buckets: TokenBuckets
  readonly #waiting = new Map<string, Waiting>()

  constructor(rate: TokenRate, clock: Clock) {
    this.#clock = clock
    this.#buckets = new TokenBuckets(rate, clock)
  }

  /** @throws the signal's reason */
  async turn(account: string, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted()
    if (!this.#waiting.has(account) && this.#buckets.waitMs(account) === 0) {
      this.#buckets.take(account)
      return
    }
    const turn = Promise.withResolvers<void>()
    const waiting = this.#waiting.get(account) ?? { turns: new Set(), timer: this.#timerOf(account) }
    this.#waiting.set(account, waiting)
    waiting.turns.add(turn)
    await unlessAborted(turn.promise, signal).finally(() => {
      if (waiting.turns.delete(turn)) this.#endIfIdle(account, waiting)
    })
  }

  #timerOf(account: string): Timer {
    const waitMs = this.#buckets.waitMs(account)
    return this.#clock.setTimer(() => this.#next(account), waitMs, { keepsAlive: true })
  }

  #next(account: string): void {
    const waiting = this.#waiting.get(account) as Waiting
    const [turn] = waiting.turns as Set<PromiseWithResolvers<void>>
    this.#buckets.take(account)
    waiting.turns.delete(turn as PromiseWithResolvers<void>)
    turn?.resolve()
    waiting.timer = this.#timerOf(account)
    this.#endIfIdle(account, waiting)
  }

  #endIfIdle(account: string, { turns, timer }: Waiting): void {
    if (turns.size > 0) return
    timer.cancel()
    this.#waiting.delete(account)
  }
}
