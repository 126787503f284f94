import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { serve } from '@hono/node-server'
import express, { type Express } from 'express'
import { Hono } from 'hono'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import { createListener } from '../../src/http/server/node-listener.ts'
import type { CellStore } from '../../src/store/cell-store.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { thrownBy } from '../support/thrown.ts'

interface Served {
  /** Where `/v1` is. */
  base: string
  /** The framework took its prefix off where the handler can't see it: links lack it. */
  prefixLost?: boolean
  close(): Promise<void>
}

async function listen(server: http.Server): Promise<Served> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { base: `http://127.0.0.1:${port}`, close: () => end(server) }
}

function end(server: http.Server): Promise<void> {
  server.closeAllConnections()
  return new Promise((resolve) => server.close(() => resolve()))
}

const withExpress =
  (set: (app: Express) => void, prefix = '') =>
  async () => {
    const app = express()
    set(app)
    const served = await listen(http.createServer(app))
    return { ...served, base: served.base + prefix }
  }

async function withHono(app: Hono, prefix = ''): Promise<Served> {
  const server = await new Promise<http.Server>((resolve) => {
    const started = serve({ fetch: app.fetch, hostname: '127.0.0.1', port: 0 }, () =>
      resolve(started as http.Server),
    )
  })
  const { port } = server.address() as AddressInfo
  return { base: `http://127.0.0.1:${port}${prefix}`, close: () => end(server) }
}

/** Each way of wrapping: the name, whether integers keep all their digits, and how it is done. */
const WRAPPINGS: [name: string, exact: boolean, host: (store: CellStore) => Promise<Served>][] = [
  ['plain node:http', true, (store) => listen(http.createServer(createListener(store)))],
  [
    'plain node:http, below a base path',
    true,
    async (store) => {
      const served = await listen(http.createServer(createListener(store, { basePath: '/api/cells' })))
      return { ...served, base: `${served.base}/api/cells` }
    },
  ],
  [
    'Hono',
    true,
    (store) => {
      const handler = createHandler(store)
      return withHono(new Hono().all('/v1/*', (c) => handler(c.req.raw)))
    },
  ],
  [
    'Hono, mounted',
    true,
    async (store) => {
      const served = await withHono(new Hono().mount('/api', createHandler(store)), '/api')
      return { ...served, prefixLost: true }
    },
  ],
  [
    'Hono, below a base path',
    true,
    (store) => {
      const handler = createHandler(store, { basePath: '/api' })
      return withHono(
        new Hono().all('/api/*', (c) => handler(c.req.raw)),
        '/api',
      )
    },
  ],
  ['Express', true, (store) => withExpress((app) => app.use(createListener(store)))()],
  [
    'Express, mounted',
    true,
    (store) => withExpress((app) => app.use('/api', createListener(store)), '/api')(),
  ],
  [
    'Express, below a base path',
    true,
    (store) =>
      withExpress((app) => app.all('/api/*splat', createListener(store, { basePath: '/api' })), '/api')(),
  ],
  [
    'Express behind express.json()',
    false,
    (store) => withExpress((app) => app.use(express.json({ limit: '2mb' }), createListener(store)))(),
  ],
  [
    'Express behind express.text()',
    true,
    (store) =>
      withExpress((app) => app.use(express.text({ type: '*/*', limit: '3mb' }), createListener(store)))(),
  ],
  [
    'Express behind express.raw()',
    true,
    (store) =>
      withExpress((app) => app.use(express.raw({ type: '*/*', limit: '3mb' }), createListener(store)))(),
  ],
]

