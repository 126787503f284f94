import { once } from 'node:events'
import type net from 'node:net'
import { expect, test, vi } from 'vitest'
import { createClient } from '../../src/client/index.ts'
import { countOf } from '../support/counts.ts'
import { openIdle, Victim } from '../support/http/victim.ts'
import { answersIn, exchange } from '../support/http/wire.ts'
import { hasNginx } from '../support/nginx.ts'
import { until } from '../support/until.ts'

/**
 * Debian's nginx, as deploy/nginx.conf sets it up, in front of a node: what the node leaves to a proxy, the proxy does. Each attack
 * comes from an address of its own, and another one's ordinary requests succeed meanwhile.
 */

const IDLE = 10 * countOf('CELLSTORE_TEST_IDLE_SOCKETS')
const SLOW = 4 * countOf('CELLSTORE_TEST_SLOW_SOCKETS')
const ATTACKER = '127.0.0.2'
const OF_AN_ADDRESS = 256
/** In place of 10 s: what nginx does then is the same. */
const SOON: [string, string][] = [
  ['client_header_timeout 10s', 'client_header_timeout 2s'],
  ['client_body_timeout 10s', 'client_body_timeout 2s'],
]
const MIB = 1_048_576
const JSON_TYPE = 'Content-Type: application/json'

vi.setConfig({ testTimeout: 120_000 })

const whereInstalled = test.skipIf(!hasNginx)
if (!hasNginx) console.warn('There is no nginx on this machine: the tests of deploy/nginx.conf are skipped.')

/** Requests that came to the node, by its log. */
function reached(victim: Victim, route: string): number {
  return victim.node.stderr.split(`"route":"${route}"`).length - 1
}

function many<T>(count: number, make: (index: number) => T): T[] {
  return Array.from({ length: count }, (_, index) => make(index))
}

whereInstalled(
  'heads and bodies that trickle in end in their time, and no byte of them comes to the node',
  async () => {
    const victim = await Victim.behindNginx(SOON, '--log-level', 'debug')
    const sql = `/v1/databases/${victim.cell}/sql`
    const half = victim.head('POST', sql, JSON_TYPE, 'Content-Length: 100000') + ' '.repeat(50_000)
    const heads = many(SLOW, () => exchange(victim.port, 'GET /healthz HTTP/1.1\r\nX-', ATTACKER))
    const bodies = many(SLOW, () => exchange(victim.port, half, ATTACKER))
    for (const { ended } of [...heads, ...bodies]) expect(await ended).not.toMatch(/^HTTP\/1\.1 200/)
    expect(reached(victim, '/v1/databases/{id}/sql') + reached(victim, '/healthz')).toBe(0)
    console.info(`slow requests through nginx: ${SLOW} heads, ${SLOW} bodies; ${await victim.check()}`)
  },
)

whereInstalled(`${IDLE} connections that say nothing are closed in their time`, async () => {
  const victim = await Victim.behindNginx(SOON)
  const opened: Promise<net.Socket | undefined>[] = []
  for (let i = 0; i < IDLE; i += 100) {
    opened.push(...many(100, () => openIdle(victim.port, ATTACKER)))
    await Promise.all(opened)
  }
  const sockets = (await Promise.all(opened)).filter((socket) => socket !== undefined)
  expect(sockets).toHaveLength(IDLE)
  await Promise.all(sockets.map(async (socket) => socket.destroyed || (await once(socket.resume(), 'close'))))
  console.info(`idle connections to nginx: ${IDLE}; ${await victim.check()}`)
})

whereInstalled(
  'many requests in one go on each of many connections are answered, each in its turn',
  async () => {
    const victim = await Victim.behindNginx()
    const requests = 'GET /v1/databases HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(50)
    const last = 'GET /v1/databases HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n'
    const all = await Promise.all(
      many(40, async () => answersIn(await exchange(victim.port, requests + last, ATTACKER).ended)),
    )
    const statuses = new Set(all.flat().map(({ status }) => status))
    expect([...statuses]).toEqual([401])
    expect(all.map((answers) => answers.length)).toEqual(all.map(() => 51))
    console.info(`pipelined through nginx: ${all.length * 51}; ${await victim.check()}`)
  },
)

whereInstalled('answers that nobody takes wait in the proxy, and leave the node its room', async () => {
  const victim = await Victim.behindNginx()
  const sql = JSON.stringify({
    sql: "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 9) SELECT printf('%*c', 1000000, 'x') FROM r",
  })
  const request =
    victim.head('POST', `/v1/databases/${victim.cell}/sql`, JSON_TYPE, `Content-Length: ${sql.length}`) + sql
  const unread = many(30, () => {
    const { socket } = exchange(victim.port, request, ATTACKER)
    socket.once('data', () => socket.pause())
    return once(socket, 'data')
  })
  for (const began of await Promise.all(unread)) expect(String(began[0])).toMatch(/^HTTP\/1\.1 200/)
  // The node has sent all of them, and would have room for six.
  expect(await answer(victim, '/v1/databases')).toMatchObject({ status: 200 })
  console.info(`unread answers of 9 MB behind nginx: 30; ${await victim.check()}`)
})

/** An ordinary request, from another address than that of the attacks. */
async function answer(victim: Victim, path: string, from?: string) {
  const bytes = victim.head('GET', path, 'Connection: close')
  const [only] = answersIn(await exchange(victim.port, bytes, from).ended)
  return only
}

