import { checkBaseUrl } from './base-url.ts'
import { type ChangesSource, readChanges } from './changes.ts'
import { fetchOrLose, isProblemDocument } from './connection-lost.ts'
import type { OperationRow } from './operation-row.ts'
import { OPERATIONS } from './operations.generated.ts'
import { ProblemError } from './problem-error.ts'
import type { CallOptions, Client, Problem, ProblemCode } from './types.ts'
import { wait } from './wait.ts'

/** How a client reaches a server. */
export interface ClientOptions {
  /** Where the interface is, without `/v1`: `https://cells.example.com`, or with the path that it is mounted at. */
  baseUrl: string
  /** The account's key. Only `healthz`, `readyz` and `openapi` need none. */
  apiKey?: string | undefined
  /** In place of the global `fetch`. */
  fetch?: ((request: string, init: RequestInit) => Promise<Response>) | undefined
  /** How often a call is tried again; 3 by default, 0 for never. */
  retries?: number | undefined
  /** The longest `Retry-After`, in milliseconds, that a call waits for; 30,000 by default. A longer one ends the call. */
  retryAfterMsMax?: number | undefined
  /** In place of a timer between tries, for tests. Rejects once the signal is aborted. */
  wait?: ((ms: number, signal?: AbortSignal) => Promise<void>) | undefined
}

/** The server refused these before their work began, so that any call may be sent again. */
const BEFORE_WORK: readonly ProblemCode[] = ['rate_limited', 'busy', 'cell_restoring']
/** The caller sent `If-None-Match`, and has what would be answered. */
const NOT_MODIFIED = 304
const RETRIES = 3
const RETRY_AFTER_MS_MAX = 30_000

type Arguments = Readonly<Record<string, unknown>>

/**
 * A client with a method for each operation of the OpenAPI document, by its operationId. Arguments have the document's names,
 * whether they go into the path, the query or the body.
 *
 * ```ts
 * const cells = createClient({ baseUrl: 'http://127.0.0.1:8787', apiKey })
 * const { id } = await cells.createCell({ name: 'acme' })
 * await cells.kvPut({ id, key: 'session/1', value: 'Ann', ttl_seconds: 60 })
 * const { rows } = await cells.sql<{ n: number }>({ id, sql: 'SELECT count(*) AS n FROM cell_kv' })
 * ```
 *
 * A call that is answered 429 or 503 is sent again after its `Retry-After`, if the server had not begun its work or the call
 * can be repeated: a GET, PUT or DELETE, and `createCell`, of which every call has an idempotency key. A call has no deadline
 * but its `signal`.
 *
 * @throws `TypeError` for a `baseUrl` that no request can have
 */
export function createClient(options: ClientOptions): Client {
  checkBaseUrl(options.baseUrl, options.fetch !== undefined)
  const methods = Object.entries<OperationRow>(OPERATIONS).map(([id, row]) => [
    id,
    (args: Arguments = {}, call: CallOptions = {}) => perform(row, args, call, options),
  ])
  const importing = (args: ImportArguments, call: CallOptions = {}) => importCell(args, call, options)
  return { ...Object.fromEntries(methods), importCell: importing, changes: changesOf(options) } as Client
}

const CHANGES: OperationRow = {
  method: 'GET',
  path: '/v1/databases/{id}/changes',
  query: ['prefix', 'tables'],
  hasBody: false,
  idempotent: false,
}

function changesOf(options: ClientOptions): Client['changes'] {
  const fetch = fetchOrLose(options.fetch)
  return ({ tables, ...args }, given = {}) => {
    const source: ChangesSource = {
      open: async (headers) => {
        if (tables !== undefined && !Array.isArray(tables))
          throw new TypeError('tables must be a list of names.')
        const call = { signal: given.signal, headers }
        const { url, init } = requestOf(CHANGES, { ...args, tables: tables?.join() }, call, options)
        return await exchange(CHANGES, url, init, call, { ...options, fetch })
      },
      wait: options.wait ?? wait,
    }
    return readChanges(source, given)
  }
}

type ImportArguments = Parameters<Client['importCell']>[0]

