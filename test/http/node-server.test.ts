import { once } from 'node:events'
import net, { type AddressInfo } from 'node:net'
import path from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import { NodeServer, type NodeServerOptions } from '../../src/http/server/node-server.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { exchange } from '../support/http/wire.ts'

const bench = Bench.perTest(viaFetch)
const servers: NodeServer[] = []

afterEach(async () => {
  bench.objectStore.open()
  await Promise.all(servers.splice(0).map((server) => server.stop({ drainMs: 0 })))
})

async function start(options?: NodeServerOptions): Promise<{ server: NodeServer; port: number }> {
  const server = new NodeServer(bench.store, options)
  servers.push(server)
  const { port } = (await server.start({ host: '127.0.0.1', port: 0 })) as AddressInfo
  return { server, port }
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
    bench.objectStore.open()
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

  test('ends connections that have sent nothing at once', { timeout: 10_000 }, async () => {
    const { server, port } = await start({ connections: { headersMs: 600_000, requestMs: 600_000 } })
    const { ended } = exchange(port, '')
    await pause(30)
    await server.stop({ drainMs: 600_000 })
    expect(await ended).toBe('')
  })

  test('ends a connection when the body of its refused request has come', { timeout: 10_000 }, async () => {
    const { server, port } = await start({ connections: { keepAliveMs: 600_000 } })
    const { socket, ended } = exchange(port, head('GET', '/v1/nowhere', 'Content-Length: 1000'))
    await once(socket, 'data')
    const stopped = server.stop({ drainMs: 600_000 })
    await pause(30)
    socket.write('x'.repeat(1_000))
    await stopped
    expect(await ended).toMatch(/^HTTP\/1\.1 404 /)
  })

  test('lets a client take all of a large answer', async () => {
    const { server, port } = await start()
    const rows = 'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 8)'
    const sql = JSON.stringify({ sql: `${rows} SELECT printf('%*c', 1000000, 'x') FROM r` })
    const json = 'Content-Type: application/json'
    const { socket, ended } = exchange(
      port,
      head('POST', '/v1/databases/{cell}/sql', json, `Content-Length: ${sql.length}`) + sql,
    )
    await once(socket, 'data')
    socket.pause()
    const stopped = server.stop({ drainMs: 600_000 })
    await pause(300)
    socket.resume()
    const text = await ended
    await stopped
    expect(text.length).toBeGreaterThan(8_000_000)
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

test('a handler is told of the shutdown by its signal', async () => {
  const shutdown = new AbortController()
  const handler = createHandler(bench.store, { shutdown: shutdown.signal })
  expect((await handler(new Request('http://x/readyz'))).status).toBe(200)
  shutdown.abort()
  const response = await handler(new Request('http://x/readyz'))
  expect(response.headers.get('retry-after')).toMatch(/^\d+$/)
  expect(await response.json()).toMatchObject({ status: 503, code: 'shutting_down' })
})
