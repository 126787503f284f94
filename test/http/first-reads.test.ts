import { once } from 'node:events'
import http, { type IncomingMessage } from 'node:http'
import net, { type AddressInfo, type Socket } from 'node:net'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { FIRST_READ_MS, FIRST_READS_AT_ONCE, FirstReads } from '../../src/http/first-reads.ts'
import { READ_BYTES } from '../../src/http/read-pace.ts'
import { FakeClock } from '../support/fake-clock.ts'

const GET = 'GET / HTTP/1.1\r\nHost: x\r\n\r\n'

let clock: FakeClock
let server: http.Server
let port: number
let clients: Socket[]
let connections: number
/** The addresses that requests came from, in their order. */
let senders: string[]
/** Requests that came in each turn of the loop that had some. */
let turns: number[]
let onRequest: (request: IncomingMessage) => void

beforeEach(async () => {
  clock = new FakeClock()
  const firstReads = new FirstReads(clock)
  clients = []
  connections = 0
  senders = []
  turns = []
  onRequest = () => {}
  let ofTurn = 0
  const endTurn = () => {
    turns.push(ofTurn)
    ofTurn = 0
  }
  server = http.createServer({ highWaterMark: 16_384 }, (request, response) => {
    firstReads.came(request.socket)
    if (ofTurn++ === 0) setImmediate(endTurn)
    senders.push(request.socket.remoteAddress ?? '')
    onRequest(request)
    if (request.complete || request.headers['content-length'] === undefined) response.end('here')
  })
  server.on('connection', (socket) => {
    connections++
    firstReads.add(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  port = (server.address() as AddressInfo).port
})

afterEach(async () => {
  for (const client of clients) client.destroy()
  server.closeAllConnections()
  server.close()
  await once(server, 'close')
})

/** Opens connections that send nothing yet. Resolves when the server has taken them all. */
async function connect(count: number, localAddress = '127.0.0.1'): Promise<Socket[]> {
  const before = connections
  const opened = Array.from({ length: count }, () => net.connect({ port, host: '127.0.0.1', localAddress }))
  clients.push(...opened)
  for (const each of opened) each.on('error', () => {})
  while (connections < before + count) await turnOfTheLoop()
  return opened
}

async function ask(client: Socket): Promise<string> {
  client.write(GET)
  const [bytes] = (await once(client, 'data')) as [Buffer]
  return bytes.toString().slice(0, 15)
}

/** Looks so often who has been silent, with time for the sockets in between. */
async function look(times: number): Promise<void> {
  for (let i = 0; i < times; i++) {
    clock.advance(FIRST_READ_MS)
    for (let turn = 0; turn < 5; turn++) await turnOfTheLoop()
  }
}

const asked = (all: readonly Socket[]) => clock.advanceUntil(Promise.all(all.map(ask)), FIRST_READ_MS)

test('of hundreds of new connections that send at once, each turn of the loop takes a few', async () => {
  const all = await connect(300)
  expect(new Set(await asked(all))).toEqual(new Set(['HTTP/1.1 200 OK']))
  expect(turns.reduce((sum, each) => sum + each, 0)).toBe(300)
  expect(Math.max(...turns)).toBeLessThanOrEqual(FIRST_READS_AT_ONCE)
})

test('a connection that sends nothing makes room for those that wait, and is read when its turn comes again', async () => {
  const silent = await connect(5 * FIRST_READS_AT_ONCE)
  const [late] = (await connect(1)) as [Socket]
  late.write(GET)
  await turnOfTheLoop()
  await turnOfTheLoop()
  expect(senders).toHaveLength(0)
  await clock.advanceUntil(once(late, 'data'), FIRST_READ_MS)
  expect(new Set(await asked(silent))).toEqual(new Set(['HTTP/1.1 200 OK']))
})

test('a newcomer does not wait behind all that are silent', async () => {
  const silent = await connect(50 * FIRST_READS_AT_ONCE)
  // All have had a place.
  await look(220)
  const [late] = (await connect(1)) as [Socket]
  late.write(GET)
  // In the first look those that are read may have just begun; in the second they have been silent.
  await look(2)
  expect(senders).toHaveLength(1)
  expect(silent.every((each) => !each.destroyed)).toBe(true)
})

test('those of one address do not wait behind all those of another', async () => {
  const many = await connect(200, '127.0.0.2')
  const [other] = (await connect(1, '127.0.0.3')) as [Socket]
  await asked([...many, other])
  expect(senders.indexOf('127.0.0.3')).toBeLessThan(4 * FIRST_READS_AT_ONCE)
})

test('of a body that nobody reads no more than a piece comes, also if its connection waited', async () => {
  const read: (() => number)[] = []
  onRequest = (request) => read.push(() => request.socket.bytesRead)
  await connect(FIRST_READS_AT_ONCE)
  const all = await connect(4 * FIRST_READS_AT_ONCE)
  const head = 'PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 4000000\r\n\r\n'
  for (const each of all) each.write(head + 'x'.repeat(4_000_000))
  const came = (async () => {
    while (read.length < all.length) await turnOfTheLoop()
    for (let i = 0; i < 50; i++) await turnOfTheLoop()
  })()
  await clock.advanceUntil(came, FIRST_READ_MS)
  expect(Math.max(...read.map((each) => each()))).toBeLessThanOrEqual(READ_BYTES)
})

test('a connection that closes while it waits, or is read, leaves its place', async () => {
  const gone = await connect(5 * FIRST_READS_AT_ONCE)
  for (const each of gone) each.destroy()
  const [late] = (await connect(1)) as [Socket]
  expect(await asked([late])).toEqual(['HTTP/1.1 200 OK'])
})
