import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import { turnOfTheLoop } from '../../base/clock.ts'
import type { CellDirectory } from '../../store/cells/cell-directory.ts'
import { ReadableBody } from '../body/readable-body.ts'
import type { Application } from '../core/application.ts'
import {
  type BodyStream,
  type HttpRequest,
  type HttpResponse,
  NOT_MODIFIED,
  withLength,
} from '../core/http-message.ts'
import type { HandlerOptions } from '../handler-options.ts'
import type { UnsentCharge } from '../quotas/memory-budgets.ts'
import { applicationLoader } from './application-loader.ts'
import { ConnectionOrder } from './connection-order.ts'
import { linger } from './linger.ts'
import { lengthOf, NodeRequest } from './node-request.ts'
import { Processing } from './processing.ts'

/**
 * The HTTP interface as a listener of `node:http`: for `http.createServer`, and as Express middleware. It makes no Fetch
 * objects, and so is faster than {@link createHandler} behind an adapter. The first request loads the HTTP part of the
 * library.
 *
 * @param store its cells, accounts and keys are served: a `CellStore`, or with `options.service` any directory of cells
 * @throws `invalid_setting` for a wrong option, and for one that is not known
 */
export function createListener(
  store: CellDirectory,
  options: HandlerOptions = {},
): (request: IncomingMessage, response: ServerResponse) => void {
  const load = applicationLoader(store, options)
  const mount = options.basePath ?? ''
  const order = new ConnectionOrder()
  let application: Application | undefined
  return (incoming, outgoing) => {
    // At once: a framework may change the path when this returns.
    const request = new NodeRequest(incoming, outgoing, mount)
    order.take(incoming, outgoing, () => start(request, outgoing))
  }

  function start(request: NodeRequest, outgoing: ServerResponse): void {
    if (application !== undefined) {
      serve(application, request)
      return
    }
    load()
      .then((loaded) => {
        application = loaded
        serve(application, request)
      })
      // The loader has reported it.
      .catch(() => outgoing.destroy())
  }
}

/** The listener of an application that is loaded. */
export function listenerOf(
  application: Application,
  mount = '',
): (request: IncomingMessage, response: ServerResponse) => void {
  return (incoming, outgoing) => {
    // A command, or another node, wants to know whether this one is at work or stuck.
    const tells = application.audience.sendsProgress || application.isSentOn(incoming)
    const processing = tells ? new Processing(outgoing, application.clock) : undefined
    serve(application, new NodeRequest(incoming, outgoing, mount, processing?.tell))
  }
}

function serve(application: Application, request: NodeRequest): void {
  const failed = (error: unknown) => {
    application.reportBug(error, { method: request.method })
    request.outgoing.destroy()
  }
  const send = (response: HttpResponse) => {
    // Of an operation that was given up, the log may still tell what it was.
    if (!request.outgoing.destroyed) request.releaseBody()
    try {
      sendResponse(application, request, response)?.catch(failed)
    } catch (error) {
      failed(error)
    }
  }
  // One promise for both: each further one is a cost of every request.
  void application.handle(request).then(send, failed)
}

function sendResponse(
  application: Application,
  request: NodeRequest,
  response: HttpResponse,
): void | Promise<void> {
  const { incoming, outgoing } = request
  if (application.shuttingDown) response.headers['Connection'] = 'close'
  if (response.stream !== undefined) return stream(application, request, response, response.stream)
  const charge = application.reserve(request, response)
  if (charge === undefined) {
    // The work is done, and perhaps committed: an error would say that it was not.
    outgoing.destroy()
    return undefined
  }
  if (response.body instanceof ReadableBody) return sendFile(request, response, response.body)
  const sent = answer(application, incoming, outgoing, response)
  releaseOnceTaken(charge, outgoing)
  return sent
}

function stream(
  application: Application,
  request: NodeRequest,
  response: HttpResponse,
  body: BodyStream,
): Promise<void> | undefined {
  const { incoming, outgoing } = request
  if (!outgoing.destroyed && !outgoing.headersSent)
    return sendStream(application, { request, incoming, outgoing }, response, body)
  body.close()
  return undefined
}

/** Sends a file no faster than the client takes it. If the client goes away, the file goes too. */
async function sendFile(
  { method, outgoing }: NodeRequest,
  response: HttpResponse,
  file: ReadableBody,
): Promise<void> {
  if (outgoing.destroyed || outgoing.headersSent) return await file.discard()
  writeHead(outgoing, response)
  if (method !== 'HEAD') return await pipeline(file.open(), outgoing).catch(() => {})
  outgoing.end()
  await file.discard()
}

/** Most answers are small and free, or go to the system at once, and are the client's from then on. */
function releaseOnceTaken(charge: UnsentCharge, outgoing: ServerResponse): void {
  if (charge.bytes === 0) return
  charge.keep(outgoing.closed ? 0 : outgoing.writableLength)
  if (charge.bytes > 0) outgoing.once('close', () => charge.keep(0))
}

/** Sends an answer, whether or not the request has been read. */
export function answer(
  application: Application,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  response: HttpResponse,
): void | Promise<void> {
  // The client is gone, or other code, such as a time limit, has answered already.
  if (outgoing.destroyed || outgoing.headersSent) return
  writeHead(outgoing, response)
  if (incoming.complete || lengthOf(incoming) === 0) outgoing.end(response.body)
  else {
    outgoing.write(response.body)
    return endAfterBody(application, incoming, outgoing)
  }
}

/** Ends an answer that went out before the request's body had come: see {@link linger}. */
async function endAfterBody(
  application: Application,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
): Promise<void> {
  const isWhole = await linger(incoming, application.clock)
  // The answer has promised a connection for further requests, which are not answered any more.
  if (isWhole && application.shuttingDown) outgoing.once('finish', () => incoming.socket.end())
  outgoing.end()
  if (!isWhole) incoming.destroy()
}

function writeHead(outgoing: ServerResponse, response: HttpResponse): void {
  // There it would be the length of the body that is left out.
  const isWhole = response.status !== NOT_MODIFIED
  outgoing.writeHead(response.status, isWhole ? withLength(response) : response.headers)
}

/** Sends a body piece by piece, each once the client has taken the one before. A body that is over breaks off at once. */
async function sendStream(
  application: Application,
  {
    request,
    incoming,
    outgoing,
  }: { request: HttpRequest; incoming: IncomingMessage; outgoing: ServerResponse },
  { status, headers }: HttpResponse,
  stream: BodyStream,
): Promise<void> {
  outgoing.writeHead(status, headers)
  for await (const text of stream) {
    const charge = application.reserve(request, { body: text })
    if (charge === undefined || outgoing.destroyed) break
    const isTaken = outgoing.write(text)
    await (isTaken ? turnOfTheLoop() : drained(outgoing, stream.over))
    charge.keep(0)
    if (outgoing.writableNeedDrain) break
  }
  if (outgoing.writableNeedDrain || outgoing.destroyed) {
    outgoing.destroy()
    return
  }
  outgoing.end()
  // The head has promised a connection for further requests, which are not answered any more.
  if (application.shuttingDown && incoming.httpVersionMajor < 2)
    outgoing.once('finish', () => incoming.socket.end())
}

/** Resolves when the client has taken what was sent, is gone, or the stream is over. */
function drained(outgoing: ServerResponse, over: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  outgoing.once('drain', resolve).once('close', resolve)
  over.addEventListener('abort', () => resolve(), { once: true })
  if (over.aborted || outgoing.destroyed) resolve()
  return promise.finally(() => outgoing.off('drain', resolve).off('close', resolve))
}
