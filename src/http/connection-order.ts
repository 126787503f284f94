import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { LoopTurns } from '../base/loop-turns.ts'
import type { ReadCosts } from './read-costs.ts'

/** Requests that begin in one turn of the event loop, of those that waited for the one before them. */
export const BEGIN_PER_TURN = 16

/** The pipelined requests of this process, which has one event loop. */
const turns = new LoopTurns(BEGIN_PER_TURN)

/** What waits on a connection. */
interface Waiting {
  count: number
  sender: string
}

/**
 * One request at a time on each connection: the next begins when the answer before it has gone out, and the connection is read on
 * when all that have come have begun. So a client that sends many requests at once and takes none of the answers costs the memory of
 * one read; and of thousands that are short, few are served in each turn of the event loop.
 */
export class ConnectionOrder {
  readonly #costs: ReadCosts
  readonly #latest = new WeakMap<Duplex, ServerResponse>()
  readonly #waiting = new WeakMap<Duplex, Waiting>()

  constructor(costs: ReadCosts) {
    this.#costs = costs
  }

  /** Call with every request, in the order in which they came. */
  take(request: IncomingMessage, response: ServerResponse, start: () => void): void {
    const { socket, httpVersionMajor } = request
    // The requests of an HTTP/2 connection have a window each, and wait for none.
    const before = httpVersionMajor >= 2 ? undefined : this.owed(socket)
    // The response has the socket only once its turn has come.
    this.#latest.set(socket, response)
    if (before === undefined) {
      start()
      return
    }
    const waiting = this.#wait(socket)
    // Node.js resumes the socket in the next tick, each time that a request is whole; a pause before that would not last.
    queueMicrotask(() => {
      if (waiting.count > 0) socket.pause()
    })
    before.once('finish', () => {
      // Its answer was the connection's last.
      if (!socket.writable) return
      turns.add(waiting.sender, () => {
        if (socket.destroyed) return false
        this.#begin(socket, waiting)
        // This request may have been refused meanwhile.
        if (!response.headersSent) start()
        return true
      })
    })
  }

  /** The latest answer of a connection that has not gone out whole. */
  owed(socket: Duplex): ServerResponse | undefined {
    const response = this.#latest.get(socket)
    return response === undefined || response.writableFinished ? undefined : response
  }

  #wait(socket: Duplex): Waiting {
    const waiting = this.#waiting.get(socket) ?? this.#first(socket)
    if (waiting.count++ === 0) waiting.sender = this.#costs.senderOf(socket)
    this.#costs.pipelined(waiting.sender, socket)
    return waiting
  }

  #first(socket: Duplex): Waiting {
    const waiting = { count: 0, sender: '' }
    this.#waiting.set(socket, waiting)
    socket.once('close', () => this.#costs.begun(waiting.sender, waiting.count))
    return waiting
  }

  #begin(socket: Duplex, waiting: Waiting): void {
    waiting.count--
    this.#costs.begun(waiting.sender, 1)
    if (waiting.count === 0) socket.resume()
  }
}
