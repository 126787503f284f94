import { CellError } from '../../errors.ts'
import { unlessAborted } from '../async/unless-aborted.ts'
import type { Clock, Timer } from '../clock.ts'
import { TokenBuckets, type TokenRate } from './token-buckets.ts'

/** Those of an account that wait, the first one first, and when its turn is. */
interface Waiting {
  readonly turns: Set<PromiseWithResolvers<void>>
  timer: Timer
}

export interface AccountPaceLimits extends TokenRate {
  /** Turns of an account that may wait. Each comes after one interval more, so this also bounds how long they wait. */
  waitingMax: number
  /** What takes turns, for the refusal: in the plural. */
  what: string
}

/** Makes an account that does something too often wait for its next turn. A wait that ends early leaves its turn to the next one. */
export class AccountPace {
  readonly #clock: Clock
  readonly #buckets: TokenBuckets
  readonly #limits: AccountPaceLimits
  readonly #waiting = new Map<string, Waiting>()
  readonly #stop = new AbortController()

  constructor(limits: AccountPaceLimits, clock: Clock) {
    this.#clock = clock
    this.#limits = limits
    this.#buckets = new TokenBuckets(limits, clock)
  }

  /** @throws `rate_limited` if too many of the account wait; the signal's reason; what {@link stop} was called with */
  async turn(account: string, caller: AbortSignal | undefined): Promise<void> {
    this.#stop.signal.throwIfAborted()
    caller?.throwIfAborted()
    if (!this.#waiting.has(account) && this.#buckets.waitMs(account) === 0) {
      this.#buckets.take(account)
      return
    }
    this.#assertRoom(account)
    const turn = Promise.withResolvers<void>()
    const waiting = this.#waiting.get(account) ?? { turns: new Set(), timer: this.#timerOf(account) }
    this.#waiting.set(account, waiting)
    waiting.turns.add(turn)
    const signal = AbortSignal.any(caller === undefined ? [this.#stop.signal] : [caller, this.#stop.signal])
    await unlessAborted(turn.promise, signal).finally(() => {
      if (waiting.turns.delete(turn)) this.#endIfIdle(account, waiting)
    })
  }

  /** Ends all waits, and refuses whoever comes later. */
  stop(reason: CellError): void {
    this.#stop.abort(reason)
  }

  #assertRoom(account: string): void {
    const { waitingMax, what, perSecond } = this.#limits
    if ((this.#waiting.get(account)?.turns.size ?? 0) < waitingMax) return
    throw new CellError(
      'rate_limited',
      `${waitingMax} ${what} of the account wait for their turns already, which is the most. Try again later.`,
      { limit: waitingMax, retryAfterMs: Math.ceil(1_000 / perSecond) },
    )
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
