import { setImmediate } from '../clock.ts'

/** Bytes of small pieces that an account may do in one turn of the loop: two or three milliseconds of work. */
const SMALL_BYTES_MAX = 32_768
/** What a small piece counts at least: most of a request's work does not depend on its length. */
const PIECE_BYTES = 1_024

interface Piece {
  begin(): void
  /** What it counts. */
  bytes: number
}

/** What an account has waiting, each kind in the order in which it came. */
interface Waiting {
  small: Piece[]
  large: (() => void)[]
  /** The account's last turn was for a large piece. */
  hadLarge: boolean
}

/**
 * Turns at the event loop, for work that may hold it up for some milliseconds. One piece of it runs in each turn of the
 * loop, and accounts take their turns one after the other: a caller waits for one piece of each other account, however
 * many that one has waiting. Between two pieces the loop does everything else.
 *
 * Small requests pass without a turn, a few of each account in each turn of the loop. Hundreds at once would hold it up as
 * long as large ones, so the others wait: a turn is one large piece, or a few small ones. An account that has both gets them
 * by turns, so that its small requests do not wait behind its own large ones.
 */
export class Turns {
  /** By account, in the order of their next turns. */
  readonly #waiting = new Map<string, Waiting>()
  /** Bytes of small pieces that have passed in this turn of the loop, by account. */
  #passed = new Map<string, number>()

  /** Resolves when the account has its turn, which lasts until the caller next waits for anything but settled promises. */
  next(account: string): Promise<void> {
    return new Promise((begin) => void this.#waitingOf(account).large.push(begin))
  }

  /** For a small piece of work on so many bytes. @returns undefined if it may begin at once; otherwise as {@link next} */
  nextSmall(account: string, length: number): Promise<void> | undefined {
    const bytes = PIECE_BYTES + length
    const passed = (this.#passed.get(account) ?? 0) + bytes
    const isFirst = (this.#waiting.get(account)?.small.length ?? 0) === 0
    if (passed > SMALL_BYTES_MAX || !isFirst)
      return new Promise((begin) => void this.#waitingOf(account).small.push({ begin, bytes }))
    if (this.#passed.size === 0) setImmediate(this.#forgetPassed)
    this.#passed.set(account, passed)
    return undefined
  }

  /** Of an account that has something waiting from here on. */
  #waitingOf(account: string): Waiting {
    let waiting = this.#waiting.get(account)
    if (waiting === undefined) {
      if (this.#waiting.size === 0) setImmediate(this.#give)
      waiting = { small: [], large: [], hadLarge: false }
      this.#waiting.set(account, waiting)
    }
    return waiting
  }

  readonly #give = (): void => {
    const [first] = this.#waiting
    if (first === undefined) return
    const [account, own] = first
    const turn = turnOf(own)
    this.#waiting.delete(account)
    if (own.small.length + own.large.length > 0) this.#waiting.set(account, own)
    if (this.#waiting.size > 0) setImmediate(this.#give)
    for (const begin of turn) begin()
  }

  readonly #forgetPassed = (): void => {
    this.#passed = new Map()
  }
}

/** Takes what makes one turn. */
function turnOf(own: Waiting): (() => void)[] {
  const isLarge = own.small.length === 0 || (own.large.length > 0 && !own.hadLarge)
  own.hadLarge = isLarge
  if (isLarge) return own.large.splice(0, 1)
  let bytes = 0
  const over = own.small.findIndex((piece) => {
    bytes += piece.bytes
    return bytes > SMALL_BYTES_MAX
  })
  const count = over === -1 ? own.small.length : Math.max(1, over)
  return own.small.splice(0, count).map(({ begin }) => begin)
}