whereInstalled('an address has so many requests under way, and a problem document says so', async () => {
  const victim = await Victim.behindNginx()
  const watch = victim.head('GET', `/v1/databases/${victim.cell}/changes`)
  const body = victim.head('PUT', victim.kv('k'), JSON_TYPE, 'Content-Length: 10')
  const held = many(OF_AN_ADDRESS, (i) => exchange(victim.port, i < 50 ? watch : body, ATTACKER))
  await until(async () => {
    if ((await answer(victim, '/healthz', ATTACKER))?.status === 429) return true
    // On a busy machine some of the others have ended before the last one came.
    held.push(exchange(victim.port, body, ATTACKER))
    return false
  }, 'the bound is reached')
  const refused = await answer(victim, '/healthz', ATTACKER)
  expect(refused?.headers.get('content-type')).toBe('application/problem+json')
  expect(refused?.headers.get('retry-after')).toBe('1')
  expect(JSON.parse(refused?.body ?? '')).toMatchObject({ status: 429, code: 'rate_limited' })
  for (const { socket } of held) socket.destroy()
  await until(async () => (await answer(victim, '/healthz', ATTACKER))?.status === 200, 'it has room again')
  console.info(`requests of an address under way: ${OF_AN_ADDRESS}; ${await victim.check()}`)
})

whereInstalled(
  'what is too large is refused with the problem document of the node, or else of the proxy',
  async () => {
    const victim = await Victim.behindNginx()
    const put = (length: string) => victim.head('PUT', victim.kv('k'), JSON_TYPE, 'Connection: close', length)
    const chunk = `10000\r\n${'x'.repeat(65_536)}\r\n`
    const CASES: [bytes: string, status: number, code: string, by: string][] = [
      [put('Content-Length: 3000000') + 'x'.repeat(3_000_000), 413, 'body_too_large', 'http.bodyBytesMax'],
      [
        `${put('Transfer-Encoding: chunked')}${chunk.repeat(40)}0\r\n\r\n`,
        413,
        'body_too_large',
        'http.bodyBytesMax',
      ],
      [put(`Content-Length: ${17 * MIB}`), 413, 'body_too_large', 'proxy'],
      [
        victim.head('GET', victim.kv('k'.repeat(20_000)), 'Connection: close'),
        431,
        'headers_too_large',
        'headerBytesMax',
      ],
      [
        victim.head('GET', victim.kv('k'.repeat(40_000)), 'Connection: close'),
        431,
        'headers_too_large',
        'proxy',
      ],
      [victim.head('GET', '/healthz', `X: ${'x'.repeat(40_000)}`), 431, 'headers_too_large', 'proxy'],
      ['hello\r\n\r\n', 400, 'invalid_request', 'proxy'],
    ]
    for (const [bytes, status, code, by] of CASES) {
      const [only] = answersIn(await exchange(victim.port, bytes, ATTACKER).ended)
      expect([only?.status, only?.headers.get('content-type')]).toEqual([status, 'application/problem+json'])
      expect(JSON.parse(only?.body ?? '')).toMatchObject({
        status,
        code,
        detail: expect.stringContaining(by),
      })
    }
    console.info(`too large for nginx or the node: ${CASES.length} kinds; ${await victim.check()}`)
  },
)

whereInstalled('every kind of route works through it', async () => {
  const victim = await Victim.behindNginx()
  const cells = createClient({ baseUrl: `http://127.0.0.1:${victim.port}`, apiKey: victim.node.key })
  const { id } = await cells.createCell({ name: 'behind a proxy' })
  const keys = ['plain', 'a/b', '../x', 'é', 'a b', '%2F', 'a//b', '?#', 'x;y']
  for (const key of keys) await cells.kvPut({ id, key, value: key })
  for (const key of keys) expect(await cells.kvGet({ id, key })).toMatchObject({ key, value: key })

  const changes = cells.changes({ id })
  const first = changes.next()
  await cells.sql({ id, sql: 'CREATE TABLE t (x)' })
  await cells.sql({
    id,
    sql: 'INSERT INTO t WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r LIMIT 300) SELECT randomblob(100000) FROM r',
  })
  expect(await first).toMatchObject({ done: false })
  await changes.return(undefined)

  const exported = Buffer.from(await new Response(await cells.exportCell({ id })).arrayBuffer())
  expect(exported.length).toBeGreaterThan(30_000_000)
  const imported = await cells.importCell({ name: 'imported', file: exported })
  expect(await cells.sql({ id: imported.id, sql: 'SELECT count(*) AS n FROM t' })).toMatchObject({
    rows: [{ n: 300 }],
  })

  await cells.backup({ id })
  const restore = await fetch(`http://127.0.0.1:${victim.port}/v1/databases/${id}/restore`, {
    method: 'POST',
    headers: { 'x-api-key': victim.node.key, prefer: 'respond-async' },
  })
  expect([restore.status, restore.headers.get('preference-applied')]).toEqual([202, 'respond-async'])
  const status = `http://127.0.0.1:${victim.port}${restore.headers.get('location')}`
  await until(async () => {
    const shown = await fetch(status, { headers: { 'x-api-key': victim.node.key } })
    return ((await shown.json()) as { state: string }).state === 'succeeded'
  }, 'the restore has ended')
  console.info(`every kind of route through nginx; ${await victim.check()}`)
})
