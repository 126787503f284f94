import { ArgumentError, checkedArguments, checkNames } from './arguments.ts'
import { type ChangesSource, readChanges } from './changes.ts'
import { CALL, CHANGES, CLIENT, type ClientOptions, checkBaseUrl, checkOptions } from './client-options.ts'
import { fetchOrLose, isProblemDocument } from './connection-lost.ts'
import { fetchForLong } from './long-calls.ts'
import type { OperationRow } from './operation-row.ts'
import { OPERATIONS } from './operations.generated.ts'
import { Owners } from './owners.ts'
import { ProblemError, Redirected } from './problem-error.ts'
import type { CallOptions, Client, Problem, ProblemCode } from './types.ts'
import { wait } from './wait.ts'

/** The server refused these before their work began, so that any call may be sent again. */
const BEFORE_WORK: readonly ProblemCode[] = ['rate_limited', 'busy', 'cell_restoring', 'cell_moving']
/** The caller sent `If-None-Match`, and has what would be answered. */
const NOT_MODIFIED = 304
const UNAVAILABLE = 503
const RETRIES = 3
const RETRY_AFTER_MS_MAX = 30_000

type Arguments = Readonly<Record<string, unknown>>

interface Settings extends ClientOptions {
  /** Undefined: all calls go to one address. */
  owners: Owners | undefined
}

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
 * @throws `TypeError` for a `baseUrl` that no request can have; `ArgumentError` for an option that is not known or of a wrong type
 */
export function createClient(given: ClientOptions): Client {
  checkOptions(given, CLIENT)
  const { baseUrl, direct, fetch } = given
  checkBaseUrl(baseUrl, fetch !== undefined)
  const options: Settings = {
    ...given,
    owners: direct === true ? new Owners(baseUrl, fetch ?? fetchForLong) : undefined,
  }
  const methods = Object.entries<OperationRow>(OPERATIONS).map(([id, row]) => [
    id,
    async (args: Arguments = {}, call: CallOptions = {}) => await perform(row, args, call, options),
  ])
  const importing = (args: ImportArguments, call: CallOptions = {}) => importCell(args, call, options)
  return { ...Object.fromEntries(methods), importCell: importing, changes: changesOf(options) } as Client
}

function changesOf(options: Settings): Client['changes'] {
  // A stream that is silent for longer than fetch waits is lost: the server sends something every 15 s.
  const fetch = fetchOrLose(options.fetch)
  return async function* (args, given = {}) {
    checkOptions(given, CHANGES)
    const { tables, ...others } = checkedArguments(OPERATIONS.changes, args as unknown as Arguments)
    const asked = tables === undefined ? others : { ...others, tables: namesOf(tables).join() }
    const source: ChangesSource = {
      open: async (headers) => {
        const call = { signal: given.signal, headers }
        const { url, init } = requestOf(OPERATIONS.changes, asked, call, options)
        return await exchange(OPERATIONS.changes, url, init, call, { ...options, fetch })
      },
      wait: options.wait ?? wait,
    }
    yield* readChanges(source, given)
  }
}

/** The server parts them at their commas. */
function namesOf(tables: unknown): string[] {
  const areNames =
    Array.isArray(tables) && tables.every((name) => typeof name === 'string' && !name.includes(','))
  if (!areNames) throw new ArgumentError('tables', 'must be a list of names, without commas in them.')
  return tables
}

type ImportArguments = Parameters<Client['importCell']>[0]

async function importCell(args: ImportArguments, call: CallOptions, options: Settings): Promise<unknown> {
  checkNames(args, ['file', 'name'])
  const { file, name } = args
  const row = { ...OPERATIONS.createCell, query: ['name'], body: null, idempotent: false }
  const { url, init } = requestOf(row, name === undefined ? {} : { name }, call, options)
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
  options: Settings,
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
  options: Settings,
): Promise<Response> {
  const { retries = RETRIES, retryAfterMsMax = RETRY_AFTER_MS_MAX } = options
  for (let tries = 1; ; tries++) {
    const response = await send(row, url, init, options)
    if (response.ok || response.status === NOT_MODIFIED) return response
    refuseRedirect(response, url, options)
    const problem = await problemOf(response)
    const waitMs = retryAfterMs(response)
    const isRepeatable = row.method !== 'POST' || row.idempotent || BEFORE_WORK.includes(problem.code)
    if (tries > retries || waitMs === undefined || waitMs > retryAfterMsMax || !isRepeatable) {
      throw new ProblemError(problem)
    }
    await (options.wait ?? wait)(waitMs, call.signal)
  }
}

