import type { IncomingMessage } from 'node:http'
import { systemClock } from '../base/clock.ts'
import { LoopTurns } from '../base/loop-turns.ts'

/** What Node.js reads of a connection at most at a time. */
export const READ_BYTES = 65_536
/** What a piece counts beside its bytes. A body can come in pieces of one byte, and each costs microseconds. */
export const PIECE_BYTES = 1_024
/** Bodies of which the next piece is read in one turn of the event loop: about two milliseconds of work. */
export const PIECES_PER_TURN = 8

/**
 * Reads a body a piece at a time, and few pieces of all bodies in one turn of the event loop. Accounts take turns. After a piece more
 * waits, and libuv would read on, of each body, as long as there is any.
 */
export class ReadPace {
  readonly #request: IncomingMessage
  readonly #account: string
  readonly #mayRead: () => boolean
  #read = 0

  /**
   * @param account whose body it is; '' if that is not known
   * @param mayRead whether the request is still read when its next turn comes
   */
  constructor(request: IncomingMessage, account: string, mayRead: () => boolean) {
    this.#request = request
    this.#account = account
    this.#mayRead = mayRead
  }

  /** Call it with the length of each piece. */
  took(bytes: number): void {
    this.#read += bytes + PIECE_BYTES
    if (this.#read < READ_BYTES) return
    this.#read = 0
    this.#request.pause()
    turns.add(this.#account, this.#goOn)
  }

  readonly #goOn = (): boolean => {
    if (!this.#mayRead()) return false
    this.#request.resume()
    return true
  }
}

/** The bodies of this process, which has one event loop. */
const turns = new LoopTurns(PIECES_PER_TURN, systemClock)
