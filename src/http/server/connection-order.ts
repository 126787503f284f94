import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { setImmediate } from '../../base/clock.ts'

/**
 * One request at a time on each connection: the next begins when the answer before it has gone out, and the connection is read on
 * when all that have come have begun. So a client that sends many requests at once and takes none of the answers costs the memory of
 * one read.
 */
export class ConnectionOrder {
  /** The answer of the last request that has come. */
  readonly #latest = new WeakMap<Duplex, ServerResponse>()

  /** Call with every request, in the order in which they came. */
  take(request: IncomingMessage, response: ServerResponse, start: () => void): void {
    const { socket, httpVersionMajor } = request
    // The requests of an HTTP/2 connection have a window each, and wait for none.
    if (httpVersionMajor >= 2) {
      start()
      return
    }
    const before = this.#latest.get(socket)
    this.#latest.set(socket, response)
    if (before === undefined || before.writableFinished) start()
    else this.#wait(socket, before, response, start)
  }

  /** The latest answer of a connection that has not gone out whole. */
  unanswered(socket: Duplex): ServerResponse | undefined {
    const latest = this.#latest.get(socket)
    return latest?.writableFinished === false ? latest : undefined
  }

  #wait(socket: Duplex, before: ServerResponse, response: ServerResponse, start: () => void): void {
    // Node.js resumes the socket in the next tick, each time that a request is whole; a pause before that would not last.
    queueMicrotask(() => {
      if (!before.writableFinished) socket.pause()
    })
    // In a turn of its own: thousands of short requests in one read are not served in one go.
    const begin = () => {
      // If not, the answer before was the connection's last.
      if (!socket.writable) return
      if (this.#latest.get(socket) === response) socket.resume()
      // It may have been refused meanwhile.
      if (!response.headersSent) start()
    }
    before.once('finish', () => setImmediate(begin))
  }
}
