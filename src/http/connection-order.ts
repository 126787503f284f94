import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { systemClock } from '../base/clock.ts'
import { LoopTurns } from '../base/loop-turns.ts'
import type { ReadCosts } from './read-costs.ts'

/** Requests that begin in one turn of the event loop, of those that waited for the one before them. */
export const BEGIN_PER_TURN = 16

/** The pipelined requests of this process, which has one event loop. */
const turns = new LoopTurns(BEGIN_PER_TURN, systemClock)

interface Waiting {
  readonly response: ServerResponse
  start(): void
}

/** The requests of a connection. */
interface Line {
  /** The answer of the last one that has come. */
  latest: ServerResponse
  /** Who sent what waits: it is charged, and given back, to the same one. */
  sender: string
  /** Whether it is known when the connection closes: most never have anything wait. */
  isWatched: boolean
  /**
   * Those behind the one that is at work. If the answers knew the next ones, all that a connection had ever sent would outlive
   * it in V8's young objects for as long as Node.js keeps its socket: with the parser, until that gets another one.
   */
  readonly waiting: Waiting[]
}

/**
 * One request at a time on each connection: the next begins when the answer before it has gone out, and the connection is read on
 * when all that have come have begun, or when the last of them reads its body. So a client that sends many requests at once and takes
 * none of the answers costs the memory of one read; and of thousands that are short, few are served in each turn of the event loop.
 */
export class ConnectionOrder {
  readonly #costs: ReadCosts
  readonly #lines = new WeakMap<Duplex, Line>()

  constructor(costs: ReadCosts) {
    this.#costs = costs
  }

  /** Call with every request, in the order in which they came. */
  take(request: IncomingMessage, response: ServerResponse, start: () => void): void {
    const { socket, httpVersionMajor } = request
    // The requests of an HTTP/2 connection have a window each, and wait for none.
    const line = httpVersionMajor < 2 ? this.#lineOf(socket, response) : undefined
    if (line === undefined || line.latest === response || line.latest.writableFinished) {
      if (line !== undefined) line.latest = response
      start()
    } else this.#wait(socket, line, { response, start })
  }

  /** The latest answer of a connection that has not gone out whole. */
  owed(socket: Duplex): ServerResponse | undefined {
    const latest = this.#lines.get(socket)?.latest
    return latest?.writableFinished === false ? latest : undefined
  }

  #lineOf(socket: Duplex, first: ServerResponse): Line {
    let line = this.#lines.get(socket)
    if (line === undefined) {
      line = { latest: first, sender: '', isWatched: false, waiting: [] }
      this.#lines.set(socket, line)
    }
    return line
  }

  #wait(socket: Duplex, line: Line, added: Waiting): void {
    if (!line.isWatched) socket.once('close', () => this.#forget(line))
    line.isWatched = true
    if (line.waiting.length === 0) {
      line.sender = this.#costs.senderOf(socket)
      this.#beginAfter(line.latest, socket, line)
    }
    // The response has the socket only once its turn has come.
    line.latest = added.response
    line.waiting.push(added)
    this.#costs.pipelined(line.sender, socket)
    // Node.js resumes the socket in the next tick, each time that a request is whole; a pause before that would not last.
    queueMicrotask(() => {
      if (line.waiting.length > 0) socket.pause()
    })
  }

  #beginAfter(before: ServerResponse, socket: Duplex, line: Line): void {
    before.once('finish', () => {
      // If not, its answer was the connection's last.
      if (socket.writable) turns.add(line.sender, () => this.#beginNext(socket, line))
    })
  }

  #beginNext(socket: Duplex, line: Line): boolean {
    const next = line.waiting.shift()
    if (next === undefined) return false
    this.#costs.begun(line.sender, 1)
    if (!socket.writable) return false
    if (line.waiting.length > 0) this.#beginAfter(next.response, socket, line)
    else socket.resume()
    // It may have been refused meanwhile.
    if (!next.response.headersSent) next.start()
    return true
  }

  /** Its connection has closed. */
  #forget(line: Line): void {
    this.#costs.begun(line.sender, line.waiting.length)
    line.waiting.length = 0
  }
}
