/**
 * Turns at the event loop, for work that may hold it up for some milliseconds. One piece of it runs in each turn of the
 * loop, and accounts take their turns one after the other: a caller waits for one piece of each other account, however
 * many that one has waiting. Between two pieces the loop does everything else, so that small requests, which take no turn, pass.
 */
export class Turns {
  /** By account, in the order of their next turns. */
  readonly #waiting = new Map<string, (() => void)[]>()

  /** Resolves when the account has its turn, which lasts until the caller next waits for anything but settled promises. */
  next(account: string): Promise<void> {
    return new Promise((resolve) => {
      const own = this.#waiting.get(account)
      if (own !== undefined) {
        own.push(resolve)
        return
      }
      if (this.#waiting.size === 0) setImmediate(this.#give)
      this.#waiting.set(account, [resolve])
    })
  }

  readonly #give = (): void => {
    const [first] = this.#waiting
    if (first === undefined) return
    const [account, own] = first
    const begin = own.shift()
    this.#waiting.delete(account)
    if (own.length > 0) this.#waiting.set(account, own)
    if (this.#waiting.size > 0) setImmediate(this.#give)
    begin?.()
  }
}
