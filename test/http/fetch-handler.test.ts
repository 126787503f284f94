import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import { LINGER_BYTES_MAX } from '../../src/http/server/linger.ts'
import { Bench } from '../support/http/bench.ts'
import { LingerClock } from '../support/http/stepped-clock.ts'
import { viaFetch } from '../support/http/transports.ts'

/** What only a Fetch body shows: it is a stream, which can stall, fail, or be read by someone else. */

let bench: Bench
let clock: LingerClock
let handler: (request: Request) => Promise<Response>

beforeEach(async () => {
  clock = new LingerClock()
  bench = await Bench.open(viaFetch, { store: { clock } })
  const logger = { error: (fields: object) => void bench.logged.push(fields as Record<string, unknown>) }
  handler = createHandler(bench.store, { logger })
})
afterEach(() => bench.close())

function put(body: ReadableStream<Uint8Array> | string, headers: Record<string, string> = {}): Request {
  return new Request(bench.fill('http://x/v1/databases/{cell}/kv/k'), {
    method: 'PUT',
    headers: { 'x-api-key': bench.key, 'content-type': 'application/json', ...headers },
    body,
    duplex: 'half',
  } as RequestInit)
}

/** A stream of chunks, made as they are asked for. */
function stream(chunks: Iterable<string>, end: 'close' | 'stall' | 'fail' = 'close') {
  const iterator = chunks[Symbol.iterator]()
  const state = { bytes: 0, cancelled: false }
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      const { value, done } = iterator.next()
      if (!done) {
        state.bytes += value.length
        controller.enqueue(new TextEncoder().encode(value))
      } else if (end === 'close') controller.close()
      else if (end === 'fail') controller.error(new Error('the client went away'))
      else return new Promise(() => {})
      return undefined
    },
    cancel() {
      state.cancelled = true
    },
  })
  return { body, state }
}

function* repeat(text: string, count: number): Iterable<string> {
  for (let i = 0; i < count; i++) yield text
}

test('a body in pieces is read whole', async () => {
  const response = await handler(put(stream(['{"val', 'ue":', '"v"}']).body))
  expect(await response.json()).toMatchObject({ key: 'k', created: true })
})

test('a body that fails changes nothing, and is no bug', async () => {
  const response = await handler(put(stream(['{"value":'], 'fail').body))
  expect(response.status).toBe(400)
  expect(bench.logged).toEqual([])
})

test('a body that was read before is reported as a mistake of the embedding program', async () => {
  const request = put('{"value":"v"}')
  await request.text()
  expect((await handler(request)).status).toBe(500)
  expect(String(bench.logged[0]?.['err'])).toContain('was read before')
})

test('a fragment is no part of the path', async () => {
  const response = await handler(new Request('http://x/healthz#fragment'))
  expect(response.status).toBe(200)
})

test('what a URL parser takes for dots never gets here as a key', async () => {
  const url = bench.fill('http://x/v1/databases/{cell}/kv/%2e%2e')
  const response = await handler(new Request(url, { headers: { 'x-api-key': bench.key } }))
  expect(await response.json()).toMatchObject({ status: 404, code: 'not_found' })
})

describe('after an early answer the body', () => {
  test('is read to its end', async () => {
    const { body, state } = stream(repeat('x'.repeat(65_536), 100))
    expect((await handler(put(body, { 'x-api-key': 'none' }))).status).toBe(401)
    expect(state).toEqual({ bytes: 6_553_600, cancelled: false })
    expect(clock.deadlines).toEqual([])
  })

  test('is read for no more than 16 MiB', async () => {
    const { body, state } = stream(repeat('x'.repeat(65_536), 1_000_000))
    expect((await handler(put(body))).status).toBe(413)
    expect(state.cancelled).toBe(true)
    expect(state.bytes).toBeGreaterThan(LINGER_BYTES_MAX)
    expect(state.bytes).toBeLessThan(LINGER_BYTES_MAX + 3_000_000)
  })

  test('is waited for no longer than 5 seconds', async () => {
    const { body, state } = stream(['x'], 'stall')
    const answered = handler(put(body, { 'x-api-key': 'none' }))
    while (clock.deadlines.length === 0) await new Promise((resolve) => setImmediate(resolve))
    clock.deadlines[0]?.()
    expect((await answered).status).toBe(401)
    expect(state.cancelled).toBe(true)
  })

  test('may fail', async () => {
    const { body } = stream(['x'], 'fail')
    expect((await handler(put(body, { 'x-api-key': 'none' }))).status).toBe(401)
  })
})
