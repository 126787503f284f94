import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo, ListenOptions, Socket } from 'node:net'
import type { CellDirectory } from '../../store/cells/cell-directory.ts'
import { Application, type ApplicationOptions } from '../core/application.ts'
import type { Audience } from '../core/audience.ts'
import { internalListener } from '../forwarding/internal-listener.ts'
import type { MemoryUse } from '../quotas/memory-budgets.ts'
import { ClientErrors, missingHost, tooManyConnections } from './client-errors.ts'
import { type ConnectionLimits, defaultConnectionLimits } from './connection-limits.ts'
import { ConnectionOrder } from './connection-order.ts'
import type { ConsoleListener } from './console-files.ts'
import { answer, listenerOf } from './node-listener.ts'
import { askLater } from './node-request.ts'

/** How often Node.js looks for connections that are past their times. With its default they would live 30 s longer. */
const TIMEOUT_CHECK_MS = 1_000
/** Bytes of a connection that wait unread: reading pauses after the piece that has them. */
const UNREAD_BYTES_MAX = 16_384
/** Connections over the bound that still get an answer: this share of the bound, and at least this many. */
const ANSWERED_SHARE = 0.1
const ANSWERED_MIN = 8

export interface NodeServerOptions extends Omit<ApplicationOptions, 'shutdown'> {
  connections?: Partial<ConnectionLimits> | undefined
  /** Whom it serves; the holders of API keys by default. */
  audience?: Audience | undefined
  /** Serves the console, too. */
  console?: ConsoleListener | undefined
}

/** A `node:http` server over a store, with bounds on every connection and a graceful end. */
export class NodeServer {
  readonly #server: Server
  readonly #store: CellDirectory
  readonly #application: Application
  readonly #shutdown = new AbortController()
  readonly #connections = new Set<Socket>()
  /** Connections over the bound. */
  readonly #surplus = new WeakSet<Socket>()
  #stopped: Promise<void> | undefined

  constructor(store: CellDirectory, { connections, audience, console, ...options }: NodeServerOptions = {}) {
    const sendsOn = options.cluster !== undefined
    const limits = { ...defaultConnectionLimits(store.settings.openCellsMax, sendsOn), ...connections }
    this.#store = store
    const application = new Application(store, { ...options, shutdown: this.#shutdown.signal }, audience)
    this.#application = application
    const listener = listenerOf(application, options.basePath)
    const order = new ConnectionOrder()
    const clientErrors = new ClientErrors(application, order)
    const { cluster } = options
    const internal =
      cluster &&
      internalListener(cluster, application.internalRoutes, (error, fields) =>
        application.reportBug(error, fields),
      )
    const take = (request: IncomingMessage, response: ServerResponse) =>
      order.take(request, response, () => start(request, response))
    const start = (request: IncomingMessage, response: ServerResponse) => {
      if (isLastOfConnection(response)) response.shouldKeepAlive = false
      if (internal?.(request, response) === true) return
      // Nodes that send on what their clients ask are bounded there.
      if (this.#surplus.has(request.socket) && !application.isSentOn(request))
        answer(application, request, response, tooManyConnections(limits.connectionsMax))
      else if (lacksHost(request)) answer(application, request, response, missingHost())
      else if (console?.(request, response) !== true) listener(request, response)
    }
    this.#server = createServer(
      {
        // Node.js refuses a longer time for the headers than for all of the request.
        headersTimeout: Math.min(limits.headersMs, limits.requestMs),
        requestTimeout: limits.requestMs,
        keepAliveTimeout: limits.keepAliveMs,
        maxHeaderSize: limits.headerBytesMax,
        connectionsCheckingInterval: TIMEOUT_CHECK_MS,
        // What comes of a body before anyone reads it: one piece, and not two. Of an answer, as much waits before its writer does.
        highWaterMark: UNREAD_BYTES_MAX,
        // Most requests have no body, and a stream that says so costs a tenth of such a request.
        optimizeEmptyRequests: true,
        requireHostHeader: false,
      },
      take,
    )
    this.#server.on('checkContinue', (request, response) => {
      // A node that sends a body on sends it once it is asked for: it can't be had twice.
      if (application.isSentOn(request)) askLater(response)
      else response.writeContinue()
      take(request, response)
    })
    // Node.js would answer these itself, without a body.
    this.#server.on('checkExpectation', take)
    this.#server.on('connect', (_request, socket) => clientErrors.refuse(new Error('CONNECT'), socket))
    this.#server.on('clientError', (error, socket) => clientErrors.refuse(error, socket))
    this.#server.on('connection', (socket) => this.#add(socket, limits.connectionsMax))
    this.#server.timeout = limits.stalledMs
    this.#server.on('timeout', (socket) => {
      // A client whose answer is not ready is not stalled. Every other one has had its time.
      if (order.unanswered(socket) === undefined || socket.writableLength > 0) socket.destroy()
    })
    this.#server.maxRequestsPerSocket = limits.requestsMax
    this.#server.maxConnections = limits.connectionsMax + answeredOver(limits.connectionsMax)
  }

  /** Bytes that it holds for its clients. */
  get memory(): MemoryUse {
    return this.#application.memory
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

  #add(socket: Socket, max: number): void {
    this.#connections.add(socket)
    socket.once('close', () => this.#connections.delete(socket))
    if (this.#connections.size <= max) return
    this.#application.counts.refused('busy')
    this.#surplus.add(socket)
  }

  #drain(drainMs: number): Promise<void> {
    this.#shutdown.abort()
    return new Promise((resolve) => {
      const deadline = this.#store.clock.setTimer(() => this.#server.closeAllConnections(), drainMs)
      const close = () => {
        // A server that was not listening is no failure here.
        this.#server.close(() => {
          deadline.cancel()
          this.#application.close()
          resolve()
        })
      }
      closeAndSend([...this.#connections], close)
    })
  }
}

/** Connections over the bound that still get an answer. */
function answeredOver(max: number): number {
  return Math.max(ANSWERED_MIN, Math.ceil(max * ANSWERED_SHARE))
}

/** Node.js says `Connection: close` with the last answer, and leaves the connection open until it has idled too long. */
function isLastOfConnection(
  response: ServerResponse & { maxRequestsOnConnectionReached?: boolean },
): boolean {
  return response.maxRequestsOnConnectionReached === true
}

/** HTTP/1.0 has no Host header. */
function lacksHost({ headers, httpVersion }: IncomingMessage): boolean {
  return headers.host === undefined && httpVersion === '1.1'
}

/**
 * Closes a server of which these are the connections. Node.js takes one for idle whose answer is written and still on its way to the
 * client, and would cut it; and one that has sent nothing yet for busy.
 */
function closeAndSend(connections: readonly Socket[], close: () => void): void {
  const sending = connections.filter(({ writableLength }) => writableLength > 0)
  const idle = new Set<Socket>()
  for (const socket of sending) socket.destroy = () => idle.add(socket) && socket
  close()
  for (const socket of sending) Reflect.deleteProperty(socket, 'destroy')
  for (const socket of idle) socket.destroySoon()
  for (const socket of connections) if (socket.bytesRead === 0) socket.destroy()
}
