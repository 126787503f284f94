type Fetch = (request: string, init: RequestInit) => Promise<Response>

interface Dispatcher {
  dispatch(options: object, handler: unknown): boolean
}

/** Where Node.js keeps what sends the requests of its `fetch`: undici's documentation names it. */
const NODE_DISPATCHER = Symbol.for('undici.globalDispatcher.1')

/**
 * The global `fetch`, without the limit of Node.js, which ends a request that has no answer after 300 s: a backup, a restore or an
 * import of a large cell may take longer. The program's own dispatcher, with its proxy, for example, still sends the requests.
 */
export const fetchForLong: Fetch = (url, init) => {
  const shared = (globalThis as Record<symbol, unknown>)[NODE_DISPATCHER] as Dispatcher | undefined
  if (shared === undefined) return globalThis.fetch(url, init)
  const dispatcher: Dispatcher = {
    dispatch: (options, handler) =>
      shared.dispatch({ ...options, headersTimeout: 0, bodyTimeout: 0 }, handler),
  }
  return globalThis.fetch(url, { ...init, dispatcher } as RequestInit)
}
