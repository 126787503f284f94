import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { blob, bytesOf, type Client, createClient, integer, isProblem } from '../../src/client/index.ts'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import type { CellStore } from '../../src/store/cell-store.ts'
import { temporaryStore } from '../../src/testing/index.ts'

const BASE = 'http://cells.test/api'

interface Sent {
  method: string
  path: string
  key: string | null
  idempotencyKey: string | null
}

let store: CellStore
let cells: Client
let apiKey: string
/** What reached the server, in order. */
let sent: Sent[]
/** What is answered in the server's place; then the server answers. */
let instead: (() => Response | Promise<Response>)[]
let waits: number[]

beforeEach(async () => {
  const temporary = await temporaryStore()
  onTestFinished(() => temporary.close())
  store = temporary.store
  apiKey = store.apiKeys.create(store.accounts.create().id).key
  const handler = createHandler(store, { basePath: '/api' })
  sent = []
  instead = []
  waits = []
  cells = createClient({
    baseUrl: `${BASE}/`,
    apiKey,
    wait: async (ms) => void waits.push(ms),
    async fetch(url, init) {
      const request = new Request(url, init)
      const { method, headers } = request
      const path = url.slice(BASE.length)
      sent.push({
        method,
        path,
        key: headers.get('x-api-key'),
        idempotencyKey: headers.get('idempotency-key'),
      })
      return (await instead.shift()?.()) ?? handler(request)
    },
  })
})

const problem = (status: number, code: string, retryAfter?: string) => () =>
  new Response(
    JSON.stringify({ type: 'about:blank', title: 'x', status, detail: 'why', code, request_id: 'r' }),
    {
      status,
      headers: {
        'content-type': 'application/problem+json',
        ...(retryAfter === undefined ? {} : { 'retry-after': retryAfter }),
      },
    },
  )

describe('a call', () => {
  test('has its arguments in the path, the query and the body', async () => {
    const { id } = await cells.createCell({ name: 'acme' })
    expect(await cells.kvPut({ id, key: 'a/b c?', value: 'v', ttl_seconds: 60 })).toMatchObject({
      created: true,
    })
    const { entries } = await cells.kvList({ id, prefix: 'a/', values: true, limit: 5 })
    expect(entries).toMatchObject([{ key: 'a/b c?', value: 'v', ttl_seconds: 60 }])
    expect(sent.map(({ method, path }) => `${method} ${path}`)).toEqual([
      'POST /v1/databases',
      `PUT /v1/databases/${id}/kv/a%2Fb%20c%3F`,
      `GET /v1/databases/${id}/kv?prefix=a%2F&limit=5&values=true`,
    ])
  })

  test('has its key where the server looks for it', async () => {
    await cells.listCells()
    expect(sent).toMatchObject([{ key: apiKey }])
  })

  test('needs no arguments where none are needed', async () => {
    expect(await cells.readyz()).toEqual({ status: 'ready', damaged_backups: 0 })
    expect(await cells.createApiKey()).toMatchObject({ name: null })
  })

  test.each(['.', '..', ''])('with %j in its path is a mistake, before it is sent', async (key) => {
    await expect(cells.kvGet({ id: 'x', key })).rejects.toThrow(TypeError)
    expect(sent).toEqual([])
  })

  test('with an argument that the operation has not is a mistake', async () => {
    const args: { id: string } = { id: 'x', ...{ nmae: 'y' } }
    await expect(cells.getCell(args)).rejects.toThrow('nmae is not known; known are id.')
  })
})

describe('values', () => {
  test('of 64 bits and bytes go out and come back whole', async () => {
    const { id } = await cells.createCell()
    const bytes = Uint8Array.from({ length: 20_000 }, (_, i) => i % 256)
    const params = [integer(2n ** 63n - 1n), blob(bytes)]
    const { rows } = await cells.sql<{ n: string; b: { type: 'blob'; base64: string } }>({
      ...{ id, sql: 'SELECT ? AS n, ? AS b', params },
    })
    expect(rows[0]?.n).toBe('9223372036854775807')
    expect(bytesOf(rows[0]?.b as { type: 'blob'; base64: string })).toEqual(bytes)
    expect(await cells.kvIncr({ id, key: 'n', delta: integer(2n ** 60n) })).toMatchObject({
      value: `${2n ** 60n}`,
    })
  })
})

test('a read of what the caller has already is undefined', async () => {
  const { id } = await cells.createCell()
  const { version } = await cells.kvPut({ id, key: 'k', value: 'v' })
  const again = { headers: { 'if-none-match': `"${version}"` } }
  expect(await cells.kvGet({ id, key: 'k' }, again)).toBeUndefined()
  await cells.kvPut({ id, key: 'k', value: 'w' })
  expect(await cells.kvGet({ id, key: 'k' }, again)).toMatchObject({ value: 'w' })
})

