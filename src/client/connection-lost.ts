import type { Fetch } from './client-options.ts'

/** No request got through, or its connection broke off: what was asked may be asked for again. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost'
}

/** A proxy says so of the server behind it: 502, 503, 504. The server's own 503 is a problem document. */
const IS_GONE: readonly number[] = [502, 503, 504]

/**
 * A fetch that tells a connection that fails from a request that can never be sent. What fetch itself throws is a TypeError for
 * both, so whatever is known to be wrong must be found before.
 *
 * @throws `ConnectionLost`; `TypeError` for a request that cannot be sent
 */
export function fetchOrLose(given: Fetch | undefined): Fetch {
  const fetch = given ?? globalThis.fetch
  return async (url, init) => {
    // A header that no request can have.
    new Headers(init.headers)
    const response = await fetch(url, init).catch((error: unknown) => {
      throw error instanceof TypeError ? new ConnectionLost(error.message, { cause: error }) : error
    })
    if (!IS_GONE.includes(response.status) || isProblemDocument(response)) return response
    await response.body?.cancel()
    throw new ConnectionLost(`A proxy answered ${response.status}.`)
  }
}

export function isProblemDocument({ headers }: Response): boolean {
  return /^application\/problem\+json\b/.test(headers.get('content-type') ?? '')
}
