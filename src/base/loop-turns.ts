import { AccountQueue } from './account-queue.ts'

/** Work that is done in small parts, a few in each turn of the event loop. Accounts take turns. */
export class LoopTurns {
  readonly #perTurn: number
  readonly #waiting = new AccountQueue<() => boolean>()
  #isScheduled = false

  constructor(perTurn: number) {
    this.#perTurn = perTurn
  }

  /** @param run called in one of the next turns; it returns false if there was nothing to do */
  add(account: string, run: () => boolean): void {
    this.#waiting.add(account, run)
    this.#schedule()
  }

  #schedule(): void {
    if (this.#isScheduled || this.#waiting.size === 0) return
    this.#isScheduled = true
    setImmediate(this.#runSome)
  }

  readonly #runSome = (): void => {
    this.#isScheduled = false
    for (let done = 0; done < this.#perTurn; ) {
      const run = this.#waiting.take()
      if (run === undefined) return
      if (run()) done++
    }
    this.#schedule()
  }
}
