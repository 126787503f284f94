import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import net, { type AddressInfo, type Socket } from 'node:net'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { ConnectionLimits } from '../../src/http/connection-limits.ts'
import { NodeServer } from '../../src/http/node-server.ts'
import { READ_BYTES } from '../../src/http/read-pace.ts'
import { SLICE_BYTES, SLICES_PER_TURN } from '../../src/http/sliced-reads.ts'
import type { CellService } from '../../src/service/cell-service.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { answersIn, exchange } from '../support/http/wire.ts'
import { Random } from '../support/random.ts'
import { until } from '../support/until.ts'

const TINY = 'GET / HTTP/1.1\r\nHost:a\r\n\r\n'
/** The last one of its connection. */
const LAST = TINY.replace('\r\n\r\n', '\r\nConnection: close\r\n\r\n')
/** As many as one read of Node.js holds. */
const TINY_OF_READ = Math.floor(65_536 / TINY.length)
const TINY_OF_SLICE = Math.ceil(SLICE_BYTES / TINY.length)
const TINY_OF_TURN = SLICES_PER_TURN * TINY_OF_SLICE

let bench: Bench
let service: CellService
let server: NodeServer
let port: number
let clients: Socket[]
/** Requests that Node.js has parsed, in each turn of the loop that had some. */
let turns: number[]
let ofTurn: number
/** The values that were put, in their order. */
let written: string[]
/** Reads wait for it. */
let hold: Promise<void>

const onRequest = () => {
  if (ofTurn++ > 0) return
  setImmediate(() => {
    turns.push(ofTurn)
    ofTurn = 0
  })
}

beforeEach(async () => {
  bench = await Bench.open(viaFetch)
  turns = []
  ofTurn = 0
  clients = []
  written = []
  hold = Promise.resolve()
  service = {
    execute: async (_cell, operation) => {
      if (operation.op === 'kv.get') await hold
      if ('value' in operation) written.push(operation.value as string)
      const key = 'key' in operation ? operation.key : ''
      const value = key === 'large' ? 'v'.repeat(8_000_000) : null
      return { key, value, ttlSeconds: -1, expiresAt: null } as never
    },
  } as Pick<CellService, 'execute'> as CellService
  await serve()
  subscribe('http.server.request.start', onRequest)
})

afterEach(async () => {
  unsubscribe('http.server.request.start', onRequest)
  for (const client of clients) client.destroy()
  await server.stop({ drainMs: 0 })
  await bench.close()
})

async function serve(connections: Partial<ConnectionLimits> = {}): Promise<void> {
  server = new NodeServer(bench.store, { service, connections })
  port = ((await server.start({ host: '127.0.0.1', port: 0 })) as AddressInfo).port
}

/** Opens a connection with a request, and waits for the answer. */
async function openWith(first: string): Promise<Socket> {
  const client = net.connect(port, '127.0.0.1')
  clients.push(client)
  client.on('error', () => {}).resume()
  client.write(first)
  await new Promise((resolve) => client.once('data', resolve))
  return client
}

/** Has this address send so much that it is costly. */
async function becomeCostly(): Promise<void> {
  const { socket } = exchange(port, TINY.repeat(TINY_OF_READ))
  await until(() => turns.some((count) => count > TINY_OF_READ / 2), 'a costly read')
  socket.destroy()
  await turnOfTheLoop()
  turns = []
}

const parsed = () => turns.reduce((sum, count) => sum + count, 0)

const request = (method: string, path: string, headers: readonly string[], body = '') =>
  [`${method} ${bench.fill(path)} HTTP/1.1`, 'Host: x', ...headers, '', body].join('\r\n')

const withKey = (...headers: string[]) => [
  `x-api-key: ${bench.key}`,
  'Content-Type: application/json',
  ...headers,
]

