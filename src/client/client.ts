import { ArgumentError, checkedArguments, checkNames } from './arguments.ts'
import { checkBaseUrl } from './base-url.ts'
import { type ChangesSource, readChanges } from './changes.ts'
import { fetchOrLose, isProblemDocument } from './connection-lost.ts'
import { fetchForLong } from './long-calls.ts'
import type { OperationRow } from './operation-row.ts'
import { OPERATIONS } from './operations.generated.ts'
import { ProblemError } from './problem-error.ts'
import { Redirected } from './redirected.ts'
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

const OPTION_NAMES = ['baseUrl', 'apiKey', 'fetch', 'retries', 'retryAfterMsMax', 'wait']
const CALL_NAMES = ['signal', 'idempotencyKey', 'headers']
const CHANGES_NAMES = ['lastEventId', 'signal', 'headers']

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
 * but its `signal`, unless `fetch` is the caller's own. No redirect is followed: the key stays with the server that it was given for.
 *
 * @throws `TypeError` for a `baseUrl` that no request can have, and for options that are not known
 */
export function createClient(options: ClientOptions): Client {
  checkNames(options, OPTION_NAMES, 'options')
  checkBaseUrl(options.baseUrl, options.fetch !== undefined)
  const methods = Object.entries<OperationRow>(OPERATIONS).map(([id, row]) => [
    id,
    async (args: Arguments = {}, call: CallOptions = {}) => await perform(row, args, call, options),
  ])
  const importing = (args: ImportArguments, call: CallOptions = {}) => importCell(args, call, options)
  return { ...Object.fromEntries(methods), importCell: importing, changes: changesOf(options) } as Client
}

const CHANGES: OperationRow = {
  method: 'GET',
  path: '/v1/databases/{id}/changes',
  query: ['prefix', 'tables'],
  body: null,
  idempotent: false,
}

function changesOf(options: ClientOptions): Client['changes'] {
  const fetch = fetchOrLose(options.fetch ?? fetchForLong)
  return async function* (args, given = {}) {
    checkNames(given, CHANGES_NAMES, 'options')
    const { tables, ...others } = checkedArguments(CHANGES, args as unknown as Arguments)
    if (tables !== undefined && !Array.isArray(tables))
      throw new ArgumentError('tables', 'must be a list of names.')
    const asked = tables === undefined ? others : { ...others, tables: tables.join() }
    const source: ChangesSource = {
      open: async (headers) => {
        const call = { signal: given.signal, headers }
        const { url, init } = requestOf(CHANGES, asked, call, options)
        return await exchange(CHANGES, url, init, call, { ...options, fetch })
      },
      wait: options.wait ?? wait,
    }
    yield* readChanges(source, given)
  }
}

type ImportArguments = Parameters<Client['importCell']>[0]

async function importCell(
  args: ImportArguments,
  call: CallOptions,
  options: ClientOptions,
): Promise<unknown> {
  checkNames(args, ['file', 'name'], 'arguments')
  const { file, name } = args
  const row = { ...OPERATIONS.createCell, query: ['name'], body: null, idempotent: false }
  const { url, init } = requestOf(row, name === undefined ? {} : { name }, call, options)
  const { headers } = init
  if (!headers.has('content-type')) headers.set('content-type', 'application/vnd.sqlite3')
  // A stream can be sent once, and fetch wants to know that nothing is read before it is sent.
  const isStream = file instanceof ReadableStream
  const sent = { ...init, body: file, ...(isStream ? { duplex: 'half' as const } : {}) }
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
  const { fetch = fetchForLong, retries = RETRIES, retryAfterMsMax = RETRY_AFTER_MS_MAX } = options
  for (let tries = 1; ; tries++) {
    const response = await fetch(url, init)
    if (response.ok || response.status === NOT_MODIFIED) return response
    refuseRedirect(response, url)
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
  call: CallOptions,
  { baseUrl, apiKey }: ClientOptions,
): { url: string; init: RequestInit & { headers: Headers } } {
  checkNames(call, CALL_NAMES, 'options')
  const { signal, idempotencyKey, headers } = call
  const rest = new Map(Object.entries(checkedArguments(row, args)))
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
  const search = query.size === 0 ? '' : `?${query}`
  const sent = new Headers(apiKey === undefined ? {} : { 'x-api-key': apiKey })
  if (row.body !== null) sent.set('content-type', 'application/json')
  if (row.idempotent) sent.set('idempotency-key', idempotencyKey ?? crypto.randomUUID())
  new Headers(headers).forEach((value, name) => void sent.set(name, value))
  return {
    url: `${baseUrl.replace(/\/+$/, '')}${path}${search}`,
    init: {
      method: row.method,
      headers: sent,
      redirect: 'manual',
      ...(row.body === null ? {} : { body: JSON.stringify(Object.fromEntries(rest)) }),
      ...(signal === undefined ? {} : { signal }),
    },
  }
}

/** Wherever it leads, the key and the data are not for that. A browser hides the new address. @throws {@link Redirected} */
function refuseRedirect({ status, type, headers }: Response, url: string): void {
  if (type === 'opaqueredirect' || (status >= 300 && status < 400))
    throw new Redirected(new URL(url, 'http://localhost').origin, headers.get('location'))
}

/** @throws `TypeError` for what can not stand in a path: it would be the path of something else */
function segmentOf(name: string, value: unknown): string {
  if (typeof value !== 'string' || value === '') throw new ArgumentError(name, 'must be a string, not empty.')
  if (value === '.' || value === '..') {
    throw new ArgumentError(name, `cannot be "${value}" in a path: use kvMget, kvMset or kvDeleteMany.`)
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
