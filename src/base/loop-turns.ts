/** What waits of one account. */
interface Waiting {
  readonly account: string
  /** An array loses what is taken. V8 keeps the table that a busy `Set` has outgrown, and all that it held, for very long. */
  readonly runs: (() => boolean)[]
}

/** Work that is done in small parts, a few in each turn of the event loop. Accounts take turns. */
export class LoopTurns {
  readonly #perTurn: number
  readonly #waiting = new Map<string, Waiting>()
  /** In the order of their turns. */
  readonly #order: Waiting[] = []
  #isScheduled = false

  constructor(perTurn: number) {
    this.#perTurn = perTurn
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
    for (let done = 0; done < this.#perTurn; ) {
      const run = this.#take()
      if (run === undefined) return
      if (run()) done++
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
