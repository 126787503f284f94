import { type Client, createClient, isProblem } from '../../../src/client/index.ts'
import { OPERATIONS } from '../../../src/client/operations.generated.ts'
import type { RawReply, RawRequest } from './raw-exchange.ts'
import type { TransportFactory } from './transports.ts'
import { viaFetch } from './transports.ts'

/** The client of the package, over the Fetch handler: a request becomes the call of a method. */
export const viaClient: TransportFactory = async (store, options) => {
  const transport = await viaFetch(store, options)
  return {
    close: () => transport.close(),
    async send(request) {
      let reply: RawReply | undefined
      const { 'x-api-key': apiKey, 'content-type': _, ...headers } = request.headers
      const client = createClient({
        baseUrl: 'http://cells.test',
        apiKey,
        retries: 0,
        async fetch(url, { method = '', headers: sent, body }) {
          const path = url.slice('http://cells.test'.length)
          const given = sent as Record<string, string>
          reply = await transport.send({
            method,
            path,
            headers: given,
            ...(body ? { body: body as string } : {}),
          })
          return new Response(reply.text, reply)
        },
      })
      const { id, args } = callOf(request)
      const call = client[id] as (args: object, options: object) => Promise<unknown>
      const answer = await call(args, { headers }).catch((error: unknown) => {
        if (isProblem(error)) return error.problem
        throw error
      })
      return { ...(reply as unknown as RawReply), text: JSON.stringify(answer) }
    },
  }
}

/** The method of the client that makes a request, and its arguments. */
function callOf({ method, path, body }: RawRequest): { id: keyof Client; args: object } {
  const url = new URL(`http://x${path}`)
  for (const [id, row] of Object.entries(OPERATIONS)) {
    const shape = new RegExp(`^${row.path.replaceAll(/\{(\w+)\}/g, '(?<$1>[^/]+)')}$`)
    const found = row.method === method ? shape.exec(url.pathname) : null
    if (found === null) continue
    const segments = Object.entries(found.groups ?? {}).map(([name, value]) => [
      name,
      decodeURIComponent(value),
    ])
    const args = {
      ...Object.fromEntries(segments),
      ...Object.fromEntries(url.searchParams),
      ...(body === undefined ? {} : JSON.parse(body as string)),
    }
    return { id: id as keyof Client, args }
  }
  throw new Error(`No operation makes ${method} ${path}.`)
}
