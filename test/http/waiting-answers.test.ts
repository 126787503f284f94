import { once } from 'node:events'
import http2 from 'node:http2'
import net, { type AddressInfo, type Socket } from 'node:net'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { DRAINS_AT_ONCE } from '../../src/http/body-drains.ts'
import { FIRST_READ_MS, FIRST_READS_AT_ONCE } from '../../src/http/first-reads.ts'
import { createListener } from '../../src/http/node-listener.ts'
import { NodeServer } from '../../src/http/node-server.ts'
import type { CellService } from '../../src/service/cell-service.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { exchange } from '../support/http/wire.ts'
import { entryAnswer } from '../support/request-bounds.ts'

/** What waits because others have all the places: time stands still, and nobody gives one up. */

let clock: FakeClock
let bench: Bench
let server: NodeServer
let port: number
let clients: Socket[]
let valueBytes: number

beforeEach(async () => {
  clock = new FakeClock()
  bench = await Bench.open(viaFetch, { store: { clock } })
  clients = []
  valueBytes = 1
  const service: Pick<CellService, 'execute'> = {
    execute: async () => entryAnswer(valueBytes) as never,
  }
  server = new NodeServer(bench.store, { service: service as CellService })
  port = ((await server.start({ host: '127.0.0.1', port: 0 })) as AddressInfo).port
})

afterEach(async () => {
  for (const client of clients) client.destroy()
  await server.stop({ drainMs: 0 })
  await bench.close()
})

const kv = '/v1/databases/{cell}/kv/k'
const head = (method: string, target: string, ...headers: string[]) =>
  [`${method} ${bench.fill(target)} HTTP/1.1`, 'Host: x', `x-api-key: ${bench.key}`, ...headers, '', ''].join(
    '\r\n',
  )

async function connect(): Promise<Socket> {
  const client = net.connect(port, '127.0.0.1').on('error', () => {})
  clients.push(client)
  await once(client, 'connect')
  return client
}

/** Refused bodies that never come whole take all the places. */
async function takeAllPlaces(): Promise<void> {
  const refused = head('POST', '/v1/nowhere', 'Content-Length: 1000000')
  for (let i = 0; i < DRAINS_AT_ONCE; i++) {
    const client = await connect()
    client.write(refused)
    await once(client, 'data')
  }
}

async function manyTurns(): Promise<void> {
  for (let i = 0; i < 50; i++) await turnOfTheLoop()
}

test('an answer that waits counts among those that are not sent', async () => {
  await takeAllPlaces()
  valueBytes = 1_000_000
  const client = await connect()
  client.write(head('GET', kv, 'Content-Length: 1'))
  await manyTurns()
  expect(client.bytesRead).toBe(0)
  expect(server.memory.unsent.used).toBeGreaterThan(valueBytes)
  client.destroy()
  while (server.memory.unsent.used > 0) await turnOfTheLoop()
})

test('a body that breaks off while its answer waits is answered, and its connection closed', async () => {
  await takeAllPlaces()
  const { socket, ended } = exchange(port, head('PUT', kv, 'x-api-key: none', 'Transfer-Encoding: chunked'))
  await manyTurns()
  expect(socket.bytesRead).toBe(0)
  socket.write('no size\r\n')
  expect(await ended).toMatch(/^HTTP\/1\.1 4\d\d /)
})

test('a request of HTTP/2 without a body waits for nobody', async () => {
  const listener = createListener(bench.store)
  const second = http2.createServer({}, listener as never)
  second.listen(0, '127.0.0.1')
  await once(second, 'listening')
  const session = http2.connect(`http://127.0.0.1:${(second.address() as AddressInfo).port}`)
  onTestFinished(async () => {
    session.destroy()
    second.close()
    await once(second, 'close')
  })
  const refuse = async () => {
    const headers = { ':method': 'POST', ':path': '/v1/nowhere', 'x-api-key': bench.key }
    const stream = session.request(headers, { endStream: false })
    stream.on('error', () => {})
    stream.write('x')
    await once(stream, 'response')
  }
  for (let i = 0; i < DRAINS_AT_ONCE; i++) await refuse()
  const stream = session.request({ ':path': bench.fill('/v1/databases/{cell}'), 'x-api-key': bench.key })
  const [{ ':status': status }] = await once(stream, 'response')
  expect(status).toBe(200)
  stream.resume()
  await once(stream, 'end')
})

test('a new connection to the server waits for its first read while others that send nothing have the places', async () => {
  for (let i = 0; i < FIRST_READS_AT_ONCE; i++) await connect()
  const client = await connect()
  client.write(head('GET', kv))
  await manyTurns()
  expect(client.bytesRead).toBe(0)
  await clock.advanceUntil(once(client, 'data'), FIRST_READ_MS)
})
