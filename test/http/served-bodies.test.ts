import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import http, { type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import type { Timer } from '../../src/base/clock.ts'
import { DRAINS_AT_ONCE, PLACE_MS } from '../../src/http/body-drains.ts'
import { NodeServer } from '../../src/http/node-server.ts'
import { READ_BYTES } from '../../src/http/read-pace.ts'
import type { CellService } from '../../src/service/cell-service.ts'
import { CellAnswer, type CellRequest } from '../../src/service/operations.ts'
import { Bench } from '../support/http/bench.ts'
import { SteppedClock } from '../support/http/stepped-clock.ts'
import { viaFetch } from '../support/http/transports.ts'
import { answersIn, exchange } from '../support/http/wire.ts'
import { until } from '../support/until.ts'

/** The memory of a body that our own server has received: while its operation is at work, afterwards, and once it is refused. */

const SQL = `SELECT ${'1,'.repeat(100_000)}1`

/** Refused bodies keep their places until a test takes them. */
class PlaceClock extends SteppedClock {
  readonly places: (() => void)[] = []

  override setTimer(run: () => void, delayMs: number, options?: { keepsAlive?: boolean }): Timer {
    if (delayMs !== PLACE_MS) return super.setTimer(run, delayMs, options)
    this.places.push(run)
    return { cancel: () => {} }
  }
}

let clock: PlaceClock
let bench: Bench
let server: NodeServer
let port: number
/** The body of the newest operation, and what ends it. */
let body: Uint8Array | undefined
let end: () => void

beforeEach(async () => {
  clock = new PlaceClock()
  bench = await Bench.open(viaFetch, { store: { clock } })
  body = undefined
  const execute = async (_: string, operation: CellRequest) => {
    body = operation.body
    await new Promise<void>((resolve) => (end = resolve))
    return new CellAnswer(200, '{}')
  }
  server = new NodeServer(bench.store, { service: { execute } as unknown as CellService })
  port = ((await server.start({ host: '127.0.0.1', port: 0 })) as AddressInfo).port
})

afterEach(async () => {
  await server.stop({ drainMs: 0 })
  await bench.close()
})

/** A statement that is so long that the operation gets the body unread. */
async function ask(): Promise<{ request: http.ClientRequest; answered: Promise<unknown> }> {
  const headers = { 'x-api-key': bench.key, 'content-type': 'application/json' }
  const path = bench.fill('/v1/databases/{cell}/sql')
  const request = http.request({ host: '127.0.0.1', port, method: 'POST', path, headers })
  const answered = new Promise((resolve, reject) =>
    request.on('error', reject).on('response', (response) => response.resume().on('end', resolve)),
  )
  request.end(JSON.stringify({ sql: SQL }))
  await until(() => body !== undefined, 'the operation begins')
  return { request, answered }
}

test('is there for the operation, whole, and is given back with the answer', async () => {
  const { answered } = await ask()
  expect(JSON.parse(Buffer.from(body ?? []).toString())).toEqual({ sql: SQL })
  end()
  await answered
  expect(body?.byteLength).toBe(0)
})

test('stays if the client has gone: its worker may be ended later, and the log tells what it did', async () => {
  const { request, answered } = await ask()
  const gone = answered.catch(() => {})
  request.destroy()
  await gone
  // The server has seen the end of the connection once it has answered another one.
  await fetch(`http://127.0.0.1:${port}/healthz`)
  end()
  await until(() => server.memory.bodies.used === 0, 'the request is over')
  expect(JSON.parse(Buffer.from(body ?? []).toString())).toEqual({ sql: SQL })
})

/** All that Node.js has begun from now on, until the test is over. */
function begunRequests(): IncomingMessage[] {
  const requests: IncomingMessage[] = []
  const onStart = (message: unknown) => requests.push((message as { request: IncomingMessage }).request)
  subscribe('http.server.request.start', onStart)
  onTestFinished(() => void unsubscribe('http.server.request.start', onStart))
  return requests
}

test('is dropped as it comes if it is refused, also while it waits to be read on, and its client gets the answer', async () => {
  const requests = begunRequests()
  const head = 'POST /v1/databases HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 300000\r\n\r\n'
  const all = Array.from({ length: 3 * DRAINS_AT_ONCE }, () => exchange(port, head + 'x'.repeat(200_000)))
  await until(() => requests.length === all.length, 'each is refused')
  for (let i = 0; i < 20; i++) await turnOfTheLoop()
  const waiting = requests.filter(({ complete }) => !complete)
  expect(waiting.length).toBeGreaterThanOrEqual(2 * DRAINS_AT_ONCE)
  expect(waiting.map(({ readableLength }) => readableLength)).toEqual(waiting.map(() => 0))
  const readOn = waiting.filter(({ socket }) => socket.bytesRead > 2 * READ_BYTES)
  expect(readOn.length).toBeLessThanOrEqual(DRAINS_AT_ONCE)
  for (const { socket } of all) socket.write('x'.repeat(100_000))
  const taken = setInterval(() => {
    for (const take of clock.places.splice(0)) take()
  }, 1)
  for (const { ended } of all) expect(answersIn(await ended)).toMatchObject([{ status: 401 }])
  clearInterval(taken)
})

test.each([
  ['of a known length', 'Content-Length: 1000', 'x'.repeat(1_000)],
  ['in chunks', 'Transfer-Encoding: chunked', `3e8\r\n${'x'.repeat(1_000)}\r\n0\r\n\r\n`],
])(
  'a refused body %s that comes whole while it waits gets its answer whole, once it has its place',
  async (_what, length, body) => {
    const requests = begunRequests()
    const head = (headers: string) => `POST /v1/databases HTTP/1.1\r\nHost: x\r\n${headers}\r\n\r\n`
    const slow = Array.from({ length: DRAINS_AT_ONCE }, () => exchange(port, head('Content-Length: 1000')))
    await until(() => clock.places.length === DRAINS_AT_ONCE, 'all places are taken')
    const all = Array.from({ length: 8 }, () => exchange(port, head(length)))
    let received = ''
    for (const { socket } of all) socket.on('data', (data: string) => (received += data))
    for (let i = 0; i < 20; i++) await turnOfTheLoop()
    const last = 'GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'
    for (const { socket } of all) socket.write(body + last)
    await until(
      () => requests.filter(({ method, complete }) => complete && method === 'POST').length === all.length,
      'each is whole',
    )
    for (let i = 0; i < 20; i++) await turnOfTheLoop()
    expect(received.length).toBe(0)
    for (const take of clock.places.splice(0)) take()
    for (const { ended } of all)
      expect(answersIn(await ended)).toMatchObject([{ status: 401 }, { status: 200 }])
    for (const { socket } of slow) socket.destroy()
  },
)
