import type { IncomingMessage } from 'node:http'

/** What Node.js reads of a connection at most at a time. */
export const READ_BYTES = 65_536
/** What a piece counts beside its bytes: a body can come in pieces of one byte. */
const PIECE_BYTES = 64

/**
 * Reads a body a piece per turn of the event loop. After a piece more waits, and libuv would read on, of each body, as long as
 * there is any.
 */
export class ReadPace {
  readonly #request: IncomingMessage
  readonly #mayRead: () => boolean
  #read = 0

  /** @param mayRead whether the request is still read when its next turn comes */
  constructor(request: IncomingMessage, mayRead: () => boolean) {
    this.#request = request
    this.#mayRead = mayRead
  }

  /** Call it with the length of each piece. */
  took(bytes: number): void {
    this.#read += bytes + PIECE_BYTES
    if (this.#read < READ_BYTES) return
    this.#read = 0
    this.#request.pause()
    setImmediate(this.#goOn)
  }

  readonly #goOn = (): void => {
    if (this.#mayRead()) this.#request.resume()
  }
}
