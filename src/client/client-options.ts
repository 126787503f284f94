import { ArgumentError, checkNames } from './arguments.ts'
import type { CallOptions, ChangesOptions } from './types.ts'

/** How a client reaches a server. */
export interface ClientOptions {
  /** Where the interface is, without `/v1`: `https://cells.example.com`, or with the path that it is mounted at. */
  baseUrl: string
  /** The account's key. Only `healthz`, `readyz` and `openapi` need none. */
  apiKey?: string | undefined
  /**
   * Where there are several nodes: calls for a cell go to the node that has it once an answer has named it, at the address that the
   * nodes have for each other. Say so only if these addresses are the service's own: the key goes there. A node that can't be reached is
   * left alone. False by default: all calls go to `baseUrl`, which any node may answer.
   */
  direct?: boolean | undefined
  /** In place of the global `fetch`. */
  fetch?: Fetch | undefined
  /** How often a call is tried again; 3 by default, 0 for never. */
  retries?: number | undefined
  /** The longest `Retry-After`, in milliseconds, that a call waits for; 30,000 by default. A longer one ends the call. */
  retryAfterMsMax?: number | undefined
  /** In place of a timer between tries, for tests. Rejects once the signal is aborted. */
  wait?: ((ms: number, signal?: AbortSignal) => Promise<void>) | undefined
}

/** What sends requests: the part of `fetch` that is used. */
export type Fetch = (request: string, init: RequestInit) => Promise<Response>

/** What an option must be, and whether a value is that. */
interface Kind {
  what: string
  fits(value: unknown): boolean
}
type Shape<T> = { readonly [Name in keyof Required<T>]: Kind }

const TEXT: Kind = { what: 'a text', fits: (value) => typeof value === 'string' }
const FLAG: Kind = { what: 'true or false', fits: (value) => typeof value === 'boolean' }
const FUNCTION: Kind = { what: 'a function', fits: (value) => typeof value === 'function' }
const COUNT: Kind = { what: 'a number from 0 on', fits: (value) => typeof value === 'number' && value >= 0 }
const SIGNAL: Kind = { what: 'an AbortSignal', fits: (value) => typeof Object(value).aborted === 'boolean' }
/** `Headers` takes them, and refuses what is none. */
const HEADERS: Kind = { what: 'headers', fits: (value) => Object(value) === value }

export const CLIENT: Shape<ClientOptions> = {
  ...{ baseUrl: TEXT, apiKey: TEXT, direct: FLAG, fetch: FUNCTION },
  ...{ retries: COUNT, retryAfterMsMax: COUNT, wait: FUNCTION },
}
export const CALL: Shape<CallOptions> = { signal: SIGNAL, idempotencyKey: TEXT, headers: HEADERS }
export const CHANGES: Shape<ChangesOptions> = { lastEventId: TEXT, signal: SIGNAL, headers: HEADERS }

/** @throws `ArgumentError` for a name that is not known, and for a value of a wrong type. What is undefined counts as absent. */
export function checkOptions<T extends object>(options: T, shape: Shape<T>): void {
  if (typeof options !== 'object' || options === null)
    throw new ArgumentError('options', 'must be an object.')
  checkNames(options, Object.keys(shape), 'options.')
  for (const [name, { what, fits }] of Object.entries<Kind>(shape)) {
    const value = options[name as keyof T]
    if (value !== undefined && !fits(value)) throw new ArgumentError(`options.${name}`, `must be ${what}.`)
  }
}

/**
 * @param hasOwnFetch the caller's fetch may know what a path belongs to
 * @throws `TypeError` for a URL that no request can have
 */
export function checkBaseUrl(baseUrl: string, hasOwnFetch: boolean): void {
  if (hasOwnFetch && typeof baseUrl === 'string' && baseUrl.startsWith('/')) return
  let protocol: string
  try {
    // In a browser a path belongs to the page.
    protocol = new URL(new Request(baseUrl).url).protocol
  } catch (cause) {
    throw notHttp(cause)
  }
  if (!/^https?:$/.test(protocol)) throw notHttp()
}

function notHttp(cause?: unknown): TypeError {
  return new TypeError('baseUrl must begin with http:// or https://, and have no user and no password.', {
    cause,
  })
}
