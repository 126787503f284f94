import http from 'node:http'
import http2 from 'node:http2'
import net, { type AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { LINGER_BYTES_MAX } from '../../src/http/server/linger.ts'
import { createListener } from '../../src/http/server/node-listener.ts'
import { Bench } from '../support/http/bench.ts'
import { LingerClock } from '../support/http/stepped-clock.ts'
import { sendOverSocket, viaFetch } from '../support/http/transports.ts'

/** What only sockets show: when answers leave, when connections end, what a path is before a URL parser sees it. */

let bench: Bench
let server: http.Server
let port: number
let clock: LingerClock

beforeEach(async () => {
  clock = new LingerClock()
  bench = await Bench.open(viaFetch, { store: { clock } })
  server = http.createServer(createListener(bench.store))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  port = (server.address() as AddressInfo).port
})

afterEach(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
  await bench.close()
})

/** A connection on which a test writes HTTP by hand. */
class Wire {
  readonly socket: net.Socket
  #received = ''
  #waiting: (() => void)[] = []
  ended = false

  constructor() {
    this.socket = net.connect(port, '127.0.0.1')
    this.socket.setEncoding('utf8')
    const wake = () => {
      for (const run of this.#waiting.splice(0)) run()
    }
    this.socket.on('data', (text: string) => {
      this.#received += text
      wake()
    })
    const end = () => {
      this.ended = true
      wake()
    }
    this.socket.on('close', end).on('error', end)
  }

  write(text: string): void {
    this.socket.write(text)
  }

  /** Takes what was received once it matches. */
  async take(pattern: RegExp): Promise<string> {
    while (!pattern.test(this.#received)) {
      if (this.ended) throw new Error(`The connection ended after: ${this.#received}`)
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    }
    const text = this.#received
    this.#received = ''
    return text
  }

  async end(): Promise<void> {
    while (!this.ended) await new Promise<void>((resolve) => this.#waiting.push(resolve))
  }
}

const head = (method: string, path: string, ...headers: string[]) =>
  [`${method} ${bench.fill(path)} HTTP/1.1`, 'Host: x', `x-api-key: ${bench.key}`, ...headers, '', ''].join(
    '\r\n',
  )
const kvPath = '/v1/databases/{cell}/kv/k'
const WHOLE_PROBLEM = /\r\n\r\n\{.*"code":"\w+".*\}$/s

test('what other code keeps of a body is not touched: it may need it for a signature, or a log', async () => {
  const kept: Buffer[] = []
  // The first request loads the library's HTTP part, and would find the body read.
  await fetch(`http://127.0.0.1:${port}/healthz`)
  server.prependListener('request', (request: http.IncomingMessage) =>
    request.on('data', (piece: Buffer) => kept.push(piece)),
  )
  const value = 'v'.repeat(900_000)
  const url = `http://127.0.0.1:${port}/v1/databases/${bench.cell}/kv/key`
  const headers = { 'x-api-key': bench.key, 'content-type': 'application/json' }
  const response = await fetch(url, { method: 'PUT', headers, body: JSON.stringify({ value }) })
  expect(response.status).toBe(200)
  expect(Buffer.concat(kept).toString()).toBe(JSON.stringify({ value }))
})

describe('an early answer', () => {
  test('comes at once, while the client still sends, and the connection goes on', async () => {
    const wire = new Wire()
    wire.write(head('PUT', kvPath, 'Content-Type: application/json', 'Content-Length: 3000000'))
    expect(await wire.take(WHOLE_PROBLEM)).toMatch(/^HTTP\/1\.1 413 /)
    wire.write('x'.repeat(3_000_000))
    wire.write(head('GET', '/healthz'))
    expect(await wire.take(/\{"status":"ok"\}$/)).toMatch(/^HTTP\/1\.1 200 /)
  })

  test('comes when a chunked body passes its limit', async () => {
    const wire = new Wire()
    wire.write(head('PUT', kvPath, 'Content-Type: application/json', 'Transfer-Encoding: chunked'))
    const chunk = `100000\r\n${'x'.repeat(0x100000)}\r\n`
    wire.write(chunk + chunk)
    wire.write(chunk)
    expect(await wire.take(WHOLE_PROBLEM)).toMatch(/^HTTP\/1\.1 413 /)
    wire.write('0\r\n\r\n')
    wire.write(head('GET', '/healthz'))
    expect(await wire.take(/\{"status":"ok"\}$/)).toMatch(/^HTTP\/1\.1 200 /)
  })

  test('reaches a client that wants the connection closed, however much it sends first', async () => {
    for (let i = 0; i < 20; i++) {
      const body = Buffer.alloc(8_000_000, 'x')
      const reply = await sendOverSocket(
        {
          method: 'PUT',
          path: bench.fill(kvPath),
          headers: {
            'x-api-key': i % 2 === 0 ? bench.key : 'none',
            connection: 'close',
            'content-type': 'application/json',
          },
          body,
        },
        { port },
      )
      expect(reply.status).toBe(i % 2 === 0 ? 413 : 401)
    }
  })

  test.each([
    ['without a key', 'POST', '/v1/databases', 401, ['x-api-key: x']],
    ['at no route', 'POST', '/v1/nothing', 404, []],
    ['of a wrong method', 'PATCH', kvPath, 405, []],
    ['of a wrong type', 'PUT', kvPath, 415, ['Content-Type: text/plain']],
  ])('%s does not wait for the body either', async (_what, method, path, status, headers) => {
    const wire = new Wire()
    const own = head(method, path, ...headers, 'Content-Length: 100')
    wire.write(status === 401 ? own.replace(`x-api-key: ${bench.key}\r\n`, '') : own)
    expect(await wire.take(WHOLE_PROBLEM)).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `))
    wire.write(`${'x'.repeat(100)}${head('GET', '/healthz')}`)
    expect(await wire.take(/\{"status":"ok"\}$/)).toMatch(/^HTTP\/1\.1 200 /)
  })

  test('is followed by no more than 16 MiB', async () => {
    const wire = new Wire()
    wire.write(head('PUT', kvPath, 'Content-Type: application/json', `Content-Length: ${2 ** 40}`))
    await wire.take(WHOLE_PROBLEM)
    let sent = 0
    const chunk = 'x'.repeat(65_536)
    while (!wire.ended && sent < 2 ** 30) {
      wire.write(chunk)
      sent += chunk.length
      await new Promise((resolve) => setImmediate(resolve))
    }
    await wire.end()
    expect(sent).toBeGreaterThan(LINGER_BYTES_MAX)
    expect(sent).toBeLessThan(LINGER_BYTES_MAX * 4)
  })

  test('is followed by no more than 5 seconds', async () => {
    const wire = new Wire()
    wire.write(head('PUT', kvPath, 'Content-Type: application/json', 'Content-Length: 3000000'))
    await wire.take(WHOLE_PROBLEM)
    clock.deadlines[0]?.()
    await wire.end()
  })
})

describe('a connection', () => {
  test('carries pipelined requests, answered in their order', async () => {
    const wire = new Wire()
    const body = '{"value":"1"}'
    wire.write(
      head('PUT', kvPath, 'Content-Type: application/json', `Content-Length: ${body.length}`) +
        body +
        head('GET', '/healthz') +
        head('GET', '/v1/nothing'),
    )
    const text = await wire.take(/"code":"not_found".*\}$/s)
    expect([...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status)).toEqual(['200', '200', '404'])
  })

  test('that ends in the middle of a body changes nothing and is no bug', async () => {
    const wire = new Wire()
    wire.write(head('PUT', kvPath, 'Content-Type: application/json', 'Content-Length: 100'))
    wire.write('{"value":')
    await new Promise((resolve) => setTimeout(resolve, 20))
    wire.socket.destroy()
    await wire.end()
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(bench.logged).toEqual([])
    const reply = await bench.send({ method: 'GET', path: kvPath })
    expect(reply.status).toBe(404)
  })

  test('that ended before the listener got the request is no bug', async () => {
    const handled: Promise<unknown>[] = []
    const listener = createListener(bench.store, {
      logger: { error: (fields) => void bench.logged.push({ ...fields }) },
    })
    const slow = http.createServer((request, response) => {
      const gone = new Promise((resolve) => request.once('close', resolve))
      handled.push(gone.then(() => listener(request, response)))
    })
    await new Promise<void>((resolve) => slow.listen(0, '127.0.0.1', resolve))
    const socket = net.connect((slow.address() as AddressInfo).port, '127.0.0.1')
    socket.write(head('PUT', kvPath, 'Content-Type: application/json', 'Content-Length: 100'))
    await new Promise((resolve) => setTimeout(resolve, 20))
    socket.destroy()
    await handled[0]
    await new Promise((resolve) => setTimeout(resolve, 20))
    expect(bench.logged).toEqual([])
    await new Promise((resolve) => slow.close(resolve))
  })

  test('that ends before its answer does no harm', async () => {
    const wire = new Wire()
    wire.write(head('POST', '/v1/databases/{cell}/backup'))
    await new Promise((resolve) => setTimeout(resolve, 5))
    wire.socket.destroy()
    await wire.end()
    expect((await sendOverSocket({ method: 'GET', path: '/healthz', headers: {} }, { port })).status).toBe(
      200,
    )
  })

  test('with Expect: 100-continue is told to go on, and answered', async () => {
    const wire = new Wire()
    const body = '{"value":"1"}'
    const length = `Content-Length: ${body.length}`
    wire.write(head('PUT', kvPath, 'Content-Type: application/json', length, 'Expect: 100-continue'))
    expect(await wire.take(/100 Continue\r\n\r\n/)).toMatch(/^HTTP\/1\.1 100 /)
    wire.write(body)
    expect(await wire.take(/"created":true.*\}$/)).toMatch(/^HTTP\/1\.1 200 /)
  })
})

describe('a path, as it was sent', () => {
  const send = (method: string, path: string, body?: string) =>
    sendOverSocket(
      {
        method,
        path: bench.fill(path),
        headers: { 'x-api-key': bench.key, 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body }),
      },
      { port },
    )
  const kv = '/v1/databases/{cell}/kv'

  test.each(['.', '..', '%2e', '%2E%2e', '.%2e'])(
    '%s is no key: a URL parser would have taken it away',
    async (key) => {
      for (const [method, body] of [['PUT', '{"value":"v"}'], ['GET'], ['DELETE']] as const) {
        const reply = await send(method, `${kv}/${key}`, body)
        expect({ status: reply.status, ...JSON.parse(reply.text) }).toMatchObject({
          status: 400,
          code: 'invalid_key',
          field: 'key',
        })
      }
    },
  )

  test('is not normalised', async () => {
    expect((await send('GET', `${kv}/../sql`)).status).toBe(404)
    expect((await send('GET', '/v1/../v1/databases')).status).toBe(404)
    expect((await send('GET', '//v1/databases')).status).toBe(404)
    expect(JSON.parse((await send('PUT', `${kv}/a\\b`, '{"value":"v"}')).text)).toMatchObject({ key: 'a\\b' })
  })

  test('may be in absolute form', async () => {
    const wire = new Wire()
    wire.write(head('GET', 'http://anything.test/v1/databases?limit=1'))
    expect(await wire.take(/next_cursor.*\}$/)).toMatch(/^HTTP\/1\.1 200 /)
    wire.write(head('GET', 'http://anything.test'))
    expect(await wire.take(WHOLE_PROBLEM)).toMatch(/^HTTP\/1\.1 404 /)
  })

  test('is refused by Node.js itself when it holds bytes that are not ASCII', async () => {
    const wire = new Wire()
    wire.socket.write(Buffer.from(head('GET', `${kv}/caf\u00e9`), 'utf8'))
    await wire.end()
    expect(await wire.take(/$/)).toMatch(/^HTTP\/1\.1 400 /)
  })
})

test('HTTP/2, which announces no body, is served too', async () => {
  const listener = createListener(bench.store) as unknown as Parameters<typeof http2.createServer>[1]
  const server2 = http2.createServer({}, listener)
  await new Promise<void>((resolve) => server2.listen(0, '127.0.0.1', resolve))
  const client = http2.connect(`http://127.0.0.1:${(server2.address() as AddressInfo).port}`)
  const ask = async (method: string, target: string, body?: string) => {
    const stream = client.request({
      ':method': method,
      ':path': bench.fill(target),
      'x-api-key': bench.key,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    })
    stream.end(body)
    let text = ''
    for await (const chunk of stream.setEncoding('utf8')) text += chunk
    return JSON.parse(text)
  }
  expect(await ask('PUT', kvPath, '{"value":"v"}')).toMatchObject({ created: true })
  expect(await ask('GET', kvPath)).toMatchObject({ value: 'v' })
  expect(await ask('POST', '/v1/databases')).toMatchObject({ id: expect.any(String) })
  expect(await ask('POST', '/v1/nothing', '{}')).toMatchObject({ status: 404 })
  client.close()
  await new Promise((resolve) => server2.close(resolve))
})

test('an answer that something around the listener gave in its place is left alone', async () => {
  bench.objectStore.hold()
  const listener = createListener(bench.store, {
    logger: { error: (fields) => void bench.logged.push({ ...fields }) },
  })
  const impatient = http.createServer((request, response) => {
    listener(request, response)
    setTimeout(() => response.writeHead(504).end('too late'), 20)
  })
  await new Promise<void>((resolve) => impatient.listen(0, '127.0.0.1', resolve))
  const { port: other } = impatient.address() as AddressInfo
  const headers = { 'x-api-key': bench.key }
  const path = bench.fill('/v1/databases/{cell}/backup')
  const reply = await sendOverSocket({ method: 'POST', path, headers }, { port: other })
  expect(reply).toMatchObject({ status: 504, text: 'too late' })
  bench.objectStore.open()
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect(bench.logged).toEqual([])
  await new Promise((resolve) => impatient.close(resolve))
})
