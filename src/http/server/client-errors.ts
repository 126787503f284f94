import { randomUUID } from 'node:crypto'
import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { overLimit, TRY_LATER } from '../../base/options/over-limit.ts'
import { CellError } from '../../errors.ts'
import type { Application } from '../core/application.ts'
import { type HttpResponse, withCommonHeaders, withLength } from '../core/http-message.ts'
import { problemResponse } from '../core/problem.ts'
import type { ConnectionOrder } from './connection-order.ts'
import { LINGER_MS_MAX } from './linger.ts'
import { answer } from './node-listener.ts'

/**
 * Answers what never became a request: bytes that are not HTTP, headers that are too long, parts that never came. Node.js
 * would end those connections with a bare status line, even while an earlier request still waits for its answer, and the
 * client would take the one for the other.
 */
export class ClientErrors {
  readonly #application: Application
  readonly #order: ConnectionOrder
  readonly #refused = new WeakSet<Duplex>()

  constructor(application: Application, order: ConnectionOrder) {
    this.#application = application
    this.#order = order
  }

  /** For the `clientError` event. After the first error, a connection's parser reports one again for all that follows. */
  refuse(error: NodeJS.ErrnoException, socket: Duplex): void {
    if (this.#refused.has(socket)) return
    this.#refused.add(socket)
    // Node.js no longer listens to a socket that it has handed over, and an error without a listener ends the process.
    socket.on('error', () => {})
    const response = this.#order.unanswered(socket)
    // Its client has sent a part of a request, and has gone.
    const isGone =
      error.code === 'ECONNRESET' || (error.code === 'HPE_INVALID_EOF_STATE' && response === undefined)
    if (!socket.writable || isGone) {
      socket.destroy()
      return
    }
    const why = refusalOf(error.code)
    const refusal = problem(why)
    const end = () => this.#end(socket, wireText(refusal, this.#application.clock.now()))
    this.#application.counts.refused(why.code)
    if (response === undefined) end()
    else if (response.req.complete) response.once('finish', end)
    // The request's own body broke off. If it has an early answer, that is the answer.
    else if (response.headersSent) this.#end(socket, '')
    // Its turn has not come: Node.js keeps the order.
    else if (response.socket === null) answer(this.#application, response.req, response, refusal)
    else end()
  }

  /** What the client still sends is dropped for a while, or it would see a reset instead of the answer. */
  #end(socket: Duplex, text: string): void {
    const timer = this.#application.clock.setTimer(() => socket.destroy(), LINGER_MS_MAX)
    socket.once('close', () => timer.cancel())
    socket.end(text)
    socket.resume()
  }
}

/** The answer to an HTTP/1.1 request without a Host header, as RFC 9112 asks. */
export function missingHost(): HttpResponse {
  return problem(new CellError('invalid_request', 'An HTTP/1.1 request must have a Host header.'))
}

/** The answer on a connection beyond the bound. */
export function tooManyConnections(max: number): HttpResponse {
  const facts = { setting: 'connections.connectionsMax', limit: max }
  return problem(overLimit('busy', 'The node has no room for more connections', facts, TRY_LATER))
}

function wireText(response: HttpResponse, now: number): string {
  const { status, body } = response
  const lines = Object.entries(withLength(response)).map(([name, value]) => `${name}: ${value}`)
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `Date: ${new Date(now).toUTCString()}`,
    ...lines,
  ]
  return `${head.join('\r\n')}\r\n\r\n${body}`
}

function problem(error: CellError): HttpResponse {
  const requestId = randomUUID()
  const response = withCommonHeaders(problemResponse(error, requestId), requestId)
  response.headers['Connection'] = 'close'
  return response
}

function refusalOf(code: string | undefined): CellError {
  switch (code) {
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new CellError(
        'request_timeout',
        'The request did not arrive in time (connections.headersMs, connections.requestMs).',
      )
    case 'HPE_HEADER_OVERFLOW':
      return new CellError(
        'headers_too_large',
        'The request line and the headers are too long (connections.headerBytesMax).',
      )
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return new CellError('body_too_large', 'The chunk extensions are too long.')
    default:
      return new CellError('invalid_request', 'This is not a valid HTTP/1.1 request.')
  }
}
