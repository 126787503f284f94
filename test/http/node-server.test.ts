import net, { type AddressInfo } from 'node:net'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createHandler } from '../../src/http/fetch-handler.ts'
import { NodeServer, type NodeServerOptions } from '../../src/http/node-server.ts'
import { Bench } from './support/bench.ts'
import { viaFetch } from './support/transports.ts'

let bench: Bench
const servers: NodeServer[] = []

beforeEach(async () => {
  bench = await Bench.open(viaFetch)
})

afterEach(async () => {
  bench.objectStore.release()
  await Promise.all(servers.splice(0).map((server) => server.stop({ drainMs: 0 })))
  await bench.close()
})

async function start(options?: NodeServerOptions): Promise<{ server: NodeServer; port: number }> {
  const server = new NodeServer(bench.store, options)
  servers.push(server)
  const { port } = (await server.start({ host: '127.0.0.1', port: 0 })) as AddressInfo
  return { server, port }
}

/** All that a connection gets after having sent `text`, until the other side ends it. */
function exchange(port: number, text: string): { socket: net.Socket; ended: Promise<string> } {
  const socket = net.connect(port, '127.0.0.1')
  socket.setEncoding('utf8')
  let received = ''
  socket.on('data', (data: string) => {
    received += data
  })
  socket.on('error', () => {})
  const ended = new Promise<string>((resolve) => socket.on('close', () => resolve(received)))
  socket.write(text)
  return { socket, ended }
}

const head = (method: string, url: string, ...headers: string[]) =>
  [`${method} ${bench.fill(url)} HTTP/1.1`, 'Host: x', `x-api-key: ${bench.key}`, ...headers, '', ''].join(
    '\r\n',
  )
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

describe('start', () => {
  test('listens on a TCP port and says which', async () => {
    const { port } = await start()
    expect(await (await fetch(`http://127.0.0.1:${port}/healthz`)).json()).toEqual({ status: 'ok' })
  })

  test('listens on a Unix socket', async () => {
    const server = new NodeServer(bench.store)
    servers.push(server)
    const socketPath = path.join(bench.directory, 'http.sock')
    expect(await server.start({ path: socketPath })).toBe(socketPath)
    const socket = net.connect(socketPath)
    socket.write(head('GET', '/healthz', 'Connection: close'))
    const chunks: Buffer[] = []
    for await (const chunk of socket) chunks.push(chunk as Buffer)
    expect(Buffer.concat(chunks).toString()).toMatch(/^HTTP\/1\.1 200 /)
  })

  test('rejects when the port is taken', async () => {
    const { port } = await start()
    const second = new NodeServer(bench.store)
    await expect(second.start({ host: '127.0.0.1', port })).rejects.toMatchObject({ code: 'EADDRINUSE' })
    await second.stop({ drainMs: 0 })
  })
})

describe('stop', () => {
  test('lets a request under way finish, refuses new ones on its connection, and ends', async () => {
    const { server, port } = await start()
    bench.objectStore.hold()
    const { socket, ended } = exchange(port, head('POST', '/v1/databases/{cell}/backup'))
    await pause(30)
    const stopped = server.stop({ drainMs: 10_000 })
    socket.write(head('GET', '/v1/databases'))
    await expect(fetch(`http://127.0.0.1:${port}/healthz`)).rejects.toThrow()
    bench.objectStore.release()
    await stopped
    const text = await ended
    expect(text).toMatch(/^HTTP\/1\.1 200 .*"kind":"snapshot"/s)
    expect(text).toMatch(/Connection: close/i)
  })

  test('answers what comes on an open connection with 503 shutting_down, and closes it', async () => {
    const { server, port } = await start()
    // A request whose head has not come yet keeps its connection open.
    const half = head('GET', '/v1/databases')
    const { socket, ended } = exchange(port, half.slice(0, 20))
    await pause(30)
    const stopped = server.stop({ drainMs: 10_000 })
    socket.write(half.slice(20))
    const text = await ended
    expect(text).toMatch(/^HTTP\/1\.1 503 .*"code":"shutting_down"/s)
    expect(text).toMatch(/^Retry-After: \d+\r$/m)
    expect(text).toMatch(/^Connection: close\r$/im)
    await stopped
  })

  test('ends idle connections at once', async () => {
    const { server, port } = await start()
    const { ended } = exchange(port, head('GET', '/healthz'))
    await pause(30)
    await server.stop({ drainMs: 10_000 })
    expect(await ended).toMatch(/^HTTP\/1\.1 200 /)
  })

  test('cuts what is left at its deadline', async () => {
    const { server, port } = await start()
    bench.objectStore.hold()
    const { ended } = exchange(port, head('POST', '/v1/databases/{cell}/backup'))
    await pause(30)
    await server.stop({ drainMs: 50 })
    expect(await ended).toBe('')
  })

  test('can be called twice, and before a start', async () => {
    const { server } = await start()
    await Promise.all([server.stop({ drainMs: 1_000 }), server.stop({ drainMs: 0 })])
    await new NodeServer(bench.store).stop({ drainMs: 1_000 })
  })
})

describe('a connection', () => {
  test.each([
    ['without headers in time', { headersMs: 50, requestMs: 60 }, 'GET /healthz HTTP/1.1\r\n', 408],
    ['with headers that are too long', {}, `GET /${'x'.repeat(20_000)} HTTP/1.1\r\n\r\n`, 431],
    ['that speaks no HTTP', {}, 'hello\r\n\r\n', 400],
  ])('%s is ended', async (_what, connections, text, status) => {
    const { port } = await start({ connections })
    expect(await exchange(port, text).ended).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
  })

  test('whose body does not come in time is ended', async () => {
    const { port } = await start({ connections: { headersMs: 50, requestMs: 60 } })
    const { ended } = exchange(
      port,
      head('PUT', '/v1/databases/{cell}/kv/k', 'Content-Type: application/json', 'Content-Length: 10'),
    )
    expect(await ended).toMatch(/^HTTP\/1\.1 408 /)
  })

  test('that idles is ended', async () => {
    const { port } = await start({ connections: { keepAliveMs: 50 } })
    expect(await exchange(port, head('GET', '/healthz')).ended).toMatch(/^HTTP\/1\.1 200 /)
  })

  test('beyond the bound is ended', async () => {
    const { port } = await start({ connections: { connectionsMax: 1 } })
    const first = exchange(port, head('GET', '/healthz'))
    await pause(30)
    expect(await exchange(port, head('GET', '/healthz')).ended).toBe('')
    first.socket.destroy()
  })

  test('takes a key of 1,024 bytes, encoded', async () => {
    const { port } = await start()
    const key = encodeURIComponent('é'.repeat(512))
    const wire = exchange(port, head('GET', `/v1/databases/{cell}/kv/${key}`, 'Connection: close'))
    expect(await wire.ended).toMatch(/"code":"key_not_found"/)
  })
})

test('a handler is told of the shutdown by its signal', async () => {
  const shutdown = new AbortController()
  const handler = createHandler(bench.store, { shutdown: shutdown.signal })
  expect((await handler(new Request('http://x/readyz'))).status).toBe(200)
  shutdown.abort()
  const response = await handler(new Request('http://x/readyz'))
  expect(response.headers.get('retry-after')).toMatch(/^\d+$/)
  expect(await response.json()).toMatchObject({ status: 503, code: 'shutting_down' })
})
