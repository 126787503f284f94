import { expect, test } from 'vitest'
import type { CellError } from '../../src/errors.ts'
import type { CellRequest } from '../../src/service/operations.ts'
import { documentIn, requestOf } from '../support/request-bounds.ts'
import { rejectedBy } from '../support/thrown.ts'
import { openWorkerStore } from '../support/worker-store.ts'

const ENDLESS = 'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r'

const codeAndField = ({ code, details }: CellError) => [code, details.field]

test('a worker reads the requests that its node passes on, and answers in JSON', async () => {
  const node = await openWorkerStore({ hasObjects: false })
  const { id } = node.store.createCell()
  const run = async (request: CellRequest) =>
    documentIn(await node.service.execute(id, request)) as Record<string, unknown>
  await run(requestOf('sql', { sql: 'CREATE TABLE t (a)' }))
  const insert = { sql: 'INSERT INTO t VALUES (?)', params: [{ type: 'blob', base64: 'AAEC' }] }
  const answers = await Promise.all([
    run(requestOf('batch', { operations: [insert, { kv: 'incr', key: 'n' }] })),
    run(requestOf('sql', '{"sql":')).catch((error) => error.code),
    run(requestOf('batch', { operations: [insert, { kv: 'no' }] })).catch((error) => error.details),
    run(requestOf('sql', insert)),
    run(requestOf('kv.mset', { entries: [{ key: 'a', value: 'v', ttl_seconds: 60 }] })),
    run(requestOf('kv.mset', { entries: [{ key: 'a', value: 'v', ttl_seconds: 'x' }] })).catch(codeAndField),
    run(requestOf('kv.mset', { entries: Array(1_001).fill({}) })).catch(codeAndField),
  ])
  expect(answers).toMatchObject([
    { results: [{ changes: 1 }, { key: 'n', value: 1 }] },
    'invalid_json',
    { index: 1, field: 'operations[1].kv' },
    { changes: 1 },
    { count: 1, entries: [{ key: 'a', created: true, ttl_seconds: 60 }] },
    ['invalid_ttl', 'entries[0].ttl_seconds'],
    ['invalid_request', 'entries'],
  ])
  expect((await run(requestOf('sql', { sql: 'SELECT a FROM t' })))['rows']).toEqual(
    Array(2).fill({ a: { type: 'blob', base64: 'AAEC' } }),
  )
})

test('an answer that is long comes as bytes', async () => {
  const node = await openWorkerStore({ hasObjects: false })
  const { id } = node.store.createCell()
  const entries = ['a', 'b', 'c'].map((key) => ({ key, value: `é${'v'.repeat(20_000)}` }))
  await node.service.execute(id, { op: 'kv.mset', entries })
  const list = await node.service.execute(id, requestOf('kv.list', undefined, { query: 'values=true' }))
  const mget = await node.service.execute(id, requestOf('kv.mget', { keys: ['b', 'x'] }))
  expect([list.json, mget.json]).toEqual([expect.any(Uint8Array), expect.any(Uint8Array)])
  expect(documentIn(list)).toMatchObject({ entries, next_cursor: null })
  expect(documentIn(mget)).toMatchObject({
    entries: [entries[1], null],
  })
})

test('timeout_ms of a request bounds its statement', async () => {
  const node = await openWorkerStore({ hasObjects: false })
  const { id } = node.store.createCell()
  const ended = node.service.execute(id, requestOf('sql', { sql: ENDLESS, timeout_ms: 200 }))
  expect(await rejectedBy(ended)).toMatchObject({ code: 'statement_timeout', details: { limit: 200 } })
})
