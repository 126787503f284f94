import { once } from 'node:events'
import http from 'node:http'
import net from 'node:net'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type Client, createClient, isProblem } from '../../src/client/index.ts'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import { DEFAULT_HTTP_LIMITS } from '../../src/http/handler-options.ts'
import { DEFAULT_STREAM_LIMITS } from '../../src/http/quotas/stream-limits.ts'
import type { NodeServer, NodeServerOptions } from '../../src/http/server/node-server.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { turnsUntil } from '../support/turns.ts'
import { until } from '../support/until.ts'

const bench = Bench.perTest(viaFetch, { store: { watch: { cellBytesMax: 200_000 } } })
let server: NodeServer
let port: number

beforeEach(async () => {
  bench.newCell()
  await start()
})

async function start(options?: NodeServerOptions): Promise<void> {
  ;({ server, port } = await bench.listen(options))
}

const path = () => bench.fill('/v1/databases/{cell}/changes')
const kv = () => bench.store.openCell(bench.cell).kv

/** A stream of changes as a client without a library reads it. */
class Events {
  text = ''
  status = 0
  headers: http.IncomingHttpHeaders = {}
  isClosed = false
  readonly #request: http.ClientRequest

  constructor(query = '', headers: Record<string, string> = {}, method = 'GET') {
    const sent = { 'x-api-key': bench.key, ...headers }
    this.#request = http.request({
      host: '127.0.0.1',
      port,
      path: path() + query,
      method,
      headers: sent,
      agent: false,
    })
    this.#request.on('error', () => {})
    this.#request.on('close', () => {
      this.isClosed = true
    })
    this.#request.on('response', (response) => {
      this.status = response.statusCode ?? 0
      this.headers = response.headers
      response.setEncoding('utf8').on('data', (text) => {
        this.text += text
      })
      response.on('error', () => {})
    })
    this.#request.end()
    onTestFinished(() => void this.#request.destroy())
  }

  /** Waits for some text. */
  async has(text: string): Promise<void> {
    await until(() => this.text.includes(text), `${text} in ${this.text}`)
  }

  async closed(): Promise<void> {
    await until(() => this.isClosed, 'the stream is closed')
  }

  abort(): void {
    this.#request.destroy()
  }

  get events(): { event: string; id: string; data: unknown }[] {
    return [...this.text.matchAll(/event: (\w+)\n(?:id: (\S+)\n)?data: (.*)\n\n/g)].map(
      ([, event = '', id = '', data = '']) => ({
        event,
        id,
        data: JSON.parse(data),
      }),
    )
  }
}

async function open(query?: string, headers?: Record<string, string>): Promise<Events> {
  const events = new Events(query, headers)
  await events.has('event: reset')
  return events
}

describe('a stream', () => {
  test('is text/event-stream, and says how long to wait, what to read again, and what each commit touched', async () => {
    const events = await open()
    expect(events.status).toBe(200)
    expect(events.headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
      'x-request-id': expect.any(String),
    })
    kv().put('a', '1')
    bench.store.openCell(bench.cell).exec('CREATE TABLE t (x)')
    await events.has('"tables":null')
    expect(events.text.startsWith('retry: 1000\n\n')).toBe(true)
    expect(events.events).toEqual([
      { event: 'reset', id: expect.stringMatching(/^[0-9a-f]{16}-0$/), data: { reason: 'start' } },
      { event: 'commit', id: expect.stringMatching(/-1$/), data: { keys: ['a'], tables: [] } },
      { event: 'commit', id: expect.stringMatching(/-2$/), data: { keys: [], tables: null } },
    ])
  })

  test('goes on after Last-Event-ID, and says so if it can’t', async () => {
    const first = await open()
    kv().put('a', '1')
    await first.has('"a"')
    const id = first.events.at(-1)?.id ?? ''
    kv().put('b', '1')
    const second = new Events('', { 'last-event-id': id })
    await second.has('"b"')
    expect(second.events.map(({ event, data }) => [event, data])).toEqual([
      ['commit', { keys: ['b'], tables: [] }],
    ])
    const unknown = await open('', { 'last-event-id': '0123456789abcdef-7' })
    expect(unknown.events[0]).toMatchObject({ event: 'reset', data: { reason: 'unknown_id' } })
  })

  test('of a prefix or of tables has nothing else', async () => {
    bench.store.openCell(bench.cell).exec('CREATE TABLE t (x); CREATE TABLE u (x)')
    const events = await open('?prefix=user%2F&tables=t,other')
    kv().put('a', '1')
    bench.store.openCell(bench.cell).sql('INSERT INTO u VALUES (1)')
    kv().put('user/1', '1')
    bench.store.openCell(bench.cell).sql('INSERT INTO t VALUES (1)')
    await events.has('"t"')
    expect(events.events.slice(1).map(({ data }) => data)).toEqual([
      { keys: ['user/1'], tables: [] },
      { keys: [], tables: ['t'] },
    ])
  })

  test('is answered to HEAD without a body, and leaves nothing open', async () => {
    const head = new Events('', {}, 'HEAD')
    await head.closed()
    expect([head.status, head.headers['content-type'], head.text]).toEqual([
      200,
      'text/event-stream; charset=utf-8',
      '',
    ])
  })

  test.each([
    ['?prefix=%ff', 'invalid_request'],
    [`?prefix=${'k'.repeat(1_025)}`, 'invalid_key'],
    ['?tables=', 'invalid_request'],
    ['?tables=a,,b', 'invalid_request'],
    ['?table=a', 'invalid_request'],
  ])('with the query %s is refused', async (query, code) => {
    const events = new Events(query)
    await events.has(code)
    expect(events.status).toBe(400)
  })

  test('of a cell of another account does not exist', async () => {
    const events = new Events('', { 'x-api-key': bench.strangerKey })
    await events.has('cell_not_found')
    expect(events.status).toBe(404)
  })
})

