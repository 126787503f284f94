import { once } from 'node:events'
import net from 'node:net'
import { describe, expect, test } from 'vitest'
import { connectionsFor } from '../../src/base/machine/descriptor-limit.ts'
import type { NodeServerOptions } from '../../src/http/server/node-server.ts'
import type { CellService } from '../../src/service/cell-service.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { answersIn, exchange, type WireAnswer } from '../support/http/wire.ts'
import { entryMissing } from '../support/request-bounds.ts'
import { checkEveryReply, checkProblem } from './rows/row.ts'

/** Nothing waits for ever (invariant 13): what a connection may take, and what it is told when it takes more. */

const bench = Bench.perTest(viaFetch)
const start = async (options?: NodeServerOptions) => (await bench.listen(options)).port
const head = (method: string, url: string, ...headers: string[]) => bench.head(method, url, ...headers)
const put = (...headers: string[]) =>
  head('PUT', '/v1/databases/{cell}/kv/k', 'Content-Type: application/json', ...headers)
const get = (...headers: string[]) => head('GET', '/v1/databases/{cell}/kv/k', ...headers)

/** Checks a refusal as any other answer is checked. */
function checkRefusal(answer: WireAnswer | undefined, status: number, code: string, more = {}): void {
  if (answer === undefined) throw new Error('There is no answer')
  const reply = { ...answer, text: answer.body, json: JSON.parse(answer.body) }
  checkEveryReply(reply, bench, { method: '', path: '' })
  checkProblem(reply, status, { code: code as 'busy', ...more })
  expect(answer.headers.get('connection')).toBe('close')
  expect(bench.logged).toEqual([])
}

const soon = { headersMs: 50, requestMs: 60 }

describe('what never becomes a request is answered like every other error, and its connection closed:', () => {
  const CASES: [what: string, send: () => string, status: number, code: string][] = [
    ['no headers in time', () => 'GET /healthz HTTP/1.1\r\n', 408, 'request_timeout'],
    ['nothing in time', () => '', 408, 'request_timeout'],
    ['no body in time', () => put('Content-Length: 10'), 408, 'request_timeout'],
    [
      'a target that is too long',
      () => `GET /${'x'.repeat(20_000)} HTTP/1.1\r\n\r\n`,
      431,
      'headers_too_large',
    ],
    ['a header that is too long', () => get(`X: ${'x'.repeat(20_000)}`), 431, 'headers_too_large'],
    [
      'headers that are too many',
      () => get(...Array.from({ length: 3_000 }, (_, i) => `X-${i}: x`)),
      431,
      'headers_too_large',
    ],
    ['no HTTP', () => 'hello\r\n\r\n', 400, 'invalid_request'],
    [
      'extensions of a chunk that are too long',
      () => `${put('Transfer-Encoding: chunked')}5;${'x'.repeat(20_000)}\r\nhello\r\n`,
      413,
      'body_too_large',
    ],
  ]
  test.each(CASES)('%s', async (_what, send, status, code) => {
    const port = await start({ connections: status === 408 ? soon : {} })
    const answers = answersIn(await exchange(port, send()).ended)
    expect(answers).toHaveLength(1)
    checkRefusal(answers[0], status, code)
  })
})

test('a client that goes in the middle of its headers is told nothing: nobody reads it', async () => {
  const port = await start()
  const { socket, ended } = exchange(port, 'GET /healthz HTTP/1.1\r\nHo')
  socket.end()
  expect(await ended).toBe('')
})

describe('an answer that is due comes first', () => {
  /** A cell that answers when it is told to. */
  function gated() {
    let release: () => void = () => {}
    const released = new Promise<void>((resolve) => {
      release = resolve
    })
    const service = { execute: () => released.then(entryMissing) } as unknown as CellService
    return { service, release }
  }

  test('then that of the bytes behind it, which are no request', async () => {
    const { service, release } = gated()
    const port = await start({ service })
    const { ended } = exchange(port, `${get()}${get()}nonsense\r\n\r\n`)
    await new Promise((resolve) => setTimeout(resolve, 30))
    release()
    const answers = answersIn(await ended)
    expect(answers.map(({ status }) => status)).toEqual([404, 404, 400])
    checkRefusal(answers[2], 400, 'invalid_request')
  })

  test('and the only one, if the body that it did not wait for breaks off', async () => {
    const port = await start()
    const unauthorized = put('Transfer-Encoding: chunked').replace(/cell_sk_\w+/, 'none')
    const { socket, ended } = exchange(port, unauthorized)
    await once(socket, 'data')
    socket.write('no chunk\r\n')
    expect(answersIn(await ended).map(({ status }) => status)).toEqual([401])
  })
})

