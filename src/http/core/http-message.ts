import type { BackupProgressEvent } from '../../backup/versions/backup-types.ts'
import { ReadableBody } from '../body/readable-body.ts'

/** A request as the core sees it, whatever carried it here: a Fetch Request or node:http. */
export interface HttpRequest {
  readonly method: string
  /** As it was sent: percent-encoded, without the query, below the handler's base path. */
  readonly path: string
  /** Without its `?`; empty if there is none. */
  readonly query: string
  /** What precedes {@link path} in the address that clients use: empty, or `/api`. For links. */
  readonly mount: string
  /** Bytes of the body: 0 if there is none, undefined if that is not known before it was read. */
  readonly contentLength: number | undefined
  /** How the body is encoded as it will be read; undefined: not at all. */
  readonly contentEncoding?: string | undefined
  /**
   * Aborted, with a {@link RequestAborted}, when the client goes away before it was answered. Made when it is asked for:
   * only work that can take long is worth it.
   */
  readonly signal: AbortSignal

  /** Set once it is known who asks; undefined for the owner, and where anyone may ask. */
  accountId?: string | undefined

  /** Tells the client how far its request is; undefined where that can't be told. */
  readonly onProgress?: ((event: BackupProgressEvent) => void) | undefined

  /** By their names in lower case. */
  readonly headers: NodeJS.Dict<string | string[]>

  /** @param name in lower case */
  header(name: string): string | undefined

  /**
   * Reads the body, once. Leaves the rest unread when it is too large.
   *
   * @param onBytes called with the body's length so far before more of it is kept; what it throws ends the reading
   * @throws `body_too_large`; {@link RequestAborted} when the client went away
   */
  readBody(bytesMax: number, onBytes?: (bytes: number) => void): Promise<RequestBody>

  /** What {@link readBody} has read, as it came. */
  readonly read: Uint8Array | undefined

  /** The body as it comes, once; what is not read of it stays. @throws {@link RequestAborted} when the client went away */
  stream(): AsyncIterable<Uint8Array>
}

/** What a framework has parsed before us went through doubles, so that its large integers are not what was sent. */
export type RequestBody = { kind: 'bytes'; bytes: Uint8Array } | { kind: 'parsed'; value: unknown }

export interface HttpResponse {
  status: number
  headers: Record<string, string>
  /** Text, its bytes in UTF-8, or what is read as the client takes it. */
  body: string | Uint8Array | ReadableBody
  /** In place of the body: what is sent as it comes. */
  stream?: BodyStream | undefined
}

/** A body without a known end. */
export interface BodyStream extends AsyncIterable<string> {
  /** Aborted when nothing more of it may be sent but its last piece. */
  readonly over: AbortSignal
  /** Nobody reads it any more. */
  close(): void
}

/** Bytes of a response's body. */
export function bodyBytes(body: string | Uint8Array): number {
  return typeof body === 'string' ? Buffer.byteLength(body) : body.length
}

/** Says how long a response's body is, if that is known. @returns the response's headers */
export function withLength({ headers, body }: HttpResponse): HttpResponse['headers'] {
  const length = body instanceof ReadableBody ? body.length : bodyBytes(body)
  if (length !== undefined) headers['Content-Length'] = String(length)
  return headers
}

/** The one status whose answer has no body. */
export const NOT_MODIFIED = 304

/** The client went away before it was answered: there is no one to tell, and nothing to report. */
export class RequestAborted extends Error {
  override readonly name = 'RequestAborted'

  constructor(message = 'The client went away.', options?: ErrorOptions) {
    super(message, options)
  }
}

/** Adds the headers that every response has. @returns the same response */
export function withCommonHeaders(response: HttpResponse, requestId: string): HttpResponse {
  response.headers['Cache-Control'] = 'no-store'
  response.headers['X-Content-Type-Options'] = 'nosniff'
  response.headers['X-Request-Id'] = requestId
  return response
}

/**
 * Runs work that ends when its client goes away. Nobody is told then how it ended, and whatever it ended with is no bug of ours.
 *
 * @throws what the work throws; {@link RequestAborted}
 */
export async function whileConnected<T>(
  { signal }: Pick<HttpRequest, 'signal'>,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  try {
    return await work(signal)
  } catch (error) {
    throw signal.aborted ? new RequestAborted() : error
  }
}