describe('a stream ends', () => {
  test('at once when its key is revoked, and other streams go on', async () => {
    const { id, key } = bench.store.apiKeys.create(bench.accountId)
    const revoked = await open('', { 'x-api-key': key })
    const other = await open()
    bench.store.apiKeys.revoke(bench.accountId, id)
    await revoked.closed()
    expect(revoked.events.at(-1)).toMatchObject({ event: 'end', data: { code: 'unauthorized' } })
    kv().put('a', '1')
    await other.has('"a"')
    expect(revoked.text).not.toContain('"a"')
  })

  test('when its cell is deleted', async () => {
    const events = await open()
    bench.store.deleteCell(bench.cell)
    await events.closed()
    expect(events.events.at(-1)).toMatchObject({ event: 'end', data: { code: 'cell_not_found' } })
  })

  test('when the server stops: it does not hold up the stop', async () => {
    const events = await open()
    // A stop that waited for the stream would end only with the clock, which stands still.
    await server.stop({ drainMs: 60_000 })
    await events.closed()
    expect(events.events.at(-1)).toMatchObject({ event: 'end', data: { code: 'shutting_down' } })
  })

  test('when its reader takes nothing for longer than commits are kept, and no other reader waits for that', async () => {
    const socket = net.connect(port, '127.0.0.1').on('error', () => {})
    socket.write(`GET ${path()} HTTP/1.1\r\nHost: x\r\nx-api-key: ${bench.key}\r\n\r\n`)
    await once(socket, 'readable')
    socket.pause()
    const other = await open()
    const closed = once(socket, 'close')
    let isClosed = false
    void closed.then(() => {
      isClosed = true
    })
    let last = ''
    for (let round = 0; !isClosed && round < 2_000; round++) {
      last = `${round}-${'k'.repeat(30_000)}`
      bench.store.core.changes.committed(bench.cell, { keys: [last], tables: [] })
      await turnsUntil(() => other.text.includes(last), 'the other reader has it')
      other.text = ''
      // The end of a connection is seen only by reading.
      if (round % 20 === 19) socket.resume().pause()
    }
    socket.resume()
    await closed
  })

  test('and an account can have only so many', async () => {
    await start({ limits: { ...DEFAULT_HTTP_LIMITS, streams: { ...DEFAULT_STREAM_LIMITS, perAccount: 2 } } })
    const first = await open()
    await open()
    const third = new Events()
    await third.has('rate_limited')
    expect([third.status, third.headers['retry-after']]).toEqual([429, '5'])
    first.abort()
    await until(async () => {
      const again = new Events()
      await until(() => again.status !== 0, 'an answer')
      return again.status === 200
    }, 'there is room for another stream')
  })
})

test('a hundred streams of one cell all have its commits', async () => {
  const all = await Promise.all(Array.from({ length: 100 }, () => open()))
  kv().put('a', '1')
  await Promise.all(all.map((events) => events.has('"a"')))
})

describe('the client', () => {
  let cells: Client
  const waits: number[] = []
  let handler: (request: Request) => Promise<Response>
  /** Answers in the handler's place. */
  let instead: (() => Promise<Response>)[] = []

  beforeEach(() => {
    instead = []
    waits.length = 0
    handler = createHandler(bench.store)
    cells = createClient({
      baseUrl: 'http://cells.test',
      apiKey: bench.key,
      wait: async (ms) => void waits.push(ms),
      fetch: async (url, init) => (await instead.shift()?.()) ?? handler(new Request(url, init)),
    })
  })

  test('reads changes, and goes on where a connection has ended', async () => {
    const id = bench.cell
    const shutdown = new AbortController()
    handler = createHandler(bench.store, { shutdown: shutdown.signal })
    const changes = cells.changes({ id, prefix: 'u', tables: ['t'] })
    expect((await changes.next()).value).toMatchObject({ type: 'reset', reason: 'start' })
    kv().put('u1', '1')
    expect((await changes.next()).value).toMatchObject({ type: 'commit', keys: ['u1'] })
    const waiting = changes.next()
    shutdown.abort()
    instead.push(() => Promise.reject(new TypeError('fetch failed')))
    handler = createHandler(bench.store)
    kv().put('u2', '1')
    expect((await waiting).value).toMatchObject({ type: 'commit', keys: ['u2'] })
    expect(waits).toEqual([1_000, 1_000])
    await changes.return()
  })

  test('throws what ends a stream for good, and what refuses it', async () => {
    const id = bench.cell
    const changes = cells.changes({ id })
    await changes.next()
    const waiting = changes.next().catch((error: unknown) => error)
    bench.store.deleteCell(id)
    expect(isProblem(await waiting, 'cell_not_found')).toBe(true)
    const refused = await cells
      .changes({ id })
      .next()
      .catch((error: unknown) => error)
    expect(isProblem(refused, 'cell_not_found')).toBe(true)
  })

  test('ends with the signal', async () => {
    const abort = new AbortController()
    const changes = cells.changes({ id: bench.cell }, { signal: abort.signal })
    await changes.next()
    const waiting = changes.next()
    abort.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
  })
})
