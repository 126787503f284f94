import { createServer, type Server } from 'node:http'
import type { AddressInfo, ListenOptions } from 'node:net'
import type { CellStore } from '../store.ts'
import type { HandlerOptions } from './handler-options.ts'
import { createListener } from './node-listener.ts'

/** Bounds on what a connection may cost. All times in milliseconds. */
export interface ConnectionLimits {
  /** For a request's headers to arrive. */
  headersMs: number
  /** For a whole request to arrive. */
  requestMs: number
  /** For the next request on a connection that idles. */
  keepAliveMs: number
  /** Of a request's line and headers together, in bytes. A key of 1,024 bytes takes up to 3,072 in a path. */
  headerBytesMax: number
  /** Open connections; more are closed as they come. */
  connectionsMax: number
}

const DEFAULT_CONNECTION_LIMITS: ConnectionLimits = {
  headersMs: 10_000,
  requestMs: 30_000,
  keepAliveMs: 5_000,
  headerBytesMax: 16_384,
  connectionsMax: 10_000,
}

/** How often Node looks for connections that are past their times. Its own default would let them live 30 s longer. */
const TIMEOUT_CHECK_MS = 1_000

export interface NodeServerOptions extends Omit<HandlerOptions, 'shutdown'> {
  connections?: Partial<ConnectionLimits> | undefined
}

/** A `node:http` server over a store, with bounds on every connection and a graceful end. */
export class NodeServer {
  readonly #server: Server
  readonly #store: CellStore
  readonly #shutdown = new AbortController()
  #stopped: Promise<void> | undefined

  constructor(store: CellStore, { connections, ...options }: NodeServerOptions = {}) {
    const limits = { ...DEFAULT_CONNECTION_LIMITS, ...connections }
    this.#store = store
    this.#server = createServer(
      {
        headersTimeout: limits.headersMs,
        requestTimeout: limits.requestMs,
        keepAliveTimeout: limits.keepAliveMs,
        maxHeaderSize: limits.headerBytesMax,
        connectionsCheckingInterval: TIMEOUT_CHECK_MS,
        // Most requests have no body, and a stream that says so costs a tenth of such a request.
        optimizeEmptyRequests: true,
      },
      createListener(store, { ...options, shutdown: this.#shutdown.signal }),
    )
    this.#server.maxConnections = limits.connectionsMax
  }

  /**
   * Listens, on a TCP address or a Unix socket.
   *
   * @throws the error of node:net, such as `EADDRINUSE`
   */
  start(options: ListenOptions): Promise<AddressInfo | string> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(options, () => {
        this.#server.off('error', reject)
        resolve(this.#server.address() as AddressInfo | string)
      })
    })
  }

  /**
   * Takes no new connection, answers new requests on the open ones with 503, lets the requests under way finish, and
   * cuts what is left at the deadline. A repeat waits for the same end, and never cuts the drain short.
   *
   * @param options.drainMs how long requests under way may still take
   */
  stop({ drainMs }: { drainMs: number }): Promise<void> {
    this.#stopped ??= this.#drain(drainMs)
    return this.#stopped
  }

  #drain(drainMs: number): Promise<void> {
    this.#shutdown.abort()
    return new Promise((resolve) => {
      const deadline = this.#store.clock.setTimer(() => this.#server.closeAllConnections(), drainMs)
      // Not listening is no failure here: the end is what was asked for.
      this.#server.close(() => {
        deadline.cancel()
        resolve()
      })
    })
  }
}
