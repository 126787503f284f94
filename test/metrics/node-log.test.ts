import { describe, expect, test } from 'vitest'
import { channels } from '../../src/base/async/channels.ts'
import { systemClock } from '../../src/base/clock.ts'
import type { StoreFlags } from '../../src/cli/flags.ts'
import { connectNode } from '../../src/cli/owner/connect.ts'
import { SQLITE_TYPE } from '../../src/http/body/file-body.ts'
import { type LogLine, ObservedNode } from '../support/observed-node.ts'
import { until } from '../support/until.ts'

const NODES = [
  ['a node that runs its cells itself', 0],
  ['a node with workers', 1],
] as const
const CANARY = 'c4n4ry'
/** The canary as a number, for literals that can be nothing else. */
const NUMBER = 20_261_122_421
const UUID = /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/
/** Takes some milliseconds on any machine. */
const SLOW = `SELECT count(*) AS n FROM (WITH RECURSIVE c(i) AS
  (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 300000) SELECT i FROM c WHERE i <> '${CANARY}' AND i <> ${NUMBER})`

/** Every line, as it was written. */
const textOf = (lines: readonly LogLine[]) => lines.map((line) => JSON.stringify(line)).join('\n')

describe.each(NODES)('the log of %s', (_, workers) => {
  test('has a line with account, cell and request id for each backup, restore, deletion and change of a key', async () => {
    const node = await ObservedNode.start(workers)
    const [first] = (await node.request('GET', '/v1/api-keys')).body as unknown as { id: string }[]
    expect(first?.id).toMatch(UUID)
    const key = await node.request('POST', '/v1/api-keys', {}, { 'x-request-id': 'made' })
    await node.request('DELETE', `/v1/api-keys/${key.body['id']}`, undefined, { 'x-request-id': 'revoked' })
    const cell = await node.newCell()
    const ask = async (path: string, requestId: string) => {
      const method = path === '' ? 'DELETE' : 'POST'
      const body = path === '' ? undefined : {}
      const { status } = await node.request(method, `/v1/databases/${cell}${path}`, body, {
        'x-request-id': requestId,
      })
      expect([requestId, status]).toEqual([requestId, 200])
    }
    await ask('/backup', 'snapshot')
    await ask('/restore', 'restore')
    await ask('', 'delete')

    const accountId = node.logged('a backup is stored')[0]?.['accountId']
    expect(accountId).toMatch(UUID)
    const about = { level: 30, accountId, cellId: cell }
    expect(node.logged('a backup is stored')).toMatchObject([
      { ...about, requestId: 'snapshot', kind: 'snapshot', origin: 'tenant' },
    ])
    expect(node.logged('a cell is restored')).toMatchObject([{ ...about, requestId: 'restore' }])
    expect(node.logged('a cell is deleted; its backups stay')).toMatchObject([
      { ...about, requestId: 'delete' },
    ])
    const keyId = key.body['id']
    expect(node.logged('an API key is created')).toMatchObject([{ accountId, keyId, requestId: 'made' }])
    expect(node.logged('an API key is revoked')).toMatchObject([{ accountId, keyId, requestId: 'revoked' }])
  })

  test('has a line for each cell that is made, imported, renamed and exported, without its name', async () => {
    const node = await ObservedNode.start(workers)
    const cell = await node.newCell(CANARY)
    const url = `/v1/databases/${cell}`
    await node.request('PATCH', url, { name: `${CANARY}2` }, { 'x-request-id': 'renamed' })
    const ask = (path: string, requestId: string, init: RequestInit = {}) => {
      const headers = { 'x-api-key': node.key, 'x-request-id': requestId, 'content-type': SQLITE_TYPE }
      return fetch(`${node.address}${path}`, { ...init, headers })
    }
    const file = await (await ask(`${url}/export`, 'exported')).bytes()
    const made = await ask('/v1/databases', 'imported', { method: 'POST', body: file })
    const { id: imported } = (await made.json()) as { id: string }
    const about = { level: 30, accountId: expect.stringMatching(UUID) }
    const sizeBytes = file.length
    expect(node.logged('a cell is created')).toMatchObject([
      { ...about, cellId: cell, requestId: expect.any(String) },
    ])
    expect(node.logged('a cell is renamed')).toMatchObject([{ ...about, cellId: cell, requestId: 'renamed' }])
    expect(node.logged('a cell is exported')).toMatchObject([
      { ...about, cellId: cell, sizeBytes, requestId: 'exported' },
    ])
    expect(node.logged('a cell is imported')).toMatchObject([
      { ...about, cellId: imported, sizeBytes, requestId: 'imported' },
    ])
    expect(textOf(node.lines)).not.toContain(CANARY)
  })

  test('has a line for each change of an account and of its keys, by an owner’s key and by the owner’s commands', async () => {
    const node = await ObservedNode.start(workers)
    const owner = await connectNode({ dataDir: node.dataDir } as StoreFlags, systemClock)
    const accountId = (await owner.createAccount({ name: 'acme' })).id
    const { key } = await owner.createKey({ account: accountId, access: 'owner' })
    const ask = async (method: string, path: string, body = {}) =>
      (await node.request(method, `/v1/accounts${path}`, body, { 'x-api-key': key, 'x-request-id': path }))
        .body
    const id = String((await ask('POST', ''))['id'])
    const keyId = (await ask('POST', `/${id}/api-keys`))['id']
    await ask('PUT', `/${id}/quotas`, { cells_max: 7 })
    for (const change of ['suspend', 'suspend', 'resume', 'resume']) await ask('POST', `/${id}/${change}`)
    const rotated = await owner.rotateKey({ id: String(keyId) })
    await owner.close()

    const about = { level: 30, accountId: id }
    const created = [{ accountId }, { ...about, requestId: expect.any(String) }]
    expect(node.logged('an account is created')).toMatchObject(created)
    expect(node.logged('an account is suspended')).toMatchObject([{ ...about, requestId: `/${id}/suspend` }])
    expect(node.logged('an account is resumed')).toMatchObject([{ ...about, requestId: `/${id}/resume` }])
    expect(node.logged('the quotas of an account are changed')).toMatchObject([about])
    expect(node.logged('an API key is created')).toMatchObject([{ accountId }, { ...about, keyId }])
    expect(node.logged('an API key is rotated')).toMatchObject([{ ...about, keyId, newKeyId: rotated.id }])
    expect(textOf(node.lines)).not.toContain(rotated.key)
  })

  test('has a line for each request at the level debug, with the route and never the path', async () => {
    const node = await ObservedNode.start(workers)
    const cell = await node.newCell()
    const headers = { 'x-request-id': 'mine' }
    await node.request('PUT', `/v1/databases/${cell}/kv/${CANARY}`, { value: 'x' }, headers)
    await node.request('GET', `/v1/databases/${CANARY}/kv`, undefined, headers)
    await node.request('GET', `/${CANARY}`, undefined, headers)
    const lines = node.logged('request').filter(({ requestId }) => requestId === 'mine')
    const route = '/v1/databases/{id}/kv/{key}'
    expect(lines).toMatchObject([
      { level: 20, method: 'PUT', route, status: 200, cellId: cell, accountId: expect.stringMatching(UUID) },
      { method: 'GET', route: '/v1/databases/{id}/kv', status: 404, code: 'cell_not_found' },
      { method: 'other', route: null, status: 404, code: 'not_found' },
    ])
    expect(textOf(node.lines)).not.toContain(CANARY)
  })

  test('has the shape of a slow statement, with account, cell and request id', async () => {
    const node = await ObservedNode.start(workers, { slow: 1 })
    const cell = await node.newCell()
    await node.request('POST', `/v1/databases/${cell}/sql`, { sql: SLOW }, { 'x-request-id': 'slow' })
    const batch = { operations: [{ sql: SLOW }] }
    await node.request('POST', `/v1/databases/${cell}/batch`, batch, { 'x-request-id': 'batch' })
    const slow = node.logged('a statement was slow')
    for (const requestId of ['slow', 'batch']) {
      expect(slow.find((line) => line['requestId'] === requestId)).toMatchObject({
        level: 30,
        cellId: cell,
        accountId: expect.stringMatching(UUID),
        ms: expect.any(Number),
        statement: expect.stringMatching(/^SELECT count \(\*\) AS n FROM \(.*i <> \?/),
      })
    }
    expect(textOf(node.lines)).not.toContain(CANARY)
  })

  test('has no slow statement where they are off', async () => {
    const node = await ObservedNode.start(workers, { slow: false })
    const cell = await node.newCell()
    expect((await node.request('POST', `/v1/databases/${cell}/sql`, { sql: SLOW })).status).toBe(200)
    expect(node.logged('a statement was slow')).toEqual([])
  })

  test('never has a value, a key or a literal: not of statements that work, fail, or are slow', async () => {
    const node = await ObservedNode.start(workers, { slow: 1 })
    const traces: unknown[] = []
    const keep = (message: unknown) => traces.push(structuredClone(message))
    const subscribers = { start: keep, end: keep, asyncStart: keep, asyncEnd: keep, error: keep }
    for (const channel of Object.values(channels)) channel.subscribe(subscribers)
    const cell = await node.newCell(CANARY)
    const ask = (method: string, path: string, body?: unknown) =>
      node.request(method, `/v1/databases/${cell}${path}`, body)
    for (const sql of [
      `CREATE TABLE t (a UNIQUE, b CHECK (b <> '${CANARY}'))`,
      `INSERT INTO t VALUES ('${CANARY}', ${NUMBER}) -- ${CANARY}`,
      `INSERT INTO t VALUES ('${CANARY}', 1)`,
      `INSERT INTO t VALUES (1, '${CANARY}')`,
      `SELECT * FROM t WHERE '${CANARY}`,
      `SELECT json('${CANARY}')`,
      `SELECT x'00' || '${CANARY}' /* ${CANARY} */`,
      `SELECT abs(-9223372036854775808) + '${CANARY}'`,
      SLOW,
    ]) {
      await ask('POST', '/sql', { sql })
      await ask('POST', '/batch', { operations: [{ sql }] })
    }
    await ask('POST', '/sql', { sql: 'SELECT ? AS a, count(*) FROM t', params: [CANARY] })
    await ask('POST', '/sql', { sql: 'SELECT :a AS a', params: { a: CANARY, [CANARY]: 1 } })
    await ask('PUT', `/kv/${CANARY}`, { value: CANARY })
    await ask('PUT', `/kv/${CANARY}`, { value: CANARY, ttl_seconds: CANARY })
    await ask('POST', '/kv/ops/incr', { key: CANARY })
    await ask('POST', '/kv/ops/mset', { entries: [{ key: CANARY, value: CANARY }] })
    await ask('GET', `/kv?prefix=${CANARY}`)
    await ask('GET', `/kv/${CANARY}`)
    await ask('DELETE', `/kv/${CANARY}`)
    await ask('POST', '/backup', {})
    await ask('POST', '/restore', { version: CANARY })
    await ask('POST', '/restore', {})
    await node.request('POST', '/v1/api-keys', { name: CANARY })
    await node.request('GET', `/${CANARY}?${CANARY}=${CANARY}`, undefined, { 'x-api-key': CANARY })
    await ask('DELETE', '')
    for (const channel of Object.values(channels)) channel.unsubscribe(subscribers)

    const logged = textOf(node.lines)
    for (const text of [logged, JSON.stringify(traces)]) {
      expect(text).not.toContain(CANARY)
      expect(text).not.toContain(String(NUMBER))
      expect(text).not.toContain(node.key)
    }
    expect(node.logged('a statement was slow').length).toBeGreaterThanOrEqual(2)
    expect(node.logged('request').length).toBeGreaterThan(25)
    expect(traces.length).toBeGreaterThan(100)
  })

  test('names a cell whose data was lost once it is restored', async () => {
    const node = await ObservedNode.start(workers)
    const cell = await node.newCell()
    await node.request('POST', `/v1/databases/${cell}/sql`, { sql: 'CREATE TABLE t (a)' })
    await node.request('POST', `/v1/databases/${cell}/backup`, {})
    await node.request('DELETE', `/v1/databases/${cell}`)
    await node.request('POST', `/v1/databases/${cell}/restore`, {}, { 'x-request-id': 'back' })
    expect(node.logged('a cell is restored')).toMatchObject([{ cellId: cell, requestId: 'back' }])
  })
})

test('a killed worker is logged with its reason and the shape of the statement', async () => {
  const node = await ObservedNode.start(1)
  const cell = await node.newCell()
  const sql = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i), '${CANARY}' FROM n`
  const headers = { 'x-request-id': 'endless' }
  const body = { sql, timeout_ms: 100 }
  expect((await node.request('POST', `/v1/databases/${cell}/sql`, body, headers)).status).toBe(408)
  await until(
    () => node.lines.some(({ msg }) => msg.startsWith('a worker has ended')),
    'the worker is logged',
  )
  expect(node.logged('a worker has ended; a new one takes its place')).toMatchObject([
    {
      level: 40,
      reason: 'timeout',
      cellId: cell,
      accountId: expect.stringMatching(UUID),
      requestId: 'endless',
      statement: expect.stringMatching(/^WITH RECURSIVE n .* SELECT max \(i\), \? FROM n$/),
    },
  ])
  expect(textOf(node.lines)).not.toContain(CANARY)
})