async function importCell(
  { file, name }: ImportArguments,
  call: CallOptions,
  options: ClientOptions,
): Promise<unknown> {
  const row = { ...OPERATIONS.createCell, query: ['name'], hasBody: false, idempotent: false }
  const { url, init } = requestOf(row, { name }, call, options)
  const headers = { 'content-type': 'application/vnd.sqlite3', ...init.headers }
  // A stream can be sent once, and fetch wants to know that nothing is read before it is sent.
  const isStream = file instanceof ReadableStream
  const sent = { ...init, headers, body: file, ...(isStream ? { duplex: 'half' as const } : {}) }
  const retries = isStream ? 0 : options.retries
  const response = await exchange(row, url, sent, call, { ...options, retries })
  return await response.json()
}

async function perform(
  row: OperationRow,
  args: Arguments,
  call: CallOptions,
  options: ClientOptions,
): Promise<unknown> {
  const { url, init } = requestOf(row, args, call, options)
  const response = await exchange(row, url, init, call, options)
  if (response.status === NOT_MODIFIED) return undefined
  return row.answersFile ? response.body : await response.json()
}

/** Sends a request, and again where that is right. */
async function exchange(
  row: OperationRow,
  url: string,
  init: RequestInit,
  call: CallOptions,
  options: ClientOptions,
): Promise<Response> {
  const { fetch = globalThis.fetch, retries = RETRIES, retryAfterMsMax = RETRY_AFTER_MS_MAX } = options
  for (let tries = 1; ; tries++) {
    const response = await fetch(url, init)
    if (response.ok || response.status === NOT_MODIFIED) return response
    const problem = await problemOf(response)
    const waitMs = retryAfterMs(response)
    const isRepeatable = row.method !== 'POST' || row.idempotent || BEFORE_WORK.includes(problem.code)
    if (tries > retries || waitMs === undefined || waitMs > retryAfterMsMax || !isRepeatable) {
      throw new ProblemError(problem)
    }
    await (options.wait ?? wait)(waitMs, call.signal)
  }
}

function requestOf(
  row: OperationRow,
  args: Arguments,
  { signal, idempotencyKey, headers }: CallOptions,
  { baseUrl, apiKey }: ClientOptions,
): { url: string; init: RequestInit } {
  const rest = new Map(Object.entries(args).filter(([, value]) => value !== undefined))
  const path = row.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const segment = segmentOf(name, rest.get(name))
    rest.delete(name)
    return segment
  })
  const query = new URLSearchParams()
  for (const name of row.query) {
    if (rest.has(name)) query.set(name, String(rest.get(name)))
    rest.delete(name)
  }
  const [unknown] = rest.keys()
  if (!row.hasBody && unknown !== undefined) throw new TypeError(`The operation has no argument ${unknown}.`)
  const search = query.size === 0 ? '' : `?${query}`
  const sent: Record<string, string> = { ...(apiKey === undefined ? {} : { 'x-api-key': apiKey }) }
  if (row.hasBody) sent['content-type'] = 'application/json'
  if (row.idempotent) sent['idempotency-key'] = idempotencyKey ?? crypto.randomUUID()
  return {
    url: `${baseUrl.replace(/\/+$/, '')}${path}${search}`,
    init: {
      method: row.method,
      headers: { ...sent, ...headers },
      ...(row.hasBody ? { body: JSON.stringify(Object.fromEntries(rest)) } : {}),
      ...(signal === undefined ? {} : { signal }),
    },
  }
}

/** @throws `TypeError` for what can not stand in a path: it would be the path of something else */
function segmentOf(name: string, value: unknown): string {
  if (typeof value !== 'string' || value === '') throw new TypeError(`${name} must be a string, not empty.`)
  if (value === '.' || value === '..') {
    throw new TypeError(`${name} cannot be "${value}" in a path: use kvMget, kvMset or kvDeleteMany.`)
  }
  return encodeURIComponent(value)
}

/** What stands between may answer too, in other words. */
async function problemOf(response: Response): Promise<Problem> {
  const { status } = response
  const text = await response.text()
  if (isProblemDocument(response)) return JSON.parse(text) as Problem
  throw new TypeError(`The server answered ${status} without a problem document: ${text.slice(0, 200)}`)
}

function retryAfterMs({ status, headers }: Response): number | undefined {
  if (status !== 429 && status !== 503) return undefined
  const seconds = headers.get('retry-after') ?? ''
  return /^\d+$/.test(seconds) ? Number(seconds) * 1_000 : undefined
}
