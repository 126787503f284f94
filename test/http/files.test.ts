import fs from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import type { HandlerOptions } from '../../src/http/handler-options.ts'
import { createListener } from '../../src/http/server/node-listener.ts'
import { damaged, foreign, leftOvers } from '../support/database-files.ts'
import { Bench } from '../support/http/bench.ts'
import { viaFetch } from '../support/http/transports.ts'
import { until } from '../support/until.ts'

const SQLITE = 'application/vnd.sqlite3'

type Ask = (
  target: string,
  init?: RequestInit & { key?: string | null; duplex?: 'half' },
) => Promise<Response>

const SERVED = ['the fetch handler', 'the node:http listener'] as const

describe.each(SERVED)('databases as bodies, through %s', (served) => {
  let bench: Bench
  let ask: Ask
  let stop = async () => {}

  const open = async (options: HandlerOptions = {}, store = {}) => {
    bench = await Bench.open(viaFetch, { store })
    if (served === 'the fetch handler') {
      const handler = createHandler(bench.store, options)
      ask = (target, init) => handler(new Request(`http://cells.test${target}`, withKey(init)))
      return
    }
    const server = http.createServer(createListener(bench.store, options))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    ask = (target, init) => fetch(`http://127.0.0.1:${port}${target}`, withKey(init))
    stop = async () => {
      server.closeAllConnections()
      server.close()
    }
  }
  const withKey = ({ key, ...init }: RequestInit & { key?: string | null } = {}) => ({
    ...init,
    headers: { 'x-api-key': key ?? bench.key, ...init.headers },
  })
  const send = (file: string, target = '/v1/databases', headers = {}) =>
    ask(target, {
      method: 'POST',
      body: fs.readFileSync(file),
      headers: { 'content-type': SQLITE, ...headers },
    })

  test.each(['gzip', 'br'])(
    'a database with Content-Encoding %s is refused by the name of the encoding',
    async (encoding) => {
      const file = foreign('CREATE TABLE t (a)')
      const response = await send(file, '/v1/databases', { 'content-encoding': encoding })
      expect([response.status, await response.json()]).toEqual([
        415,
        expect.objectContaining({
          code: 'unsupported_media_type',
          detail: expect.stringContaining(`Content-Encoding: ${encoding}`),
        }),
      ])
      const plain = await send(file, '/v1/databases', { 'content-encoding': 'identity' })
      expect(plain.status).toBe(201)
    },
  )

  beforeEach(() => open())
  afterEach(async () => {
    await stop()
    await bench.close()
  })

  const cells = () => bench.store.cells().cells.length
  const left = () => leftOvers({ directory: path.join(bench.directory, 'data') }, cells())

  test('a cell is exported as a file, and the file makes a cell', async () => {
    const cell = bench.store.openCell(bench.cell)
    cell.exec('CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(200000));')
    cell.kv.put('k', 'v')
    const exported = await ask(`/v1/databases/${bench.cell}/export`)
    expect(exported.status).toBe(200)
    expect(Object.fromEntries(exported.headers)).toMatchObject({
      'content-type': SQLITE,
      'content-disposition': `attachment; filename="${bench.cell}.db"`,
      'cache-control': 'no-store',
    })
    const bytes = Buffer.from(await exported.arrayBuffer())
    expect(exported.headers.get('content-length')).toBe(String(bytes.length))
    const headers = { 'content-type': `${SQLITE}; charset=binary` }
    const made = await ask('/v1/databases?name=copy', { method: 'POST', body: bytes, headers })
    const document = (await made.json()) as { id: string }
    expect([made.status, document]).toMatchObject([201, { name: 'copy' }])
    expect(made.headers.get('location')).toBe(`/v1/databases/${document.id}`)
    const copy = bench.store.openCell(document.id)
    expect([copy.accountId, copy.kv.get('k')]).toEqual([bench.accountId, 'v'])
    expect(copy.get('SELECT length(a) AS n FROM t')).toEqual({ n: 200_000 })
    await until(() => left().length === 0, 'the spool is empty')
  })

  test('HEAD has the headers of an export, and leaves no file', async () => {
    const { status, headers } = await ask(`/v1/databases/${bench.cell}/export`, { method: 'HEAD' })
    expect([status, headers.get('content-type')]).toEqual([200, SQLITE])
    expect(Number(headers.get('content-length'))).toBeGreaterThan(4_096)
    await until(() => left().length === 0, 'the spool is empty')
  })

  test('a client that stops reading an export leaves no file, and its place is free again', async () => {
    await bench.close()
    await stop()
    await open({}, { quotas: { backupsAtOnce: 1 } })
    const cell = bench.store.openCell(bench.cell)
    cell.exec('CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(20000000));')
    const exported = await ask(`/v1/databases/${bench.cell}/export`)
    const second = await ask(`/v1/databases/${bench.cell}/export`)
    expect([second.status, ((await second.json()) as { code: string }).code]).toEqual([429, 'rate_limited'])
    await exported.body?.cancel()
    await until(() => left().length === 0, 'the spool is empty')
    const third = await ask(`/v1/databases/${bench.cell}/export`)
    expect(third.status).toBe(200)
    await third.arrayBuffer()
  })

  test('a key that is revoked gets no more of an export that it has begun', async () => {
    const cell = bench.store.openCell(bench.cell)
    cell.exec('CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(20000000));')
    const { id, key } = bench.store.apiKeys.create(bench.accountId)
    const exported = await ask(`/v1/databases/${bench.cell}/export`, { key })
    expect(exported.status).toBe(200)
    bench.store.apiKeys.revoke(bench.accountId, id)
    const outcome = await exported.arrayBuffer().then(
      () => 'whole',
      () => 'cut off',
    )
    expect(outcome).toBe('cut off')
    await until(() => left().length === 0, 'the spool is empty')
  })

  test('an account has no export of another one’s cell, and nobody without a key', async () => {
    const strangers = await ask(`/v1/databases/${bench.cell}/export`, { key: bench.strangerKey })
    expect(strangers.status).toBe(404)
    const file = foreign('CREATE TABLE t (a)')
    const unknown = await ask('/v1/databases', {
      method: 'POST',
      body: fs.readFileSync(file),
      headers: { 'content-type': SQLITE },
      key: 'cell_sk_no',
    })
    expect(unknown.status).toBe(401)
    expect(cells()).toBe(1)
  })

  test('what is wrong with a database is named', async () => {
    const problems: [Promise<Response>, number, string, RegExp][] = [
      [
        send(damaged(foreign('CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(9000))'))),
        422,
        'invalid_database',
        /damaged|cannot read/,
      ],
      [send(foreign('CREATE VIEW v AS SELECT * FROM _cell_kv')), 422, 'invalid_database', /"v"/],
      [send(foreign('CREATE TABLE t (a)'), '/v1/databases?nam=x'), 400, 'invalid_request', /name/],
      [
        send(foreign('CREATE TABLE t (a)'), '/v1/databases', { 'idempotency-key': 'x' }),
        400,
        'idempotency_not_supported',
        /name/,
      ],
      [
        send(foreign('CREATE TABLE t (a)'), `/v1/databases/${bench.cell}/sql`),
        415,
        'unsupported_media_type',
        /JSON/,
      ],
    ]
    for (const [answer, status, code, detail] of problems) {
      const document = (await (await answer).json()) as { code: string; detail: string }
      expect(document).toMatchObject({ status, code, detail: expect.stringMatching(detail) })
      expect(document.detail).not.toContain(bench.directory)
    }
    bench.store.cell('taken', { accountId: bench.accountId })
    const taken = await send(foreign('CREATE TABLE t (a)'), '/v1/databases?name=taken')
    expect(taken.status).toBe(409)
    expect(cells()).toBe(2)
    await until(() => left().length === 0, 'nothing is left')
  })

  test('an import is bounded by http.importBytesMax, whether or not its length is known', async () => {
    await bench.close()
    await stop()
    await open({ limits: { importBytesMax: 20_000 } })
    const file = foreign('CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(200000))')
    const known = await send(file)
    expect([known.status, await known.json()]).toMatchObject([413, { code: 'body_too_large', limit: 20_000 }])
    const body = new Blob([fs.readFileSync(file)]).stream()
    const headers = { 'content-type': SQLITE }
    const unknown = await ask('/v1/databases', { method: 'POST', body, headers, duplex: 'half' })
    expect([unknown.status, await unknown.json()]).toMatchObject([413, { code: 'body_too_large' }])
    expect(left()).toEqual([])
  })

  test('an import counts for the account’s bytes, and is refused beyond them', async () => {
    await bench.close()
    await stop()
    await open({}, { quotas: { bytesMax: 150_000 } })
    const file = foreign('CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(60000))')
    const statuses: number[] = []
    for (let i = 0; i < 4; i++) statuses.push((await send(file)).status)
    expect(statuses.slice(0, 1)).toEqual([201])
    expect([403, 413]).toContain(statuses.at(-1))
    expect(cells()).toBeLessThan(4)
  })

  test('imports at the same time share the account’s bytes', async () => {
    await bench.close()
    await stop()
    await open({}, { quotas: { bytesMax: 250_000 } })
    const file = foreign('CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(100000))')
    const answers = await Promise.all([1, 2, 3, 4].map(() => send(file)))
    const stored = bench.store.cells().cells.reduce((sum, { id }) => sum + bench.store.databaseBytes(id), 0)
    expect(stored).toBeLessThanOrEqual(250_000)
    const codes = answers
      .filter(({ status }) => status !== 201)
      .map(async (answer) => ((await answer.json()) as { code: string }).code)
    expect(new Set(await Promise.all(codes))).toEqual(new Set(['quota_exceeded']))
    await until(() => left().length === 0, 'nothing is left')
  })

  test('a database that grows as a cell is refused beyond the account’s bytes', async () => {
    await bench.close()
    await stop()
    await open({}, { quotas: { bytesMax: 150_000 } })
    const tables = Array.from({ length: 60 }, (_, i) => `CREATE TABLE t${i} (a);`)
    const refused = await send(foreign(tables.join(''), 'PRAGMA page_size = 512'))
    expect([refused.status, await refused.json()]).toMatchObject([
      403,
      { code: 'quota_exceeded', limit: 150_000 },
    ])
    expect(cells()).toBe(1)
    await until(() => left().length === 0, 'nothing is left')
  })

  test('an import whose key is revoked meanwhile makes no cell', async () => {
    const bytes = fs.readFileSync(foreign('CREATE TABLE t (a)'))
    const { id } = bench.store.apiKeys.list(bench.accountId)[0] as { id: string }
    const body = new ReadableStream({
      start: (controller) => controller.enqueue(bytes.subarray(0, 100)),
      pull(controller) {
        bench.store.apiKeys.revoke(bench.accountId, id)
        controller.enqueue(bytes.subarray(100))
        controller.close()
      },
    })
    const headers = { 'content-type': SQLITE }
    const answer = await ask('/v1/databases', { method: 'POST', body, headers, duplex: 'half' })
    expect(answer.status).toBe(401)
    expect(cells()).toBe(1)
    // The revocation is stored with the catalog, whose copy is in the spool for a moment.
    await until(() => left().length === 0, 'nothing is left')
  })
})
