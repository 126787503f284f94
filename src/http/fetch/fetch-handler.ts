import { Readable } from 'node:stream'
import type { Clock } from '../../base/clock.ts'
import type { CellDirectory } from '../../store/cells/cell-directory.ts'
import { BodyBuffer } from '../body/body-buffer.ts'
import { ReadableBody } from '../body/readable-body.ts'
import { bodyTooLarge } from '../body/request-body.ts'
import type { Application } from '../core/application.ts'
import {
  type BodyStream,
  type HttpRequest,
  NOT_MODIFIED,
  RequestAborted,
  type RequestBody,
  withLength,
} from '../core/http-message.ts'
import { splitTarget } from '../core/request-target.ts'
import type { HandlerOptions } from '../handler-options.ts'
import { applicationLoader } from '../server/application-loader.ts'
import { LINGER_BYTES_MAX, LINGER_MS_MAX } from '../server/linger.ts'
import { chargedStream } from './charged-stream.ts'

/**
 * The HTTP interface as a Fetch handler, for Hono and every other framework that uses `Request` and `Response`. The first
 * request loads the HTTP part of the library.
 *
 * @param store its cells, accounts and keys are served: a `CellStore`, or with `options.service` any directory of cells
 * @returns answers every request, also those that fail; the request's body must not have been read
 * @throws `invalid_setting` for a wrong option, and for one that is not known
 */
export function createHandler(
  store: CellDirectory,
  options: HandlerOptions = {},
): (request: Request) => Promise<Response> {
  const load = applicationLoader(store, options)
  const basePath = options.basePath ?? ''
  let application: Application | undefined
  return async (request) => {
    const incoming = new FetchRequest(request, basePath)
    application ??= await load()
    const response = await application.handle(incoming)
    const { status, headers, body } = response
    if (request.method === 'HEAD') {
      withLength(response)
      if (body instanceof ReadableBody) await body.discard()
      return new Response(null, { status, headers })
    }
    if (response.stream !== undefined)
      return new Response(pulled(application, incoming, response.stream), { status, headers })
    const charge = application.reserve(incoming, response)
    await incoming.lingerBody(store.clock)
    if (body instanceof ReadableBody) {
      withLength(response)
      return new Response(Readable.toWeb(body.open()) as ReadableStream<Uint8Array>, { status, headers })
    }
    if (status === NOT_MODIFIED) return new Response(null, { status, headers })
    if (charge?.bytes === 0) return new Response(body as string, { status, headers })
    withLength(response)
    return new Response(chargedStream(body, charge), { status, headers })
  }
}

class FetchRequest implements HttpRequest {
  readonly method: string
  readonly path: string
  readonly query: string
  readonly mount: string
  readonly contentLength: number | undefined
  accountId: string | undefined
  read: Uint8Array | undefined
  readonly #request: Request
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined
  #bodyEnded = false
  #signal: AbortSignal | undefined

  constructor(request: Request, basePath: string) {
    const { path, query } = splitTarget(withoutFragment(request.url), basePath)
    this.#request = request
    this.method = request.method
    this.path = path
    this.query = query
    this.mount = basePath
    // Asking for the body makes some servers build the whole request, and a GET can have none.
    const hasBody = request.method !== 'GET' && request.body !== null
    this.contentLength = hasBody ? lengthOf(request.headers.get('content-length')) : 0
  }

  get signal(): AbortSignal {
    this.#signal ??= abortedWith(this.#request.signal)
    return this.#signal
  }

  get contentEncoding(): string | undefined {
    return this.header('content-encoding')
  }

  get headers(): Record<string, string> {
    return Object.fromEntries(this.#request.headers)
  }

  header(name: string): string | undefined {
    return this.#request.headers.get(name) ?? undefined
  }

  async readBody(bytesMax: number, onBytes?: (bytes: number) => void): Promise<RequestBody> {
    const body = new BodyBuffer(this.contentLength)
    for (let chunk = await this.#readChunk(); chunk !== undefined; chunk = await this.#readChunk()) {
      const size = body.length + chunk.byteLength
      if (size > bytesMax) throw bodyTooLarge(bytesMax)
      onBytes?.(size)
      body.add(chunk)
    }
    this.read = body.bytes
    return { kind: 'bytes', bytes: body.bytes }
  }

  async *stream(): AsyncGenerator<Uint8Array> {
    for (let chunk = await this.#readChunk(); chunk !== undefined; chunk = await this.#readChunk())
      yield chunk
  }

  /**
   * Reads what an early answer left unread: a server may close the connection after the response, and a client that is
   * still sending would see a reset instead of the answer.
   */
  async lingerBody(clock: Clock): Promise<void> {
    if (this.#bodyEnded || this.contentLength === 0 || (this.#reader === undefined && this.#request.bodyUsed))
      return
    let expired = false
    const timer = clock.setTimer(() => {
      expired = true
      this.#reader?.cancel().catch(() => {})
    }, LINGER_MS_MAX)
    try {
      for (let size = 0; size <= LINGER_BYTES_MAX && !expired; ) {
        const chunk = await this.#readChunk()
        if (chunk === undefined) return
        size += chunk.byteLength
      }
      await this.#reader?.cancel()
    } catch {
      // The client is gone: nothing is left to read.
    } finally {
      timer.cancel()
    }
  }

  async #readChunk(): Promise<Uint8Array | undefined> {
    this.#reader ??= this.#openBody()
    try {
      const { done, value } = await this.#reader.read()
      if (done) this.#bodyEnded = true
      return value
    } catch (error) {
      throw new RequestAborted('The body ended early.', { cause: error })
    }
  }

  #openBody(): ReadableStreamDefaultReader<Uint8Array> {
    const { body, bodyUsed } = this.#request
    if (body === null || bodyUsed) {
      throw new Error('The request’s body was read before the handler got it. Pass the request on unread.')
    }
    return body.getReader()
  }
}

/** The same signal with a reason of ours: a Request's own reason does not say that the client went away. */
function abortedWith(signal: AbortSignal): AbortSignal {
  const controller = new AbortController()
  const abort = () => controller.abort(new RequestAborted())
  if (signal.aborted) abort()
  else signal.addEventListener('abort', abort, { once: true })
  return controller.signal
}

function withoutFragment(url: string): string {
  const hash = url.indexOf('#')
  return hash === -1 ? url : url.slice(0, hash)
}

function lengthOf(header: string | null): number | undefined {
  return header !== null && /^\d+$/.test(header) ? Number(header) : undefined
}

/** A body without a known end as that of a Response: each piece is made when the one before was taken. */
function pulled(
  application: Application,
  request: HttpRequest,
  body: BodyStream,
): ReadableStream<Uint8Array> {
  const pieces = body[Symbol.asyncIterator]()
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await pieces.next()
        if (done) return controller.close()
        // It is the server's as soon as it is handed over, so that only the room for it is asked for.
        const charge = application.reserve(request, { body: value })
        if (charge === undefined) {
          body.close()
          return controller.error(new Error('The account leaves too many answers untaken.'))
        }
        charge.keep(0)
        controller.enqueue(Buffer.from(value))
      },
      cancel: () => body.close(),
    },
    // Nothing before somebody asks for it.
    { highWaterMark: 0 },
  )
}
