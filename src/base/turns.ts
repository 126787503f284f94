/** Small pieces that an account may do in one turn of the loop. */
const SMALL_PIECES_MAX = 8

interface Piece {
  begin(): void
  isSmall: boolean
}

/**
 * Turns at the event loop, for work that may hold it up for some milliseconds. One piece of it runs in each turn of the
 * loop, and accounts take their turns one after the other: a caller waits for one piece of each other account, however
 * many that one has waiting. Between two pieces the loop does everything else.
 *
 * Small requests pass without a turn, a few of each account in each turn of the loop. Hundreds at once would hold it up as
 * long as large ones, so the others wait: a turn is one large piece, or a few small ones.
 */
export class Turns {
  /** By account, in the order of their next turns. */
  readonly #waiting = new Map<string, Piece[]>()
  /** Small pieces that have passed in this turn of the loop, by account. */
  readonly #passed = new Map<string, number>()

  /** Resolves when the account has its turn, which lasts until the caller next waits for anything but settled promises. */
  next(account: string): Promise<void> {
    return this.#wait(account, false)
  }

  /** For a small piece of work. @returns undefined if it may begin at once; otherwise as {@link next} */
  nextSmall(account: string): Promise<void> | undefined {
    const passed = this.#passed.get(account) ?? 0
    if (passed === SMALL_PIECES_MAX || this.#waiting.has(account)) return this.#wait(account, true)
    if (this.#passed.size === 0) setImmediate(this.#forgetPassed)
    this.#passed.set(account, passed + 1)
    return undefined
  }

  #wait(account: string, isSmall: boolean): Promise<void> {
    return new Promise((begin) => {
      const own = this.#waiting.get(account)
      if (own !== undefined) {
        own.push({ begin, isSmall })
        return
      }
      if (this.#waiting.size === 0) setImmediate(this.#give)
      this.#waiting.set(account, [{ begin, isSmall }])
    })
  }

  readonly #give = (): void => {
    const [first] = this.#waiting
    if (first === undefined) return
    const [account, own] = first
    const turn = own.splice(0, piecesOfTurn(own))
    this.#waiting.delete(account)
    if (own.length > 0) this.#waiting.set(account, own)
    if (this.#waiting.size > 0) setImmediate(this.#give)
    for (const { begin } of turn) begin()
  }

  readonly #forgetPassed = (): void => this.#passed.clear()
}

/** How many of the first pieces make one turn. */
function piecesOfTurn(waiting: readonly Piece[]): number {
  const large = waiting.findIndex(({ isSmall }, at) => !isSmall || at === SMALL_PIECES_MAX)
  return large === -1 ? waiting.length : Math.max(1, large)
}
