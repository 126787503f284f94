import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { createHandler } from '../../../src/http/fetch/fetch-handler.ts'
import type { HandlerOptions } from '../../../src/http/handler-options.ts'
import { createListener } from '../../../src/http/server/node-listener.ts'
import { NodeServer } from '../../../src/http/server/node-server.ts'
import type { CellService } from '../../../src/service/cell-service.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import { checkDocumented } from './documented.ts'
import type { RawReply, RawRequest } from './raw-exchange.ts'
import { ScriptedPeers } from './scripted-peers.ts'

/** One way for a request to reach the core. */
export interface Transport {
  send(request: RawRequest): Promise<RawReply>
  close(): Promise<void>
}

export type TransportFactory = (store: CellStore, options?: HandlerOptions) => Promise<Transport>

/** The Fetch handler, called as a function: no socket. */
const calling: TransportFactory = async (store, options) => {
  const handler = createHandler(store, options)
  return {
    async send({ method, path, headers, body }) {
      const init: RequestInit = { method, headers }
      if (body !== undefined) init.body = body as string
      const request = new Request(`http://cells.test${path}`, init)
      // Request gives a string body a type of its own.
      if (!('content-type' in headers)) request.headers.delete('content-type')
      const response = await handler(request)
      const { status, headers: answered } = response
      // It has no end: see changes.test.ts.
      if (answered.get('content-type')?.startsWith('text/event-stream')) {
        await response.body?.cancel()
        return { status, headers: answered, text: '' }
      }
      return { status, headers: answered, text: await response.text() }
    },
    async close() {},
  }
}

/** The node:http listener, over a socket of 127.0.0.1; paths go out as they are written. */
const overSocket: TransportFactory = async (store, options) => {
  const server = http.createServer(createListener(store, options))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const agent = new http.Agent({ keepAlive: true })
  return {
    send: (request) => sendOverSocket(request, { port, agent }),
    close: () =>
      new Promise((resolve) => {
        agent.destroy()
        server.close(() => resolve())
      }),
  }
}

/** Each answer is checked against the OpenAPI document. */
function checked(open: TransportFactory): TransportFactory {
  return async (store, options) => {
    const transport = await open(store, options)
    return {
      close: () => transport.close(),
      async send(request) {
        const reply = await transport.send(request)
        checkDocumented(request, reply, options?.basePath)
        return reply
      },
    }
  }
}

export const viaFetch = checked(calling)

export const TRANSPORTS: [name: string, open: TransportFactory][] = [
  ['the fetch handler', viaFetch],
  ['the node:http listener', checked(overSocket)],
]

/** A node that has no cell, in front of one that has them all; both have the same catalog. */
const throughAnotherNode: TransportFactory = async (store, options) => {
  const owner = new ScriptedPeers('6a1f4d1e-0000-4000-8000-00000000000a')
  const front = new ScriptedPeers('6a1f4d1e-0000-4000-8000-00000000000b')
  const nothing = new Proxy({} as CellService, {
    get: (_service, name) => () => Promise.reject(new Error(`${String(name)}: the cell is another node's.`)),
  })
  const servers = [
    new NodeServer(store, { ...options, cluster: owner }),
    new NodeServer(store, { ...options, service: nothing, cluster: front }),
  ] as const
  const [there, here] = await Promise.all(
    servers.map((server) => server.start({ host: '127.0.0.1', port: 0 })),
  )
  owner.self.address = `http://127.0.0.1:${(there as AddressInfo).port}`
  front.give(owner.self)
  const { port } = here as AddressInfo
  const agent = new http.Agent({ keepAlive: true })
  return {
    async send(request) {
      const reply = await sendOverSocket(request, { port, agent })
      // Which node has the cell is the one thing that is told only where there are several.
      return { ...reply, text: reply.text.replace(/,"node":\{"id":"[^"]+","address":"[^"]+"\}/, '') }
    },
    async close() {
      agent.destroy()
      await Promise.all(servers.map((server) => server.stop({ drainMs: 0 })))
    },
  }
}

/** For what must be the same wherever a cell is. */
export const TRANSPORTS_AND_NODES: typeof TRANSPORTS = [
  ...TRANSPORTS,
  ['a node that is not the owner', checked(throughAnotherNode)],
]

/** For services of a test that fail in ways in which no route does. */
export const UNCHECKED_TRANSPORTS: typeof TRANSPORTS = [
  ['the fetch handler', calling],
  ['the node:http listener', overSocket],
]

export function sendOverSocket(
  { method, path, headers, body }: RawRequest,
  { port, agent }: { port: number; agent?: http.Agent },
): Promise<RawReply> {
  return new Promise((resolve, reject) => {
    const options = {
      host: '127.0.0.1',
      port,
      method,
      path,
      // Node.js says nothing of a deletion's body: the server would take it for the next request.
      headers:
        method === 'DELETE' && body !== undefined
          ? { ...headers, 'content-length': String(Buffer.byteLength(body)) }
          : headers,
      ...(agent === undefined ? {} : { agent }),
    }
    const request = http.request(options, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () => {
        const headersIn = new Headers()
        for (const [name, value] of Object.entries(response.headers)) headersIn.set(name, String(value))
        resolve({
          status: response.statusCode ?? 0,
          headers: headersIn,
          text: Buffer.concat(chunks).toString(),
        })
      })
    })
    request.on('error', reject)
    request.end(body)
  })
}
