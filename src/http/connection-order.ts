import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'

/**
 * One request at a time on each connection: the next begins, and is read, when the answer before it has gone out. So a
 * client that sends many requests at once and takes none of the answers costs the memory of one.
 */
export class ConnectionOrder {
  readonly #latest = new WeakMap<Duplex, ServerResponse>()

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
    // Node.js resumes the socket in the next tick, each time that a request is whole; a pause before that would not last.
    let waits = true
    queueMicrotask(() => {
      if (waits) socket.pause()
    })
    before.once('finish', () => {
      waits = false
      // Its answer was the connection's last.
      if (!socket.writable) return
      socket.resume()
      // This request may have been refused meanwhile.
      if (!response.headersSent) start()
    })
  }

  /** The latest answer of a connection that has not gone out whole. */
  owed(socket: Duplex): ServerResponse | undefined {
    const response = this.#latest.get(socket)
    return response === undefined || response.writableFinished ? undefined : response
  }
}
