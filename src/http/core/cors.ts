import type { HttpRequest, HttpResponse } from './http-message.ts'

/** As browsers send it, a scheme, a host, and a port if it is not the usual one; or any. */
export const ORIGIN = /^(?:\*|[a-z][a-z0-9+.-]*:\/\/[^/?#\s]+)$/i

/** Headers of requests that are not simple to browsers. */
const REQUEST_HEADERS =
  'authorization, content-type, idempotency-key, if-match, if-none-match, last-event-id, prefer, x-api-key, x-request-id'
/** Headers of answers that pages may read. */
const EXPOSED_HEADERS =
  'etag, idempotent-replayed, link, location, preference-applied, retry-after, x-request-id'
const METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE'
const MAX_AGE_S = '600'

/** Which pages of other origins may use the interface from a browser. No cookie is ever asked for: a page needs a key. */
export class Cors {
  readonly #origins: ReadonlySet<string>

  /** @param origins such as `https://studio.example`; `*` is any */
  constructor(origins: readonly string[] = []) {
    this.#origins = new Set(origins)
  }

  /** The answer to a browser that asks whether it may; undefined if it does not ask, or may not. */
  preflight(request: HttpRequest): HttpResponse | undefined {
    const asks = request.method === 'OPTIONS' && request.header('access-control-request-method') !== undefined
    if (!asks || this.#allowed(request) === undefined || !request.path.startsWith('/v1/')) return undefined
    const headers = {
      'Content-Type': 'application/json',
      'Access-Control-Allow-Methods': METHODS,
      'Access-Control-Allow-Headers': REQUEST_HEADERS,
      'Access-Control-Max-Age': MAX_AGE_S,
    }
    return { status: 200, headers, body: '{}' }
  }

  /** Lets the page that asked read the answer. */
  expose(request: HttpRequest, { headers }: HttpResponse): void {
    if (this.#origins.size === 0) return
    // Caches must not give one page the answer of another.
    headers['Vary'] = 'Origin'
    const origin = this.#allowed(request)
    if (origin === undefined) return
    headers['Access-Control-Allow-Origin'] = origin
    headers['Access-Control-Expose-Headers'] = EXPOSED_HEADERS
  }

  #allowed(request: HttpRequest): string | undefined {
    if (this.#origins.size === 0) return undefined
    const origin = request.header('origin')
    return origin !== undefined && (this.#origins.has('*') || this.#origins.has(origin)) ? origin : undefined
  }
}