describe('of a sender that has sent thousands of tiny requests at once', () => {
  test('few more are parsed in one turn of the event loop', async () => {
    await becomeCostly()
    const { ended } = exchange(port, TINY.repeat(TINY_OF_READ - 1) + LAST)
    expect(answersIn(await ended)).toHaveLength(TINY_OF_READ)
    expect(Math.max(...turns)).toBeLessThanOrEqual(TINY_OF_TURN + 1)
  })

  test('all connections are parsed in slices from that moment, also those whose bytes are already here', async () => {
    const open = await Promise.all(Array.from({ length: 40 }, () => openWith(TINY)))
    turns = []
    for (const each of open) each.write(TINY.repeat(TINY_OF_READ))
    await until(() => parsed() > 2 * TINY_OF_READ, 'two reads are parsed')
    const [first, ...others] = [...turns].sort((a, b) => b - a)
    expect(first).toBeLessThanOrEqual(TINY_OF_READ + TINY_OF_TURN)
    expect(Math.max(...others)).toBeLessThanOrEqual(TINY_OF_TURN + 1)
  })

  test('clients that take no answers keep no other one of their address waiting until it is too late', async () => {
    await server.stop({ drainMs: 0 })
    await serve({ requestMs: 10_000 })
    await becomeCostly()
    const { promise, resolve } = Promise.withResolvers<void>()
    hold = promise
    const get = request('GET', '/v1/databases/{cell}/kv/a', withKey())
    const all = Array.from({ length: 60 }, () => exchange(port, get + TINY.repeat(TINY_OF_READ)))
    await until(() => parsed() > all.length, 'they are parsed')
    const body = chunked(JSON.stringify({ value: 'x'.repeat(1_000_000) }), () => 500)
    const headers = withKey('Connection: close', 'Transfer-Encoding: chunked')
    const put = request('PUT', '/v1/databases/{cell}/kv/b', headers, body)
    expect(answersIn(await exchange(port, put).ended)).toMatchObject([{ status: 200 }])
    // Of each no more than what a slice or two held.
    expect(parsed()).toBeLessThan(all.length * 3 * TINY_OF_SLICE)
    resolve()
    for (const { socket } of all) socket.destroy()
  })

  test('no more than one read of a connection waits', async () => {
    await becomeCostly()
    const { promise, resolve } = Promise.withResolvers<void>()
    hold = promise
    const sockets = new Set<Socket>()
    const onStart = (message: unknown) => sockets.add((message as { socket: Socket }).socket)
    subscribe('http.server.request.start', onStart)
    const get = request('GET', '/v1/databases/{cell}/kv/a', withKey())
    const all = Array.from({ length: 60 }, () => exchange(port, get + TINY.repeat(3 * TINY_OF_READ)))
    await until(() => sockets.size === all.length, 'something of each is parsed')
    for (let i = 0; i < 20; i++) await turnOfTheLoop()
    unsubscribe('http.server.request.start', onStart)
    expect(new Set([...sockets].map((socket) => socket.readableLength))).toEqual(new Set([0]))
    expect(Math.max(...[...sockets].map((socket) => socket.bytesRead))).toBeLessThanOrEqual(READ_BYTES)
    resolve()
    for (const { socket } of all) socket.destroy()
  })

  test('a connection of which something waits to be parsed is not closed because it is quiet', async () => {
    await server.stop({ drainMs: 0 })
    await serve({ keepAliveMs: 1 })
    await becomeCostly()
    const { promise, resolve } = Promise.withResolvers<void>()
    hold = promise
    const get = request('GET', '/v1/databases/{cell}/kv/a', withKey())
    const held = Array.from({ length: 5 }, () => exchange(port, get + TINY.repeat(100)))
    await until(() => parsed() >= 64, 'so many wait that others have few turns')
    const all = Array.from({ length: 150 }, () => exchange(port, TINY.repeat(45) + LAST))
    for (const { ended } of all) expect(answersIn(await ended)).toHaveLength(46)
    resolve()
    for (const { socket } of held) socket.destroy()
  })

  test.for(Array.from({ length: 6 }, (_, i) => i + 1))(
    'every request is answered as it would be otherwise, however its bytes are cut (seed %i)',
    async (seed) => {
      await becomeCostly()
      const random = new Random(seed)
      const asked = Array.from({ length: 150 }, (_, i) => randomRequest(random, `k${i}`))
      const { socket, ended } = exchange(port, '')
      const bytes = asked.map(({ text }) => text).join('') + LAST
      for (let at = 0; at < bytes.length; ) {
        const end = at + 1 + random.below(random.below(8) === 0 ? 60_000 : 4_000)
        socket.write(bytes.slice(at, end))
        at = end
        if (random.below(3) === 0) await turnOfTheLoop()
      }
      const answers = answersIn(await ended)
      expect(answers.map(({ status }) => status)).toEqual([...asked.map(({ status }) => status), 401])
      expect(written).toEqual(asked.flatMap(({ value }) => value ?? []))
    },
  )

  test('new connections of an account that is costly are parsed in slices, too, once it is known', async () => {
    const get = request('GET', '/v1/databases/{cell}/kv/a', withKey())
    const first = await openWith(get)
    first.write(TINY.repeat(TINY_OF_READ))
    await until(() => turns.some((count) => count > TINY_OF_READ / 2), 'a costly read')
    const second = await openWith(get)
    turns = []
    second.write(TINY.repeat(TINY_OF_READ))
    await until(() => parsed() >= TINY_OF_READ / 2, 'the second one is parsed')
    expect(Math.max(...turns)).toBeLessThanOrEqual(2 * TINY_OF_TURN)
  })

  test('a client that takes no answers, and has its connection resumed by others, ends nothing', async () => {
    await becomeCostly()
    const sockets = new Set<Socket>()
    const onStart = (message: unknown) => sockets.add((message as { socket: Socket }).socket)
    subscribe('http.server.request.start', onStart)
    const silent = net.connect(port, '127.0.0.1').on('error', () => {})
    clients.push(silent)
    silent.pause()
    silent.write(request('GET', '/v1/databases/{cell}/kv/large', withKey()))
    for (let i = 0; i < 100; i++) {
      silent.write(TINY.repeat(40))
      for (const socket of sockets) socket.resume()
      await turnOfTheLoop()
    }
    unsubscribe('http.server.request.start', onStart)
    silent.resume()
    await until(() => silent.bytesRead > 8_000_000 + 4_000 * 200, 'it takes its answers')
  })

  test('what is no request is refused, and so is CONNECT', async () => {
    await becomeCostly()
    const garbage = exchange(port, `${TINY.repeat(200)}no request\r\n\r\n${'x'.repeat(100_000)}`)
    const tunnel = exchange(
      port,
      `${TINY.repeat(200)}CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n${'x'.repeat(100_000)}`,
    )
    for (const { socket } of [garbage, tunnel]) socket.end()
    for (const { ended } of [garbage, tunnel]) {
      const answers = answersIn(await ended)
      expect(answers.at(-1)?.status).toBe(400)
      expect(answers).toHaveLength(201)
    }
  })
})

interface Asked {
  text: string
  status: number
  value?: string
}

function randomRequest(random: Random, key: string): Asked {
  const path = `/v1/databases/{cell}/kv/${key}`
  const value = 'v'.repeat(random.below(random.below(10) === 0 ? 30_000 : 300))
  const json = JSON.stringify({ value })
  switch (random.below(6)) {
    case 0:
      return { text: TINY, status: 401 }
    case 1:
      return { text: request('GET', path, ['x-api-key: bad']), status: 401 }
    case 2:
      return { text: request('GET', path, withKey()), status: 200 }
    case 3:
      return {
        text: request('PUT', path, withKey(`Content-Length: ${json.length}`), json),
        status: 200,
        value,
      }
    default: {
      const body = chunked(json, () => 1 + random.below(random.below(4) === 0 ? 3_000 : 4))
      return { text: request('PUT', path, withKey('Transfer-Encoding: chunked'), body), status: 200, value }
    }
  }
}

function chunked(text: string, next: () => number): string {
  let all = ''
  for (let at = 0; at < text.length; ) {
    const chunk = text.slice(at, at + next())
    all += `${chunk.length.toString(16)}\r\n${chunk}\r\n`
    at += chunk.length
  }
  return `${all}0\r\n\r\n`
}
