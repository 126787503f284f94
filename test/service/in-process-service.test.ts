import path from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { mayChange, parseOperation } from '../../src/service/apply-operation.ts'
import { InProcessService } from '../../src/service/in-process-service.ts'
import type { BatchableOperation, CellOperation, PlainOperation } from '../../src/service/operations.ts'
import type { CellStore } from '../../src/store/cell-store.ts'
import { BOUNDS } from '../support/request-bounds.ts'
import { StoreDirectory } from '../support/store-directory.ts'
import { tempDirectory } from '../support/temp-directory.ts'

const options = { restoreWaitMs: 1_000, bounds: BOUNDS }
let store: CellStore
let service: InProcessService
let id: string

beforeEach(async () => {
  store = await StoreDirectory.ofTest(path.join(tempDirectory(), 'data')).create()
  service = new InProcessService(store, options)
  id = store.createCell().id
})

const sql = (text: string) => ({ op: 'sql', sql: text }) as const

describe('what can change a cell', () => {
  const CASES: [changes: boolean, texts: string[]][] = [
    [false, ['SELECT 1', ' /* x */ select 1', 'VALUES (1)', 'WITH a AS (SELECT 1) SELECT * FROM a']],
    [
      false,
      [
        'EXPLAIN DELETE FROM t',
        'EXPLAIN QUERY PLAN INSERT INTO t VALUES (1)',
        'PRAGMA user_version',
        '',
        'BEGIN',
      ],
    ],
    [
      true,
      [
        'INSERT INTO t VALUES (1)',
        'REPLACE INTO t VALUES (1)',
        'UPDATE t SET a = 1',
        'DELETE FROM t RETURNING a',
      ],
    ],
    [true, ['WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a', 'CREATE TABLE t (a)', 'DROP TABLE t']],
    [true, ['ALTER TABLE t ADD b', 'ANALYZE', 'REINDEX']],
  ]
  const sqlCases = CASES.flatMap(([changes, texts]) =>
    texts.map((text): [string, boolean] => [text, changes]),
  )

  test.each(sqlCases)('%j: %s', (text, changes) => {
    expect(mayChange(parseOperation(sql(text)))).toBe(changes)
  })

  const batch = (...operations: BatchableOperation[]): CellOperation => ({ op: 'batch', operations })

  test.each<[CellOperation, boolean]>([
    [{ op: 'kv.get', key: 'k' }, false],
    [{ op: 'kv.ttl', keys: [] }, false],
    [{ op: 'kv.list', options: {} }, false],
    [{ op: 'kv.mget', keys: [] }, false],
    [{ op: 'kv.put', key: 'k', value: 'v' }, true],
    [{ op: 'kv.incr', key: 'k' }, true],
    [{ op: 'kv.expire', key: 'k', ttlSeconds: null }, true],
    [{ op: 'kv.delete', key: 'k' }, true],
    [{ op: 'kv.mset', entries: [] }, true],
    [{ op: 'kv.deleteMany', keys: [] }, true],
    [batch(), false],
    [batch(sql('SELECT 1'), sql('EXPLAIN SELECT 1')), false],
    [batch(sql('SELECT 1'), sql('DELETE FROM t')), true],
    [batch(sql('PRAGMA user_version = 1')), true],
    [batch({ op: 'kv.delete', key: 'k' }), true],
  ])('%j: %s', (operation, changes) => {
    expect(mayChange(parseOperation(operation as PlainOperation))).toBe(changes)
  })
})

test('reads wait for no commit group, and changes share one', async () => {
  await service.execute(id, sql('CREATE TABLE t (a)'))
  const order: string[] = []
  const note = (name: string) => () => void order.push(name)
  const group = new Promise<void>((resolve) => setImmediate(resolve)).then(note('the turn of the loop'))
  await Promise.all([
    group,
    service.execute(id, sql('INSERT INTO t VALUES (1)')).then(note('change')),
    service.execute(id, { op: 'kv.put', key: 'k', value: 'v' }).then(note('change')),
    service.execute(id, sql('SELECT * FROM t')).then(note('read')),
    service.execute(id, { op: 'kv.get', key: 'k' }).then(note('read')),
  ])
  expect(order.slice(0, 2)).toEqual(['read', 'read'])
  expect(order.filter((name) => name === 'change')).toHaveLength(2)
})

test('a cell that was deleted under a known handle is gone', async () => {
  await service.execute(id, { op: 'kv.put', key: 'k', value: 'v' })
  store.deleteCell(id)
  await expect(service.execute(id, { op: 'kv.get', key: 'k' })).rejects.toMatchObject({
    code: 'cell_not_found',
  })
  await expect(service.execute(id, { op: 'kv.delete', key: 'k' })).rejects.toMatchObject({
    code: 'cell_not_found',
  })
  await expect(service.describe(id)).rejects.toMatchObject({ code: 'cell_not_found' })
})

test('a cell that never was is not found', async () => {
  const unknown = '3f6c2a52-7c5e-4b0a-9f39-1c1f5a0b7e11'
  await expect(service.execute(unknown, { op: 'kv.get', key: 'k' })).rejects.toMatchObject({
    code: 'cell_not_found',
  })
})

test('SQL is a tenant’s, whatever the store’s setting; unless the service is told to trust', async () => {
  expect(store.settings.sqlPolicy).toBe('trusted')
  const vacuum = sql('VACUUM')
  await expect(service.execute(id, vacuum)).rejects.toMatchObject({ code: 'statement_not_allowed' })
  const trusting = new InProcessService(store, { ...options, sqlPolicy: 'trusted' })
  await expect(trusting.execute(id, vacuum)).resolves.toMatchObject({ rows: [] })
  await expect(service.execute(id, vacuum)).rejects.toMatchObject({ code: 'statement_not_allowed' })
})

test('an error of a batch keeps what it is, and gets its index', async () => {
  const operations: BatchableOperation[] = [sql('SELECT 1'), { op: 'kv.put', key: '', value: 'v' }]
  await expect(service.execute(id, { op: 'batch', operations })).rejects.toMatchObject({
    code: 'invalid_key',
    details: { field: 'key', index: 1 },
  })
})

test('the time of a statement is its own, not that of its group', async () => {
  const [a, b] = await Promise.all([
    service.execute(id, sql('CREATE TABLE t (a)')),
    service.execute(id, sql('INSERT INTO t VALUES (1)')),
  ])
  expect(a.durationMs).toBeGreaterThan(0)
  expect(b.durationMs).toBeGreaterThan(0)
  expect(b.durationMs).toBeLessThan(1_000)
})

test('an operation that nobody waits for any more never begins', async () => {
  const signal = AbortSignal.abort(new Error('gone'))
  await expect(service.execute(id, { op: 'kv.put', key: 'k', value: 'v' }, { signal })).rejects.toThrow(
    'gone',
  )
  await expect(service.execute(id, { op: 'kv.get', key: 'k' })).resolves.toBeUndefined()
})
