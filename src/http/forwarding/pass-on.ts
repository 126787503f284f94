import type { ClientRequest, IncomingMessage } from 'node:http'
import { type HttpRequest, type HttpResponse, NOT_MODIFIED, RequestAborted } from '../core/http-message.ts'
import type { Peer } from './cluster-peers.ts'
import { ASSIGNMENT_HEADER, CELL_HEADER, MARK_HEADER, OURS, OWNER_HEADER } from './mark.ts'
import { PassedBody } from './passed-body.ts'
import { type PeerConnections, PeerLost } from './peer-connections.ts'

/** A body up to this length is read before it goes on, so that it can go to another node if the first one refuses it. */
export const REPEATABLE_BYTES = 65_536

/** Headers that are between two ends of one connection, and those that are written anew. */
const NOT_PASSED: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'content-length',
  'date',
  'expect',
  'host',
  // Which pages may read the answer is up to the node that they asked.
  'origin',
  'vary',
])

/** A request on its way to another node. */
export interface Passing {
  readonly request: HttpRequest
  readonly requestId: string
  readonly peer: Peer
  /** Below the peer's address, with the query. */
  readonly path: string
  readonly mark: string
  /** Undefined: it is streamed, or there is none. */
  readonly body: Uint8Array | undefined
  /** Ends answers that have no end of their own. */
  readonly shutdown: AbortSignal | undefined
}

/** The peer does not have the cell. Nothing has run. */
export interface Misdirected {
  /** The number of the assignment that the peer knows. */
  readonly assignment: number
  /** The cell whose owner is asked; undefined: the one that the path names. */
  readonly cellId: string | undefined
  /** The peer has read the body, which was streamed: it can't be sent again. */
  readonly hasBody: boolean
}

/**
 * Sends a request to another node, and gives its answer as it came. A body that is longer than {@link REPEATABLE_BYTES} goes only once
 * the node asks for it.
 *
 * @throws {@link PeerLost}; `RequestAborted` when the client went away
 */
export async function passOn(
  passing: Passing,
  connections: PeerConnections,
): Promise<HttpResponse | Misdirected> {
  const { request, peer, path, body } = passing
  const { signal } = request
  if (signal.aborted) throw new RequestAborted()
  const isStreamed = body === undefined && request.contentLength !== 0
  const headers = headersFor(passing, isStreamed)
  const { request: outgoing, answer } = connections.begin(peer.address, {
    method: request.method,
    path,
    headers,
  })
  const abort = () => outgoing.destroy()
  signal.addEventListener('abort', abort, { once: true })
  outgoing.once('close', () => signal.removeEventListener('abort', abort))
  let hasBody = false
  try {
    if (!isStreamed) outgoing.end(body)
    else {
      outgoing.flushHeaders()
      outgoing.once('continue', () => {
        hasBody = true
        void sendBody(request, outgoing)
      })
    }
    const incoming = await answer
    // It may come before the body has gone, and then the rest of the body never goes.
    incoming.once('end', () => {
      if (!outgoing.writableFinished) outgoing.destroy()
    })
    if (incoming.statusCode === 421) {
      incoming.resume()
      const { [ASSIGNMENT_HEADER]: assignment, [CELL_HEADER]: cellId } = incoming.headers
      return { assignment: Number(assignment), cellId: cellId as string | undefined, hasBody }
    }
    return await responseOf(incoming, passing)
  } catch (error) {
    throw signal.aborted ? new RequestAborted() : error
  }
}

function headersFor({ request, requestId, mark, body }: Passing, isStreamed: boolean) {
  const headers = passedOf(request.headers)
  headers['x-request-id'] = requestId
  headers[MARK_HEADER] = mark
  if (isStreamed) headers['expect'] = '100-continue'
  if (body !== undefined) headers['content-length'] = String(body.length)
  else if (request.contentLength !== undefined && isStreamed)
    headers['content-length'] = String(request.contentLength)
  return headers
}

/** What of a message's headers is for its other end. */
function passedOf(headers: NodeJS.Dict<string | string[]>): Record<string, string | string[]> {
  const named = String(headers['connection'] ?? '').toLowerCase()
  const passed: Record<string, string | string[]> = {}
  for (const name in headers) {
    const value = headers[name]
    if (value === undefined || NOT_PASSED.has(name) || name.startsWith(OURS)) continue
    if (name.startsWith('access-control-')) continue
    if (named !== '' && named !== 'keep-alive' && named.split(/\s*,\s*/).includes(name)) continue
    passed[name] = value
  }
  return passed
}

/** Sends the body no faster than the other node takes it. */
async function sendBody(request: HttpRequest, outgoing: ClientRequest): Promise<void> {
  try {
    for await (const piece of request.stream()) {
      if (!outgoing.destroyed && !outgoing.write(piece)) await drained(outgoing)
      if (outgoing.destroyed) return
    }
    outgoing.end()
  } catch (error) {
    outgoing.destroy(error as Error)
  }
}

/** Resolves when the other node has taken what was sent, or is gone. */
function drained(outgoing: ClientRequest): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  outgoing.once('drain', resolve).once('close', resolve)
  return promise.finally(() => outgoing.off('drain', resolve).off('close', resolve))
}

async function responseOf(
  incoming: IncomingMessage,
  { request, peer, shutdown }: Passing,
): Promise<HttpResponse> {
  const status = incoming.statusCode as number
  const headers = passedOf(incoming.headers) as Record<string, string>
  headers[OWNER_HEADER] = peer.address
  const sent = incoming.headers['content-length']
  const length = sent === undefined ? undefined : Number(sent)
  const isShort = length !== undefined && length <= REPEATABLE_BYTES && request.method !== 'HEAD'
  if (isShort || status === NOT_MODIFIED) {
    try {
      // Not `buffer` of node:stream/consumers: that makes a Blob first, which takes three times as long.
      return { status, headers, body: Buffer.concat(await incoming.toArray()) }
    } catch (cause) {
      throw new PeerLost(true, cause)
    }
  }
  if (request.method === 'HEAD') incoming.resume()
  const isEndless = headers['content-type']?.startsWith('text/event-stream') === true
  return { status, headers, body: new PassedBody(incoming, length, isEndless ? shutdown : undefined) }
}
