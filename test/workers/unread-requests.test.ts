import { expect, test } from 'vitest'
import type { CellError } from '../../src/errors.ts'
import type { BodyBounds, UnreadKind, UnreadOperation } from '../../src/service/operations.ts'
import { rejectedBy } from '../support/thrown.ts'
import { openWorkerStore } from '../support/worker-store.ts'

const BOUNDS: BodyBounds = {
  sqlBytesMax: 102_400,
  paramsMax: 32_766,
  batchOperationsMax: 1_000,
  kvKeysMax: 1_000,
  statementMsMax: 5_000,
  result: { rowsMax: 10_000, bytesMax: 10_485_760 },
}
const ENDLESS = 'WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT count(*) FROM r'

function unread(kind: UnreadKind, body: unknown): UnreadOperation {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  return { op: 'unread', kind, body: Buffer.from(text), bounds: BOUNDS }
}

const codeAndField = ({ code, details }: CellError) => [code, details.field]

test('a worker reads requests that its node has not read, and answers in JSON', async () => {
  const node = await openWorkerStore({ hasObjects: false })
  const { id } = node.store.createCell()
  const run = async (operation: UnreadOperation) =>
    JSON.parse(String(await node.service.execute(id, operation)))
  await run(unread('sql', { sql: 'CREATE TABLE t (a)' }))
  const insert = { sql: 'INSERT INTO t VALUES (?)', params: [{ type: 'blob', base64: 'AAEC' }] }
  const answers = await Promise.all([
    run(unread('batch', { operations: [insert, { kv: 'incr', key: 'n' }] })),
    run(unread('sql', '{"sql":')).catch((error) => error.code),
    run(unread('batch', { operations: [insert, { kv: 'no' }] })).catch((error) => error.details),
    run(unread('sql', insert)),
    run(unread('kv.mset', { entries: [{ key: 'a', value: 'v', ttl_seconds: 60 }] })),
    run(unread('kv.mset', { entries: [{ key: 'a', value: 'v', ttl_seconds: 'x' }] })).catch(codeAndField),
    run(unread('kv.mset', { entries: Array(1_001).fill({}) })).catch(codeAndField),
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
  const all = { op: 'sql', sql: 'SELECT a FROM t', answer: 'json' } as const
  const { rows } = JSON.parse(String(await node.service.execute(id, all)))
  expect(rows).toEqual(Array(2).fill({ a: { type: 'blob', base64: 'AAEC' } }))
})

test('an answer that is long comes as bytes', async () => {
  const node = await openWorkerStore({ hasObjects: false })
  const { id } = node.store.createCell()
  const entries = ['a', 'b', 'c'].map((key) => ({ key, value: `é${'v'.repeat(20_000)}` }))
  await node.service.execute(id, { op: 'kv.mset', entries })
  const list = await node.service.execute(id, { op: 'kv.list', options: {}, answer: 'json' } as const)
  const mget = await node.service.execute(id, { op: 'kv.mget', keys: ['b', 'x'], answer: 'json' } as const)
  expect([list, mget]).toEqual([expect.any(Uint8Array), expect.any(Uint8Array)])
  expect(JSON.parse(String(list))).toMatchObject({ entries, next_cursor: null })
  expect(JSON.parse(String(mget))).toMatchObject({
    entries: [entries[1], null],
  })
})

test('timeout_ms of an unread request bounds its statement', async () => {
  const node = await openWorkerStore({ hasObjects: false })
  const { id } = node.store.createCell()
  const ended = node.service.execute(id, unread('sql', { sql: ENDLESS, timeout_ms: 200 }))
  expect(await rejectedBy(ended)).toMatchObject({ code: 'statement_timeout', details: { limit: 200 } })
})
