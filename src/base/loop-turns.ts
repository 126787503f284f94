import { type Clock, setImmediate } from './clock.ts'

/**
 * Milliseconds after which no more is begun in a turn: on a busy machine a part takes many times as long as on an idle one. Beside all
 * attacks at once, a neighbour's 99th percentile was 37 ms in place of 56.
 */
export const TURN_MS_MAX = 1

/** What waits of one account. */
interface Waiting {
  readonly account: string
  /** An array loses what is taken. V8 keeps the table that a busy `Set` has outgrown, and all that it held, for very long. */
  readonly runs: (() => boolean)[]
}

/** Work that is done in small parts, a few in each turn of the event loop, and for no longer than {@link TURN_MS_MAX}. Accounts take turns. */
export class LoopTurns {
  readonly #perTurn: number
  readonly #clock: Pick<Clock, 'monotonic'>
  readonly #waiting = new Map<string, Waiting>()
  /** In the order of their turns. */
  readonly #order: Waiting[] = []
  #isScheduled = false

  constructor(perTurn: number, clock: Pick<Clock, 'monotonic'>) {
    this.#perTurn = perTurn
    this.#clock = clock
  }

  /** @param run called in one of the next turns; it returns false if there was nothing to do */
  add(account: string, run: () => boolean): void {
    const own = this.#waiting.get(account)
    if (own !== undefined) own.runs.push(run)
    else {
      const added = { account, runs: [run] }
      this.#waiting.set(account, added)
      this.#order.push(added)
    }
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled || this.#order.length === 0) return
    this.#isScheduled = true
    setImmediate(this.#runSome)
  }

  readonly #runSome = (): void => {
    this.#isScheduled = false
    const until = this.#clock.monotonic() + TURN_MS_MAX
    for (let done = 0; done < this.#perTurn; ) {
      const run = this.#take()
      if (run === undefined) return
      if (run()) done++
      if (this.#clock.monotonic() >= until) break
    }
    this.#schedule()
  }

  #take(): (() => boolean) | undefined {
    const next = this.#order.shift()
    if (next === undefined) return undefined
    const run = next.runs.shift()
    if (next.runs.length > 0) this.#order.push(next)
    else this.#waiting.delete(next.account)
    return run
  }
}
