/** Bytes of small pieces that an account may do in one turn of the loop: two or three milliseconds of work. */
const SMALL_BYTES_MAX = 32_768
/** What a small piece counts at least: most of a request's work does not depend on its length. */
const PIECE_BYTES = 1_024

interface Piece {
  begin(): void
  /** What it counts; infinitely much if it is large. */
  bytes: number
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
  /** Bytes of small pieces that have passed in this turn of the loop, by account. */
  readonly #passed = new Map<string, number>()

  /** Resolves when the account has its turn, which lasts until the caller next waits for anything but settled promises. */
  next(account: string): Promise<void> {
    return this.#wait(account, Number.POSITIVE_INFINITY)
  }

  /** For a small piece of work on so many bytes. @returns undefined if it may begin at once; otherwise as {@link next} */
  nextSmall(account: string, length: number): Promise<void> | undefined {
    const bytes = PIECE_BYTES + length
    const passed = (this.#passed.get(account) ?? 0) + bytes
    if (passed > SMALL_BYTES_MAX || this.#waiting.has(account)) return this.#wait(account, bytes)
    if (this.#passed.size === 0) setImmediate(this.#forgetPassed)
    this.#passed.set(account, passed)
    return undefined
  }

  #wait(account: string, bytes: number): Promise<void> {
    return new Promise((begin) => {
      const own = this.#waiting.get(account)
      if (own !== undefined) {
        own.push({ begin, bytes })
        return
      }
      if (this.#waiting.size === 0) setImmediate(this.#give)
      this.#waiting.set(account, [{ begin, bytes }])
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
  let bytes = 0
  const over = waiting.findIndex((piece) => {
    bytes += piece.bytes
    return bytes > SMALL_BYTES_MAX
  })
  return over === -1 ? waiting.length : Math.max(1, over)
}