/** Sends a request once: to the cell's node where that is known, and else where all go. */
async function send(
  row: OperationRow,
  url: string,
  init: RequestInit,
  { fetch = fetchForLong, owners }: Settings,
): Promise<Response> {
  const directUrl = owners?.directUrl(url) ?? url
  try {
    const response = await fetch(directUrl, init)
    // It may be cut off from all that could tell it that its cells are elsewhere by now.
    if (response.status === UNAVAILABLE && directUrl !== url) owners?.forget(directUrl)
    owners?.learn(url, response)
    return response
  } catch (error) {
    if (directUrl === url || init.signal?.aborted === true) throw error
    owners?.forget(directUrl)
    const isRepeatable = row.method !== 'POST' || row.idempotent
    if (!isRepeatable) throw error
    return await fetch(url, init)
  }
}

function requestOf(
  row: OperationRow,
  args: Arguments,
  call: CallOptions,
  { baseUrl, apiKey }: ClientOptions,
): { url: string; init: RequestInit & { headers: Record<string, string> } } {
  checkOptions(call, CALL)
  const { signal, idempotencyKey, headers } = call
  const rest = new Map(Object.entries(checkedArguments(row, args)))
  const path = row.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const segment = segmentOf(name, rest.get(name))
    rest.delete(name)
    return segment
  })
  const query = new URLSearchParams()
  for (const name of row.query) {
    if (rest.has(name)) query.set(name, queryText(name, rest.get(name)))
    rest.delete(name)
  }
  const search = query.size === 0 ? '' : `?${query}`
  const sent = new Headers(apiKey === undefined ? {} : { 'x-api-key': apiKey })
  if (row.body !== null) sent.set('content-type', 'application/json')
  if (row.idempotent) sent.set('idempotency-key', idempotencyKey ?? crypto.randomUUID())
  else if (idempotencyKey !== undefined)
    throw new ArgumentError('options.idempotencyKey', 'is for createCell alone: nothing else heeds it.')
  new Headers(headers).forEach((value, name) => {
    // What `Headers` makes of it: the condition would be another one.
    if (value === 'undefined')
      throw new ArgumentError(`options.headers.${name}`, 'is undefined: leave it out if that is meant.')
    sent.set(name, value)
  })
  return {
    url: `${baseUrl.replace(/\/+$/, '')}${path}${search}`,
    init: {
      method: row.method,
      // As an object: it is what a fetch of the caller's can read most easily.
      headers: Object.fromEntries(sent),
      redirect: 'manual',
      ...(row.body === null ? {} : { body: JSON.stringify(Object.fromEntries(rest)) }),
      ...(signal === undefined ? {} : { signal }),
    },
  }
}

/** Wherever it leads, the key and the data are not for that. A browser hides the new address. @throws {@link Redirected} */
function refuseRedirect({ status, type, headers }: Response, url: string, { baseUrl }: ClientOptions): void {
  if (type !== 'opaqueredirect' && (status < 300 || status >= 400)) return
  const location = headers.get('location')
  // As the path of the URL that was asked for, and without what a terminal would heed.
  const isWhole = location !== null && URL.canParse(location, url)
  throw new Redirected(baseUrl, isWhole ? new URL(location, url).href : location && encodeURI(location))
}

function queryText(name: string, value: unknown): string {
  if (!['string', 'number', 'boolean'].includes(typeof value))
    throw new ArgumentError(name, 'must be a text, a number, true or false.')
  return String(value)
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
