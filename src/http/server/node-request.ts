import type { IncomingMessage, ServerResponse } from 'node:http'
import { isBytes } from '../../base/any-realm.ts'
import { BodyBuffer } from '../body/body-buffer.ts'
import { bodyTooLarge } from '../body/request-body.ts'
import { type HttpRequest, RequestAborted, type RequestBody } from '../core/http-message.ts'
import { splitTarget } from '../core/request-target.ts'

/** What frameworks add to Node's own request: the body that they parsed, the prefix that they removed from the path. */
interface FrameworkRequest extends IncomingMessage {
  body?: unknown
  baseUrl?: string
}

/** Answers of requests whose bodies come once they are asked for. */
const unasked = new WeakSet<ServerResponse>()

/** The body of the request comes once somebody reads it. */
export function askLater(response: ServerResponse): void {
  unasked.add(response)
}

function askForBody(response: ServerResponse): void {
  if (unasked.delete(response) && !response.headersSent) response.writeContinue()
}

/** A request of `node:http`. */
export class NodeRequest implements HttpRequest {
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
  #body: BodyBuffer | undefined

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

  /** What a middleware before us has read, it has decoded. */
  get contentEncoding(): string | undefined {
    return this.#isUnread ? this.header('content-encoding') : undefined
  }

  get #isUnread(): boolean {
    return !this.incoming.readableEnded && !this.incoming.readableDidRead
  }

  get headers(): IncomingMessage['headers'] {
    return this.incoming.headers
  }

  header(name: string): string | undefined {
    const value = this.incoming.headers[name]
    return typeof value === 'object' ? value.join(', ') : value
  }

  async readBody(bytesMax: number, onBytes?: (bytes: number) => void): Promise<RequestBody> {
    const request = this.incoming
    const { body } = request
    if (this.read !== undefined) return { kind: 'bytes', bytes: this.read }
    if (!request.readableEnded && !request.readableDidRead) {
      askForBody(this.outgoing)
      const read = new BodyBuffer(this.contentLength)
      await readAll(request, read, bytesMax, onBytes)
      this.#body = read
      return { kind: 'bytes', bytes: read.bytes }
    }
    // A middleware before us has read the stream, and left what it parsed.
    const bytes = typeof body === 'string' ? Buffer.from(body) : body
    if (isBytes(bytes)) {
      if (bytes.length > bytesMax) throw bodyTooLarge(bytesMax)
      return { kind: 'bytes', bytes }
    }
    if (body !== undefined) return { kind: 'parsed', value: body }
    throw new Error('The request’s body was read before the listener got it, and is not in request.body.')
  }

  get read(): Uint8Array | undefined {
    return this.#body?.bytes
  }

  /** The request is done: nothing uses its body any more. */
  releaseBody(): void {
    this.#body?.release()
  }

  stream(): AsyncIterable<Uint8Array> {
    if (this.#isUnread) {
      askForBody(this.outgoing)
      return chunksOf(this.incoming)
    }
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

/** A request of HTTP/2, through the compatibility layer of `node:http2`. */
interface StreamRequest extends IncomingMessage {
  stream?: { endAfterHeaders?: boolean }
}

/** 0 if the headers announce no body. HTTP/2 need not announce one: there, the end of the stream tells, with the headers or later. */
export function lengthOf(request: StreamRequest): number | undefined {
  const { headers, httpVersionMajor } = request
  const length = headers['content-length']
  if (length !== undefined) return Number(length)
  if (request.stream?.endAfterHeaders === true) return 0
  return headers['transfer-encoding'] === undefined && httpVersionMajor < 2 ? 0 : undefined
}

/** @param onBytes told how long the body has become */
function readAll(
  request: IncomingMessage,
  body: BodyBuffer,
  bytesMax: number,
  onBytes: ((bytes: number) => void) | undefined,
): Promise<void> {
  return new Promise((resolve, reject) => {
    // Its event came before we listened.
    if (request.destroyed) reject(new RequestAborted())
    const stopReading = () => {
      request.off('data', onData).off('end', onEnd).off('error', onGone).off('close', onGone)
    }
    const onData = (chunk: Buffer) => {
      const size = body.length + chunk.length
      try {
        if (size > bytesMax) throw bodyTooLarge(bytesMax)
        onBytes?.(size)
        body.add(chunk)
      } catch (error) {
        request.pause()
        stopReading()
        body.release()
        reject(error)
      }
    }
    const onEnd = () => {
      stopReading()
      resolve()
    }
    const onGone = () => {
      stopReading()
      body.release()
      reject(new RequestAborted())
    }
    request.on('data', onData).on('end', onEnd).on('error', onGone).on('close', onGone)
  })
}
