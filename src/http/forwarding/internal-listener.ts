import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { CellError } from '../../errors.ts'
import { asOwnerSees, problemResponse } from '../core/problem.ts'
import type { ClusterPeers, InternalRoutes } from './cluster-peers.ts'
import { CHALLENGE_HEADER, SIGNATURE_HEADER, SignatureCheck } from './signature.ts'

const PREFIX = '/internal/cluster/'
/** A call names ranges, ids and versions. */
const BODY_BYTES_MAX = 1_048_576

export function internalPath(name: string): string {
  return `${PREFIX}${name}`
}

/** Answers what other nodes ask of this one. @returns whether it is such a request */
export type InternalListener = (request: IncomingMessage, response: ServerResponse) => boolean

/** Anyone can reach these paths where nodes and clients share an address: without a signature they tell nothing. */
export function internalListener(
  cluster: ClusterPeers,
  own: InternalRoutes,
  reportBug: (error: unknown, fields: Record<string, unknown>) => void,
): InternalListener {
  const signatures = new SignatureCheck(cluster.secret)
  return (request, response) => {
    const { url: path = '' } = request
    if (!path.startsWith(PREFIX)) return false
    const answer = async () => {
      const body = await bodyOf(request)
      const call = { method: request.method ?? '', path, body }
      if (!signatures.admits(String(request.headers[SIGNATURE_HEADER]), call)) throw unsigned()
      const routes = { ...cluster.routes, ...own }
      const route = Object.hasOwn(routes, path.slice(PREFIX.length))
        ? routes[path.slice(PREFIX.length)]
        : undefined
      if (route === undefined)
        throw new CellError('not_found', 'The node knows no such call: it may be of another version.')
      return JSON.stringify((await route(JSON.parse(body))) ?? null)
    }
    answer().then(
      (json) => end(response, 200, { 'Content-Type': 'application/json' }, json),
      (error: unknown) => {
        const refusal = problemResponse(error, randomUUID(), asOwnerSees)
        if (refusal.code === 'internal') reportBug(error, { path })
        if (refusal.code === 'unauthorized') refusal.headers[CHALLENGE_HEADER] = signatures.challenge
        end(response, refusal.status, refusal.headers, refusal.body)
      },
    )
    return true
  }
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = []
  let length = 0
  for await (const piece of request as AsyncIterable<Buffer>) {
    length += piece.length
    if (length > BODY_BYTES_MAX)
      throw new CellError('body_too_large', `A call has at most ${BODY_BYTES_MAX} bytes.`)
    pieces.push(piece)
  }
  return Buffer.concat(pieces).toString()
}

function end(response: ServerResponse, status: number, headers: Record<string, string>, body: string): void {
  if (response.destroyed) return
  response.writeHead(status, { ...headers, 'Content-Length': Buffer.byteLength(body) }).end(body)
}

function unsigned(): CellError {
  return new CellError('unauthorized', 'Only nodes of this cluster may ask this.')
}