describe.each(WRAPPINGS)('%s', (name, exact, host) => {
  const decodes = name.startsWith('Express behind')
  let bench: Bench
  let served: Served
  beforeAll(async () => {
    bench = await Bench.open(viaFetch)
    served = await host(bench.store)
  })
  afterAll(async () => {
    await served.close()
    await bench.close()
  })

  async function send(
    method: string,
    path: string,
    raw?: string | null,
    headers: Record<string, string> = {},
  ) {
    const response = await fetch(served.base + bench.fill(path), {
      method,
      headers: {
        'x-api-key': bench.key,
        ...(raw == null ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(raw == null ? {} : { body: raw }),
    })
    return {
      status: response.status,
      headers: response.headers,
      json: (await response.json()) as Record<string, unknown>,
    }
  }
  const sql = (params: string) =>
    send('POST', '/v1/databases/{cell}/sql', `{"sql":"SELECT ?1 AS v, typeof(?1) AS t","params":${params}}`)

  test('makes a cell, and its Location leads there', async () => {
    for (const raw of [null, '{}']) {
      const { status, headers, json } = await send('POST', '/v1/databases', raw)
      expect({ status, json }).toEqual({
        status: 201,
        json: { id: expect.any(String), name: null, created_at: '2026-11-21T02:02:13.123Z' },
      })
      const location = headers.get('location') ?? ''
      const url = served.prefixLost ? served.base + location : new URL(location, served.base)
      const response = await fetch(url, { headers: { 'x-api-key': bench.key } })
      expect(await response.json()).toMatchObject({ id: json['id'] })
    }
  })

  test('a body in gzip is taken where the framework decodes it, and refused by name elsewhere', async () => {
    const response = await fetch(served.base + bench.fill('/v1/databases/{cell}/sql'), {
      method: 'POST',
      headers: { 'x-api-key': bench.key, 'content-type': 'application/json', 'content-encoding': 'gzip' },
      body: gzipSync('{"sql":"SELECT 5 AS v"}'),
    })
    expect([response.status, await response.json()]).toEqual(
      decodes
        ? [200, expect.objectContaining({ rows: [{ v: 5 }] })]
        : [415, expect.objectContaining({ detail: expect.stringContaining('Content-Encoding: gzip') })],
    )
  })

  test('runs SQL', async () => {
    expect(await sql('{"1":5}')).toMatchObject({ status: 200, json: { rows: [{ v: 5, t: 'integer' }] } })
  })

  test(
    exact
      ? 'keeps every digit of an integer'
      : 'refuses an integer that was rounded on the way, and names the form that is not',
    async () => {
      const { status, json } = await sql('{"1":9007199254740993}')
      if (exact)
        expect({ status, json }).toMatchObject({ status: 200, json: { rows: [{ v: '9007199254740993' }] } })
      else {
        expect(status).toBe(400)
        expect(json).toMatchObject({ code: 'invalid_parameter', field: 'params.1' })
        expect(json['detail']).toContain('{"type":"integer","value":"…"}')
        const typed = await sql('{"1":{"type":"integer","value":"9007199254740993"}}')
        expect(typed).toMatchObject({ status: 200, json: { rows: [{ v: '9007199254740993' }] } })
      }
      const incr = await send(
        'POST',
        '/v1/databases/{cell}/kv/ops/incr',
        '{"key":"n","delta":9007199254740993}',
      )
      expect(incr).toMatchObject(
        exact
          ? { status: 200, json: { value: '9007199254740993' } }
          : {
              status: 400,
              json: {
                code: 'invalid_request',
                field: 'delta',
                detail: expect.stringContaining('{"type":"integer"'),
              },
            },
      )
    },
  )

  test.each(['a%2Fb', 'a:b', '%2541', 'caf%C3%A9', 'a+b', '%F0%9F%98%80'])(
    'decodes the key %s once',
    async (key) => {
      const put = await send('PUT', `/v1/databases/{cell}/kv/${key}`, '{"value":"v","ttl_seconds":60}')
      expect(put).toMatchObject({ status: 200, json: { key: decodeURIComponent(key), created: true } })
      const get = await send('GET', `/v1/databases/{cell}/kv/${key}`)
      expect(get).toMatchObject({
        status: 200,
        json: { key: decodeURIComponent(key), value: 'v', ttl_seconds: 60 },
      })
      expect((await send('DELETE', `/v1/databases/{cell}/kv/${key}`)).json).toMatchObject({ deleted: true })
    },
  )

  test('reads the query', async () => {
    await send(
      'POST',
      '/v1/databases/{cell}/kv/ops/mset',
      '{"entries":[{"key":"q/1","value":"1"},{"key":"q/2","value":"2"}]}',
    )
    const { json } = await send('GET', '/v1/databases/{cell}/kv?prefix=q%2F&limit=1&values')
    expect(json).toMatchObject({ entries: [{ key: 'q/1', value: '1' }] })
  })

  test('refuses what is refused anywhere', async () => {
    expect(await send('GET', '/v1/nothing')).toMatchObject({ status: 404, json: { code: 'not_found' } })
    expect(await send('PATCH', '/v1/databases')).toMatchObject({ status: 405 })
    expect(await send('GET', '/v1/databases', null, { 'x-api-key': 'x' })).toMatchObject({ status: 401 })
    expect(await send('POST', '/v1/databases', '{}', { 'content-type': 'text/plain' })).toMatchObject({
      status: 415,
    })
    expect(await send('POST', '/v1/databases/{cell}/sql', '{}')).toMatchObject({
      status: 400,
      json: { field: 'sql' },
    })
  })

  test('makes a backup, of an empty body', async () => {
    expect(await send('POST', '/v1/databases/{cell}/backup')).toMatchObject({
      status: 200,
      json: { kind: 'snapshot' },
    })
  })

  test('reaches a client that sends more than it may', async () => {
    const raw = `{"padding":"${'x'.repeat(2_500_000)}"}`
    const response = await fetch(`${served.base}/v1/databases`, {
      method: 'POST',
      headers: { 'x-api-key': bench.key, 'content-type': 'application/json' },
      body: raw,
    })
    expect(response.status).toBe(413)
    await response.body?.cancel()
  })
})

test('a body that was read and thrown away is reported as a mistake of the embedding program', async () => {
  const bench = await Bench.open(viaFetch)
  const logged: Record<string, unknown>[] = []
  const listener = createListener(bench.store, {
    logger: { error: (fields) => void logged.push(fields as Record<string, unknown>) },
  })
  const served = await listen(
    http.createServer((request, response) => {
      request.on('data', () => {}).on('end', () => listener(request, response))
    }),
  )
  const response = await fetch(`${served.base}/v1/databases`, {
    method: 'POST',
    headers: { 'x-api-key': bench.key, 'content-type': 'application/json' },
    body: '{}',
  })
  expect(response.status).toBe(500)
  expect(String(logged[0]?.['err'])).toContain('was read before')
  await served.close()
  await bench.close()
})

test.each(['text', 'raw'] as const)('a body that express.%s() has read is still bounded', async (reader) => {
  const bench = await Bench.open(viaFetch)
  const read = express[reader]({ type: '*/*', limit: '5mb' })
  const served = await withExpress((app) => app.use(read, createListener(bench.store)))()
  const send = async (size: number) => {
    const body = new Blob(['{"padding":"', 'x'.repeat(size - 14), '"}']).stream()
    const init = { method: 'POST', body, duplex: 'half' } as RequestInit
    const headers = { 'x-api-key': bench.key, 'content-type': 'application/json' }
    return (await fetch(`${served.base}/v1/databases`, { ...init, headers })).status
  }
  expect(await send(2_097_152)).toBe(201)
  expect(await send(2_097_153)).toBe(413)
  await served.close()
  await bench.close()
})

test.each(['api', '/api/', '//', '/a?b', 'https://x/api'])(
  'a base path of %j is refused at once',
  async (basePath) => {
    const bench = await Bench.open(viaFetch)
    for (const make of [createHandler, createListener]) {
      const error = thrownBy(() => make(bench.store, { basePath }))
      expect(error).toMatchObject({ code: 'invalid_setting', details: { field: 'basePath' } })
    }
    await bench.close()
  },
)