describe('connections', () => {
  test('beyond the bound are told so, some of them, and closed', async () => {
    const port = await start({ connections: { connectionsMax: 2 } })
    const inside = [exchange(port, get()), exchange(port, get())]
    await Promise.all(inside.map(({ socket }) => once(socket, 'data')))
    const outside = Array.from({ length: 20 }, () => exchange(port, ''))
    let closed = 0
    await new Promise<void>((resolve) => {
      for (const { ended } of outside) ended.then(() => ++closed === 12 && resolve())
    })
    for (const { socket } of outside) if (!socket.destroyed) socket.write(get())
    const told = (await Promise.all(outside.map(({ ended }) => ended))).flatMap(answersIn)
    for (const answer of told) checkRefusal(answer, 503, 'busy', { limit: 2 })
    expect(told).toHaveLength(8)
    for (const { socket } of inside) socket.end()
    await Promise.all(inside.map(({ ended }) => ended))
    expect(answersIn(await exchange(port, get('Connection: close')).ended)[0]?.status).toBe(404)
  })

  test('with a request that has a body are told so too', async () => {
    const port = await start({ connections: { connectionsMax: 1 } })
    const first = exchange(port, get())
    await once(first.socket, 'data')
    const second = exchange(port, put('Content-Length: 100000'))
    await once(second.socket, 'data')
    second.socket.write('x'.repeat(100_000))
    checkRefusal(answersIn(await second.ended)[0], 503, 'busy', { limit: 1 })
    first.socket.destroy()
  })

  test('are as many by default as the descriptors allow beside the open cells', () => {
    expect(connectionsFor(1_000, 1_048_576)).toBe(10_000)
    expect(connectionsFor(128, 1_024)).toBe(256)
    expect(connectionsFor(16, 256)).toBe(64)
    expect(connectionsFor(1_000, Number.POSITIVE_INFINITY)).toBe(10_000)
    expect(connectionsFor(128, 1_024, 2)).toBe(128)
  })

  test('that idle are ended', async () => {
    const port = await start({ connections: { keepAliveMs: 50 } })
    expect(answersIn(await exchange(port, get()).ended)[0]?.status).toBe(404)
  })

  test('end with the last request that they may have', async () => {
    // The bound ends it, and not the time that an idle one may stay.
    const port = await start({ connections: { requestsMax: 2, keepAliveMs: 600_000 } })
    const { socket, ended } = exchange(port, get())
    await once(socket, 'data')
    socket.write(get())
    const answers = answersIn(await ended)
    expect(answers.map(({ headers }) => headers.get('connection'))).toEqual(['keep-alive', 'close'])
    const sentAtOnce = answersIn(await exchange(port, get().repeat(3)).ended)
    expect(sentAtOnce.map(({ headers }) => headers.get('connection'))).toEqual(['keep-alive', 'close'])
  })

  test('of a client that takes nothing of its answer are ended', async () => {
    const port = await start({ connections: { stalledMs: 100 } })
    bench.store.openCell(bench.cell).kv.put('k', 'v'.repeat(1_000_000))
    const socket = net.connect(port, '127.0.0.1').on('error', () => {})
    socket.write(get().repeat(50))
    socket.pause()
    // Who reads nothing learns of the end only when they write; and what they write counts as life for a while.
    const poke = setInterval(() => socket.write('\r\n'), 500)
    await new Promise((resolve) => socket.once('close', resolve))
    clearInterval(poke)
  })

  test('of a client that waits for its answer are not', async () => {
    const service = {
      execute: () => new Promise((resolve) => setTimeout(resolve, 300)).then(entryMissing),
    } as unknown as CellService
    const port = await start({ service, connections: { stalledMs: 50 } })
    expect(answersIn(await exchange(port, get('Connection: close')).ended)[0]?.status).toBe(404)
  })

  test('that are reset after a CONNECT end nothing but themselves', async () => {
    const port = await start()
    const sockets = Array.from({ length: 20 }, () =>
      exchange(port, 'CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n'),
    )
    await Promise.all(
      sockets.map(async ({ socket, ended }) => {
        await once(socket, 'data')
        socket.resetAndDestroy()
        await ended
      }),
    )
    // The server's side of a reset comes before a connection that is made after it.
    expect(answersIn(await exchange(port, get('Connection: close')).ended)[0]?.status).toBe(404)
  })

  test('take a key of 1,024 bytes, encoded', async () => {
    const port = await start()
    const key = encodeURIComponent('é'.repeat(512))
    const { ended } = exchange(port, head('GET', `/v1/databases/{cell}/kv/${key}`, 'Connection: close'))
    expect(await ended).toMatch(/"code":"key_not_found"/)
  })
})
