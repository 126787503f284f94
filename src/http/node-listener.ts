import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import type { Clock } from '../base/clock.ts'
import type { CellDirectory } from '../store/cell-directory.ts'
import type { Application } from './application.ts'
import { applicationLoader } from './application-loader.ts'
import { BodyBuffer } from './body-buffer.ts'
import { ConnectionOrder } from './connection-order.ts'
import { drainRest } from './drain-body.ts'
import { FileBody } from './file-body.ts'
import type { HandlerOptions } from './handler-options.ts'
import {
  type BodyStream,
  bodyBytes,
  type HttpRequest,
  type HttpResponse,
  NOT_MODIFIED,
  RequestAborted,
  type RequestBody,
} from './http-message.ts'
import type { UnsentCharge } from './memory-budgets.ts'
import { Processing } from './processing.ts'
import { ReadPace } from './read-pace.ts'
import { bodyTooLarge } from './request-body.ts'
import { checkBasePath, splitTarget } from './request-target.ts'
import { sendStream } from './send-stream.ts'

/** What frameworks add to Node's own request: the body that they parsed, the prefix that they removed from the path. */
interface FrameworkRequest extends IncomingMessage {
  body?: unknown
  baseUrl?: string
}

/**
 * The HTTP interface as a listener of `node:http`: for `http.createServer`, and as Express middleware. It makes no Fetch
 * objects, and so is faster than {@link createHandler} behind an adapter. The first request loads the HTTP part of the
 * library.
 *
 * @param store its cells, accounts and keys are served: a `CellStore`, or with `options.service` any directory of cells
 * @throws `invalid_setting` for an option that is not known; `TypeError` for a malformed `basePath` or `rate`
 */
export function createListener(
  store: CellDirectory,
  options: HandlerOptions = {},
): (request: IncomingMessage, response: ServerResponse) => void {
  const load = applicationLoader(store, options)
  const mount = checkBasePath(options.basePath ?? '')
  const order = new ConnectionOrder()
  let application: Application | undefined
  return (incoming, outgoing) => {
    // At once: a framework may change the path when this returns.
    const request = new NodeRequest(incoming, outgoing, mount)
    order.take(incoming, outgoing, () => start(request, outgoing))
  }

  function start(request: NodeRequest, outgoing: ServerResponse): void {
    if (application !== undefined) {
      serve(application, request, store.clock)
      return
    }
    load()
      .then((loaded) => {
        application = loaded
        serve(application, request, store.clock)
      })
      // The loader has reported it.
      .catch(() => outgoing.destroy())
  }
}

/** The listener of an application that is loaded. */
export function listenerOf(
  application: Application,
  clock: Clock,
  basePath = '',
): (request: IncomingMessage, response: ServerResponse) => void {
  const mount = checkBasePath(basePath)
  return (incoming, outgoing) => {
    const processing = application.audience.sendsProgress ? new Processing(outgoing, clock) : undefined
    serve(application, new NodeRequest(incoming, outgoing, mount, processing?.tell), clock)
  }
}

