import http, { type IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import packageJson from '../../../package.json' with { type: 'json' }
import { CellError, isCellError } from '../../errors.ts'
import { SQLITE_TYPE } from '../../http/body/file-body.ts'
import {
  GREETING_PATH,
  type Greeting,
  OWNER_PROTOCOL,
  PROGRESS_HEADER,
  parseProgress,
  SILENCE_MS_MAX,
} from '../../http/routes/owner/owner-protocol.ts'
import type { OwnerAnswer, OwnerRequest, Transport } from './owner-client.ts'

/** Nobody listens there any more: a socket file outlives its process. */
const NOBODY = ['ECONNREFUSED', 'ENOENT']

const ANOTHER_USER =
  'The running node belongs to another user of this machine. Only that user can give it commands.'
const SILENT = `The running node did not answer for ${SILENCE_MS_MAX / 1_000} s. Try again.`

/**
 * Reaches a running node through its socket. Each request has a connection of its own.
 *
 * @returns undefined if no node listens there, or one that is just stopping
 * @throws `busy` if the node does not answer, or is of a version that this command does not understand;
 * `store_locked` if it belongs to another user
 */
export async function connectSocket(path: string): Promise<Transport | undefined> {
  try {
    checkGreeting(await send(path, { method: 'GET', target: GREETING_PATH }))
    return { send: (request) => send(path, request), close: async () => {} }
  } catch (error) {
    const errno = error instanceof CellError ? errnoOf(error.cause) : undefined
    if (errno === 'EACCES' || errno === 'EPERM') throw new CellError('store_locked', ANOTHER_USER)
    if (isCellError(error, 'shutting_down')) return undefined
    throw error
  }
}

async function send(path: string, request: OwnerRequest): Promise<OwnerAnswer> {
  try {
    const response = await answerOf(path, request)
    if (response.headers['content-type'] === SQLITE_TYPE) return { status: 200, body: '', file: response }
    return { status: response.statusCode ?? 0, body: await text(response) }
  } catch (error) {
    if (error instanceof CellError || request.signal?.aborted) throw error
    throw nodeStopped(!NOBODY.includes(errnoOf(error)), error)
  }
}

function answerOf(
  socketPath: string,
  { method, target, body, file, signal, onProgress }: OwnerRequest,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = http.request({
      socketPath,
      path: target,
      method,
      agent: false,
      timeout: SILENCE_MS_MAX,
      headers: headersOf(body, file),
      ...(signal === undefined ? {} : { signal }),
    })
    request.on('timeout', () => request.destroy(new CellError('busy', SILENT)))
    request.on('error', reject)
    request.on('response', resolve)
    request.on('information', ({ headers }) => {
      const event = parseProgress(headers[PROGRESS_HEADER])
      if (event !== undefined) onProgress?.(event)
    })
    if (file === undefined) request.end(body)
    // A refusal comes while the file is still on its way, and is the answer.
    else pipeline(file, request).catch((error) => request.destroy(error))
  })
}

function headersOf(body: string | undefined, file: unknown): Record<string, string> {
  if (file !== undefined) return { 'Content-Type': SQLITE_TYPE }
  return body === undefined ? {} : { 'Content-Type': 'application/json' }
}

/** @throws `busy` for another protocol, `shutting_down` for a node that is about to end */
function checkGreeting({ status, body }: OwnerAnswer): void {
  const {
    protocol,
    version = 'of another version',
    pid,
    code,
  }: Partial<Greeting> & { code?: string } = parse(body)
  if (status === 200 && protocol === OWNER_PROTOCOL) return
  if (code === 'shutting_down') throw new CellError('shutting_down', 'The running node is stopping.')
  const node = pid === undefined ? 'The running node' : `The running node (process ${pid})`
  throw new CellError(
    'busy',
    `${node} is cellstore ${version}. This command is cellstore ${packageJson.version} and cannot talk to it. Use the node's version.`,
  )
}

function parse(body: string): object {
  try {
    return Object(JSON.parse(body))
  } catch {
    return {}
  }
}

/** @param wasSent whether the node may have got the request */
function nodeStopped(wasSent: boolean, cause: unknown): CellError {
  const message = wasSent
    ? 'The node stopped before it answered. The command may have run or not: check, then try again.'
    : 'The node stopped before it got the command. Nothing was changed. Try again.'
  return new CellError('shutting_down', message, { cause })
}

function errnoOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}
