import { once } from 'node:events'
import http from 'node:http'
import net, { type AddressInfo } from 'node:net'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import type { HandlerOptions } from '../../src/http/handler-options.ts'
import { createListener } from '../../src/http/server/node-listener.ts'
import type { CellService } from '../../src/service/cell-service.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { answersIn, exchange } from '../support/http/wire.ts'
import { KeptLog } from '../support/kept-log.ts'
import { entryAnswer } from '../support/request-bounds.ts'

const bench = Bench.perTest(viaFetch)
let port: number
let options: HandlerOptions
/** Bytes of each answer's value. */
let valueBytes: number
let begun: number
let logger: KeptLog
let underWay: number
let mostUnderWay: number
/** Operations wait for it. */
let hold: Promise<void>

beforeEach(async () => {
  valueBytes = 10
  begun = 0
  underWay = 0
  mostUnderWay = 0
  hold = Promise.resolve()
  const service: Pick<CellService, 'execute'> = {
    execute: async (_cell, operation) => {
      begun++
      mostUnderWay = Math.max(mostUnderWay, ++underWay)
      await new Promise((resolve) => setImmediate(resolve))
      await hold
      underWay--
      const key = 'key' in operation ? operation.key : ''
      return entryAnswer(valueBytes, key) as never
    },
  }
  logger = new KeptLog()
  options = { service: service as CellService, logger }
  ;({ port } = await bench.listen(options))
})

const get = (key: string, ...headers: string[]) =>
  bench.head('GET', `/v1/databases/{cell}/kv/${key}`, ...headers)

/** A server of a program's own, with the listener. @returns its port */
async function listenerOfProgram(): Promise<number> {
  const own = http.createServer(createListener(bench.store, options))
  await new Promise<void>((resolve) => own.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    own.closeAllConnections()
    own.close()
  })
  return (own.address() as AddressInfo).port
}

test.each([
  ['our server', () => port],
  ['a server with the listener', listenerOfProgram],
])(
  'of many requests on one connection of %s that reads nothing, only those begin whose answers went out',
  async (_, server) => {
    const port = await server()
    valueBytes = 8_000_000
    const socket = net.connect(port, '127.0.0.1').on('error', () => {})
    socket.pause()
    socket.write(get('k').repeat(120))
    // Others are answered meanwhile, each after many turns of the server's loop.
    for (let i = 0; i < 20; i++)
      await exchange(port, 'GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n').ended
    expect(begun).toBeGreaterThan(0)
    // The system's buffers may take an answer or two.
    expect(begun).toBeLessThan(5)
    socket.destroy()
  },
)

test.each([
  ['one more request', 1],
  ['several', 5],
])('of what comes behind a request that is at work, with %s before it, little is read', async (_, behind) => {
  const { promise: held, resolve: release } = Promise.withResolvers<void>()
  hold = held
  const socket = net.connect(port, '127.0.0.1')
  const body = 64_000_000
  const put = bench.head('PUT', '/v1/databases/{cell}/kv/b', `Content-Length: ${body}`)
  socket.write(get('a').repeat(behind) + put)
  socket.write(Buffer.alloc(body, 'x'))
  for (let i = 0; i < 500; i++) await new Promise((resolve) => setImmediate(resolve))
  // The system's buffers hold some megabytes.
  expect(socket.bytesWritten - socket.writableLength).toBeLessThan(body / 4)
  socket.destroy()
  release()
})

test('many requests at once are answered in order, one at a time', async () => {
  const keys = Array.from({ length: 2_000 }, (_, i) => `k${i}`)
  const { ended } = exchange(port, keys.map((key) => get(key)).join('') + get('last', 'Connection: close'))
  expect(answersIn(await ended).map(({ body }) => JSON.parse(body).key)).toEqual([...keys, 'last'])
  expect(mostUnderWay).toBe(1)
})

test('nothing behind a connection’s last request begins', async () => {
  const { ended } = exchange(port, get('a') + get('b', 'Connection: close') + get('c') + get('d'))
  expect(answersIn(await ended).map(({ body }) => JSON.parse(body).key)).toEqual(['a', 'b'])
  expect(begun).toBe(2)
})

test('requests with bodies behind each other are all read', async () => {
  const body = `{"keys":["${'k'.repeat(100_000)}"]}`
  const post = bench.head('POST', '/v1/nowhere', `Content-Length: ${body.length}`) + body
  const { ended } = exchange(port, post.repeat(10) + get('last', 'Connection: close'))
  expect(answersIn(await ended).map(({ status }) => status)).toEqual([...Array(10).fill(404), 200])
})

test('a client that goes away leaves nothing to begin', async () => {
  valueBytes = 8_000_000
  const socket = net.connect(port, '127.0.0.1')
  socket.pause()
  socket.write(get('k').repeat(120))
  await exchange(port, get('k', 'Connection: close')).ended
  socket.destroy()
  await once(socket, 'close')
  const before = begun
  await exchange(port, 'GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n').ended
  expect(begun).toBeLessThan(before + 2)
})

test.for([
  ['at once', '2'],
  ['after some bytes', '2\r\n{"'],
])(
  'a request whose body breaks off %s while it waits for its turn is refused, and never begins',
  async ([, begin]) => {
    const broken = [
      `PUT ${bench.fill('/v1/databases/{cell}/kv/b')} HTTP/1.1`,
      'Host: x',
      `x-api-key: ${bench.key}`,
      'Content-Type: application/json',
      'Transfer-Encoding: chunked',
      '',
      begin,
      'no size',
      '',
    ].join('\r\n')
    const { ended } = exchange(port, get('a') + broken)
    expect(answersIn(await ended).map(({ status }) => status)).toEqual([200, 400])
    await exchange(port, 'GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n').ended
    expect(begun).toBe(1)
    expect(logger.errors).toEqual([])
  },
)