function serve(application: Application, request: NodeRequest, clock: Clock): void {
  const { incoming, outgoing } = request
  application
    .handle(request)
    .then((response) => {
      if (application.shuttingDown) response.headers['Connection'] = 'close'
      if (response.stream !== undefined) return stream(application, request, response, response.stream)
      const charge = application.reserve(request, response)
      // The work is done, and perhaps committed: an error would say that it was not.
      if (charge === undefined) return void outgoing.destroy()
      if (response.body instanceof FileBody) return sendFile(request, response, response.body)
      const sent = answer(incoming, outgoing, response, clock)
      releaseOnceTaken(charge, outgoing)
      return sent
    })
    .catch((error) => {
      application.reportBug(error, { method: request.method })
      outgoing.destroy()
    })
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
  file: FileBody,
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

class NodeRequest implements HttpRequest {
  readonly method: string
  readonly path: string
  readonly query: string
  readonly mount: string
  readonly contentLength: number | undefined
  readonly incoming: FrameworkRequest
  readonly outgoing: ServerResponse
  readonly onProgress: HttpRequest['onProgress']
  accountId: string | undefined
  #signal: AbortSignal | undefined

  constructor(
    incoming: FrameworkRequest,
    outgoing: ServerResponse,
    basePath: string,
    onProgress?: HttpRequest['onProgress'],
  ) {
    const { path, query } = splitTarget(incoming.url ?? '', basePath)
    this.incoming = incoming
    this.outgoing = outgoing
    this.method = incoming.method ?? ''
    this.path = path
    this.query = query
    this.mount = (incoming.baseUrl ?? '') + basePath
    this.contentLength = lengthOf(incoming)
    this.onProgress = onProgress
  }

  get signal(): AbortSignal {
    this.#signal ??= abortedOnClose(this.outgoing)
    return this.#signal
  }

  header(name: string): string | undefined {
    const value = this.incoming.headers[name]
    return typeof value === 'object' ? value.join(', ') : value
  }

  async readBody(bytesMax: number, onBytes?: (bytes: number) => void): Promise<RequestBody> {
    const request = this.incoming
    const { body } = request
    if (!request.readableEnded && !request.readableDidRead) {
      return { kind: 'bytes', bytes: await readAll(request, bytesMax, onBytes) }
    }
    // A middleware before us has read the stream, and left what it parsed.
    const bytes = typeof body === 'string' ? Buffer.from(body) : body
    if (bytes instanceof Uint8Array) {
      if (bytes.length > bytesMax) throw bodyTooLarge(bytesMax)
      return { kind: 'bytes', bytes }
    }
    if (body !== undefined) return { kind: 'parsed', value: body }
    throw new Error('The request’s body was read before the listener got it, and is not in request.body.')
  }

  stream(): AsyncIterable<Uint8Array> {
    const request = this.incoming
    if (!request.readableEnded && !request.readableDidRead) return chunksOf(request)
    throw new Error('The request’s body was read before the listener got it. Pass databases on unread.')
  }
}

/** Leaves the connection open when its reader stops: it still needs the answer. */
async function* chunksOf(request: IncomingMessage): AsyncGenerator<Uint8Array> {
  try {
    yield* request.iterator({ destroyOnReturn: false })
  } catch (cause) {
    throw new RequestAborted('The body ended early.', { cause })
  }
}

/** Work for an answer is given up when the connection closes. */
function abortedOnClose(response: ServerResponse): AbortSignal {
  const controller = new AbortController()
  const onClose = () => {
    if (!response.writableEnded) controller.abort(new RequestAborted())
  }
  if (response.destroyed) onClose()
  else response.once('close', onClose)
  return controller.signal
}

/** 0 if the headers announce no body. HTTP/2 need not announce one: there, only reading tells. */
function lengthOf({ headers, httpVersionMajor }: IncomingMessage): number | undefined {
  const length = headers['content-length']
  if (length !== undefined) return Number(length)
  return headers['transfer-encoding'] === undefined && httpVersionMajor < 2 ? 0 : undefined
}

function readAll(
  request: IncomingMessage,
  bytesMax: number,
  onBytes?: (bytes: number) => void,
): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    // Its event came before we listened.
    if (request.destroyed) reject(new RequestAborted())
    const body = new BodyBuffer(lengthOf(request))
    let isOver = false
    const pace = new ReadPace(request, () => !isOver)
    const release = () => {
      isOver = true
      request.off('data', onData).off('end', onEnd).off('error', onGone).off('close', onGone)
    }
    const onData = (chunk: Buffer) => {
      const size = body.length + chunk.length
      try {
        if (size > bytesMax) throw bodyTooLarge(bytesMax)
        onBytes?.(size)
        body.add(chunk)
        pace.took(chunk.length)
      } catch (error) {
        request.pause()
        release()
        reject(error)
      }
    }
    const onEnd = () => {
      release()
      resolve(body.bytes)
    }
    const onGone = () => {
      release()
      reject(new RequestAborted())
    }
    request.on('data', onData).on('end', onEnd).on('error', onGone).on('close', onGone)
  })
}

/** Sends an answer, whether or not the request has been read. */
export function answer(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  response: HttpResponse,
  clock: Clock,
): void | Promise<void> {
  // The client is gone, or other code, such as a time limit, has answered already.
  if (outgoing.destroyed || outgoing.headersSent) return
  writeHead(outgoing, response)
  if (incoming.complete || lengthOf(incoming) === 0) outgoing.end(response.body)
  else return sendEarly(incoming, outgoing, response, clock)
}

/** Sends the answer at once, but ends it only when the client has nothing more to send: see {@link drainRest}. */
async function sendEarly(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  response: HttpResponse,
  clock: Clock,
): Promise<void> {
  outgoing.write(response.body)
  const drained = await drainRest(incoming, clock)
  outgoing.end()
  if (!drained) incoming.destroy()
}

function writeHead(outgoing: ServerResponse, { status, headers, body }: HttpResponse): void {
  // There it would be the length of the body that is left out.
  if (status !== NOT_MODIFIED) headers['Content-Length'] = String(bodyBytes(body))
  outgoing.writeHead(status, headers)
}
