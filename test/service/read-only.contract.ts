import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { BatchableOperation, CellAnswer, CellOperation } from '../../src/service/operations.ts'
import { documentIn, requestOf } from '../support/request-bounds.ts'
import { rejectedBy } from '../support/thrown.ts'
import type { MakeService, ServiceUnderTest } from './service-under-test.ts'

const SCHEMA = [
  'CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT)',
  "INSERT INTO t (a) VALUES ('kept')",
  'CREATE VIEW v AS SELECT a FROM t',
  "CREATE TRIGGER through AFTER INSERT ON t BEGIN UPDATE t SET a = 'changed'; END",
  'CREATE VIRTUAL TABLE f5 USING fts5(a)',
  'CREATE VIRTUAL TABLE f4 USING fts4(a)',
  "INSERT INTO f4 VALUES ('one')",
  "INSERT INTO f4 VALUES ('two')",
]

const READS = [
  'SELECT a FROM t',
  'VALUES (1)',
  'WITH x AS (SELECT a FROM t) SELECT * FROM x',
  'SELECT key FROM cell_kv',
  'EXPLAIN QUERY PLAN SELECT a FROM t',
  'PRAGMA table_info(t)',
  'PRAGMA user_version',
  'PRAGMA integrity_check',
  "SELECT * FROM pragma_table_info('t')",
  "SELECT a FROM f5 WHERE f5 MATCH 'one'",
]

const CHANGES = [
  "INSERT INTO t (a) VALUES ('x')",
  "INSERT INTO t (a) VALUES ('x') RETURNING a",
  "REPLACE INTO t (id, a) VALUES (1, 'x')",
  "UPDATE t SET a = 'x'",
  'DELETE FROM t',
  'DELETE FROM t WHERE 0',
  'WITH x AS (SELECT 1) DELETE FROM t',
  "WITH x AS (SELECT 'x' AS a) INSERT INTO t (a) SELECT a FROM x RETURNING id",
  'CREATE TABLE u (a)',
  'CREATE TABLE IF NOT EXISTS u (a)',
  'CREATE INDEX i ON t (a)',
  'CREATE VIEW w AS SELECT 1',
  'DROP TABLE t',
  'DROP TABLE IF EXISTS t',
  'ALTER TABLE t RENAME TO u',
  'ANALYZE',
  'REINDEX',
  'PRAGMA optimize',
  'PRAGMA user_version = 7',
  'EXPLAIN DELETE FROM t',
  "INSERT INTO f5(f5) VALUES ('optimize')",
]

/** Read-only to SQLite, and yet not without an effect. The tenants' policy refuses them, whatever the handler's own is. */
const REFUSED_BY_POLICY = [
  'BEGIN',
  'BEGIN IMMEDIATE',
  'COMMIT',
  'ROLLBACK',
  'SAVEPOINT s',
  "ATTACH ':memory:' AS other",
  "VACUUM INTO '/tmp/copy.db'",
  'PRAGMA query_only = OFF',
  'PRAGMA foreign_keys = OFF',
  'PRAGMA wal_checkpoint',
  'PRAGMA journal_mode = DELETE',
  'CREATE TEMP TABLE u (a)',
  'PRAGMA optimize(0xfffe)',
  'SELECT * FROM pragma_optimize',
  // Merges the index from inside of a query.
  'SELECT optimize(f4) FROM f4 LIMIT 1',
]

/** What a read-only operation may do, as tests. */
export function readOnlyContract(name: string, make: MakeService): void {
  describe.each(['tenant', 'trusted'] as const)(`${name} with the policy %s, read-only`, (sqlPolicy) => {
    let subject: ServiceUnderTest
    let id: string
    const run = <O extends CellOperation>(operation: O) => subject.service.execute(id, operation)
    const sql = (text: string) => run({ op: 'sql', sql: text, readOnly: true })
    const rowsOf = async (text: string) => (await run({ op: 'sql', sql: text })).rows

    beforeAll(async () => {
      subject = await make({ hasObjects: false, sqlPolicy })
      id = subject.store.createCell().id
      for (const text of SCHEMA) await run({ op: 'sql', sql: text })
      await run({ op: 'kv.put', key: 'k', value: '1' })
      // What the engine itself adds to a schema once it is asked for is not the reader's change.
      await run({ op: 'sql', sql: 'SELECT key FROM cell_kv' })
    })

    afterAll(async () => await subject.close())

    /** Everything that is in the cell. */
    const contents = async () => {
      const tables = ['sqlite_schema', 't', 'f5', 'f4', 'f4_segdir', 'f4_segments']
      const rows = tables.map((table) => rowsOf(`SELECT * FROM ${table}`))
      const entries = run({ op: 'kv.list', options: { values: true } })
      return await Promise.all([...rows, rowsOf('PRAGMA user_version'), entries])
    }

    const unchanged = async (act: () => Promise<void>) => {
      const before = await contents()
      await act()
      expect(await contents()).toEqual(before)
    }

    test.each(READS)('%s is answered', async (text) => {
      await unchanged(async () => void (await sql(text)))
    })

    test.each(CHANGES)('%s is refused, and nothing changes', async (text) => {
      await unchanged(async () => {
        expect(await rejectedBy(sql(text))).toMatchObject({ code: 'forbidden' })
        const operations: BatchableOperation[] = [{ op: 'sql', sql: text }]
        expect(await rejectedBy(run({ op: 'batch', operations, readOnly: true }))).toMatchObject({
          code: 'forbidden',
          details: { index: 0 },
        })
      })
    })

    test.each(REFUSED_BY_POLICY)('%s is refused by the policy', async (text) => {
      await unchanged(async () => {
        expect(await rejectedBy(sql(text))).toMatchObject({ code: 'statement_not_allowed' })
      })
    })

    const kv: [string, BatchableOperation][] = [
      ['put', { op: 'kv.put', key: 'k', value: 'x' }],
      ['incr', { op: 'kv.incr', key: 'k' }],
      ['expire', { op: 'kv.expire', key: 'k', ttlSeconds: 1 }],
      ['delete', { op: 'kv.delete', key: 'k' }],
      ['getdel', { op: 'kv.getdel', key: 'k' }],
      ['mset', { op: 'kv.mset', entries: [{ key: 'k', value: 'x' }] }],
      ['deleteMany', { op: 'kv.deleteMany', keys: ['k'] }],
    ]
    test.each(kv)('kv.%s is refused, alone and in a batch', async (_, operation) => {
      await unchanged(async () => {
        const batch = { op: 'batch' as const, operations: [operation] }
        for (const asked of [operation, batch])
          expect(await rejectedBy(run({ ...asked, readOnly: true }))).toMatchObject({ code: 'forbidden' })
      })
    })

    test('a request that nobody has read yet is bound alike', async () => {
      const ask = (text: string) => run({ ...requestOf('sql', { sql: text }), readOnly: true })
      await unchanged(async () => {
        expect(documentIn((await ask('SELECT 1 AS one')) as CellAnswer)).toMatchObject({ rows: [{ one: 1 }] })
        expect(await rejectedBy(ask('DELETE FROM t'))).toMatchObject({ code: 'forbidden' })
      })
    })

    test('the next operation without the bound can change the cell', async () => {
      await rejectedBy(sql('DELETE FROM t'))
      expect(await run({ op: 'sql', sql: "UPDATE t SET a = 'kept'" })).toMatchObject({ changes: 1 })
    })
  })
}