describe('an error', () => {
  test('has the code, the status, the request id and the whole problem', async () => {
    const { id } = await cells.createCell()
    const error = await cells
      .kvPut({ id, key: 'k', value: 'v', ttl_seconds: 0 })
      .catch((error: unknown) => error)
    expect(isProblem(error, 'invalid_ttl')).toBe(true)
    expect(isProblem(error, 'invalid_key')).toBe(false)
    expect(error).toMatchObject({ code: 'invalid_ttl', status: 400, problem: { field: 'ttl_seconds' } })
    expect(error).toHaveProperty('requestId', expect.stringMatching(/\S/))
  })

  test('of something between is told apart', async () => {
    instead = [() => new Response('<html>Bad Gateway</html>', { status: 502 })]
    await expect(cells.listCells()).rejects.toThrow(
      'The server answered 502 without a problem document: <html>',
    )
  })
})

describe('a call that is refused for now', () => {
  test('waits as long as the server says, and is sent again', async () => {
    instead = [problem(429, 'rate_limited', '2'), problem(503, 'shutting_down', '1')]
    expect(await cells.listCells()).toMatchObject({ databases: [] })
    expect(waits).toEqual([2_000, 1_000])
  })

  test('is sent again as often as the options say', async () => {
    instead = Array.from({ length: 9 }, () => problem(503, 'busy', '1'))
    await expect(cells.listCells()).rejects.toMatchObject({ code: 'busy' })
    expect(sent).toHaveLength(4)
  })

  test('is not sent again if that takes too long', async () => {
    instead = [problem(503, 'cell_quarantined', '60')]
    await expect(cells.getCell({ id: 'x' })).rejects.toMatchObject({ code: 'cell_quarantined' })
    expect(waits).toEqual([])
  })

  test('that changes something is sent again only if its work had not begun', async () => {
    const { id } = await cells.createCell()
    instead = [problem(503, 'shutting_down', '1')]
    await expect(cells.kvIncr({ id, key: 'n' })).rejects.toMatchObject({ code: 'shutting_down' })
    instead = [problem(503, 'busy', '1')]
    expect(await cells.kvIncr({ id, key: 'n' })).toMatchObject({ value: 1 })
  })

  test('ends with its signal', async () => {
    const controller = new AbortController()
    const waiting = createClient({
      baseUrl: BASE,
      async fetch() {
        controller.abort(new Error('enough'))
        return problem(503, 'busy', '20')()
      },
    })
    await expect(waiting.listCells({}, { signal: controller.signal })).rejects.toThrow('enough')
  })
})

describe('a creation', () => {
  test('that is sent again makes one cell', async () => {
    instead = [problem(503, 'shutting_down', '1')]
    await cells.createCell({ name: 'acme' })
    expect(sent.map(({ idempotencyKey }) => idempotencyKey)).toEqual([
      sent[0]?.idempotencyKey,
      sent[0]?.idempotencyKey,
    ])
    expect(sent[0]?.idempotencyKey).toMatch(/^[0-9a-f-]{36}$/)
  })

  test('has a key of its own, unless the caller gives one', async () => {
    const [one, two] = [await cells.createCell(), await cells.createCell()]
    expect(one.id).not.toBe(two.id)
    const again = () => cells.createCell({ name: 'a' }, { idempotencyKey: 'acme-1' })
    expect(await again()).toEqual(await again())
  })
})

test('a cell is renamed, found by its name, exported, and imported from bytes, a blob and a stream', async () => {
  const { id } = await cells.createCell({ name: 'old' })
  await cells.kvPut({ id, key: 'k', value: 'v' })
  expect(await cells.renameCell({ id, name: 'acme' })).toMatchObject({ id, name: 'acme' })
  const { databases } = await cells.listCells({ name: 'acme' })
  expect(databases).toMatchObject([{ id, name: 'acme', size_bytes: expect.any(Number) }])
  const file = await cells.exportCell({ id })
  const bytes = new Uint8Array(await new Response(file).arrayBuffer())
  const files = { bytes, blob: new Blob([bytes]), stream: new Blob([bytes]).stream() }
  for (const [name, each] of Object.entries(files)) {
    const made = await cells.importCell({ file: each, name })
    expect(made).toMatchObject({ name })
    expect(await cells.kvGet({ id: made.id, key: 'k' })).toMatchObject({ value: 'v' })
  }
  const taken = cells.importCell({ file: bytes, name: 'acme' })
  await expect(taken).rejects.toSatisfy((error) => isProblem(error, 'name_taken'))
})

test.each([
  ['a URL that is none', 'not a url'],
  ['a URL without a scheme', 'localhost:8787'],
  ['another scheme', 'ftp://cells.example.com'],
  ['a relative URL where there is nothing it could belong to', '/api'],
  ['a URL with a password', 'http://ann:secret@cells.example.com'],
  ['nothing', undefined as unknown as string],
])('no client is made for %s', (_, baseUrl) => {
  expect(() => createClient({ baseUrl })).toThrow(TypeError)
  expect(() => createClient({ baseUrl })).toThrow('baseUrl must begin with http:// or https://')
})
