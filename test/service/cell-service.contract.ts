import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { ExecuteOptions } from '../../src/service/cell-service.ts'
import type { BatchableOperation, CellOperation, ResultOf } from '../../src/service/operations.ts'
import { rejectedBy } from '../support/thrown.ts'
import { cellServiceBackupsContract } from './cell-service-backups.contract.ts'
import { cellServiceBranchesContract } from './cell-service-branches.contract.ts'
import { cellServiceFilesContract } from './cell-service-files.contract.ts'
import { cellServiceHoldsContract } from './cell-service-holds.contract.ts'
import { cellServiceWatchContract } from './cell-service-watch.contract.ts'
import type { MakeService, ServiceUnderTest } from './service-under-test.ts'

const UNKNOWN = '00000000-0000-4000-8000-000000000000'
const BEYOND_SAFE = 9_007_199_254_740_993n

/** The promises of `CellService`, as tests. Cells in this process and cells in workers keep the same ones. */
export function cellServiceContract(name: string, make: MakeService): void {
  describe(`${name} keeps the contract of a cell service`, () => {
    let subject: ServiceUnderTest
    let id: string

    beforeAll(async () => {
      subject = await make({ hasObjects: true })
    })

    afterAll(async () => await subject.close())

    beforeEach(() => {
      id = subject.store.createCell().id
    })

    /** On the test's own cell. */
    function run<O extends CellOperation>(operation: O, options?: ExecuteOptions): Promise<ResultOf<O>> {
      return subject.service.execute(id, operation, options)
    }

    const sql = (text: string, params: (number | bigint | string | Uint8Array | null)[] = []) =>
      run({ op: 'sql', sql: text, params })
    const rowsOf = async (text: string) => (await run({ op: 'sql', sql: text, rowMode: 'array' })).rows
    const put = (key: string, value: string, ttlSeconds?: number) =>
      run({ op: 'kv.put', key, value, ttlSeconds })
    const stored = async (key: string) => (await run({ op: 'kv.get', key }))?.value

    describe('operations', () => {
      test('SQL answers with columns, rows, changes and the time that it took', async () => {
        await sql('CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)')
        expect(await sql("INSERT INTO t (name) VALUES ('a'), ('b')")).toEqual({
          columns: [],
          rows: [],
          changes: 2,
          lastInsertRowid: 2,
          durationMs: expect.any(Number),
        })
        const selected = await run({ op: 'sql', sql: 'SELECT * FROM t WHERE id = :id', params: { id: 2 } })
        expect(selected).toMatchObject({ columns: ['id', 'name'], rows: [{ id: 2, name: 'b' }], changes: 0 })
      })

      test('entries are put, read, counted, listed, kept for a time and deleted', async () => {
        const version = expect.any(String)
        expect(await put('a', '1', 600)).toMatchObject({ created: true, ttlSeconds: 600 })
        expect(await put('a', '2')).toEqual({
          key: 'a',
          created: false,
          version,
          ttlSeconds: -1,
          expiresAt: null,
        })
        expect(await run({ op: 'kv.get', key: 'a' })).toEqual({
          key: 'a',
          value: '2',
          version,
          ttlSeconds: -1,
          expiresAt: null,
        })
        expect(await run({ op: 'kv.get', key: 'none' })).toBeUndefined()
        expect(await run({ op: 'kv.incr', key: 'n', delta: 5 })).toMatchObject({
          key: 'n',
          value: 5,
          version,
          ttlSeconds: -1,
        })
        expect(await run({ op: 'kv.expire', key: 'a', ttlSeconds: 60 })).toEqual({
          updated: true,
          version,
          ttlSeconds: 60,
        })
        expect(await run({ op: 'kv.ttl', keys: ['a', 'n', 'none'] })).toEqual([60, -1, null])
        expect(await run({ op: 'kv.mset', entries: [{ key: 'b', value: '3' }] })).toMatchObject([
          { key: 'b', created: true },
        ])
        expect(await run({ op: 'kv.mget', keys: ['b', 'none'] })).toMatchObject([{ value: '3' }, undefined])
        const first = await run({ op: 'kv.list', options: { limit: 2 } })
        expect(first.entries.map(({ key }) => key)).toEqual(['a', 'b'])
        const second = await run({
          op: 'kv.list',
          options: { limit: 2, cursor: first.nextCursor ?? undefined, values: false },
        })
        expect(second).toMatchObject({ entries: [{ key: 'n' }], nextCursor: null })
        expect(await run({ op: 'kv.delete', key: 'a' })).toEqual({ deleted: true })
        expect(await run({ op: 'kv.delete', key: 'a' })).toEqual({ deleted: false })
        expect(await run({ op: 'kv.deleteMany', keys: ['b', 'n', 'none'] })).toEqual({ deleted: 2 })
      })

      test('values come back exactly: integers beyond a double, blobs, null, text with zero bytes', async () => {
        const blob = new Uint8Array([0, 255, 1, 0])
        await sql('CREATE TABLE t (i, b, n, s)')
        await sql('INSERT INTO t VALUES (?, ?, ?, ?)', [BEYOND_SAFE, blob, null, 'a\u0000é🂡'])
        const [row] = await rowsOf('SELECT * FROM t')
        expect(row).toEqual([BEYOND_SAFE, blob, null, 'a\u0000é🂡'])
        expect((row as unknown[])[1]?.constructor).toBe(Uint8Array)
        expect(await rowsOf('SELECT 9007199254740991, -9223372036854775807 - 1, 0.1, -0.0')).toEqual([
          [9_007_199_254_740_991, -9_223_372_036_854_775_808n, 0.1, -0],
        ])
        expect(await run({ op: 'kv.incr', key: 'n', delta: BEYOND_SAFE })).toMatchObject({
          value: BEYOND_SAFE,
        })
        await expect(sql('INSERT INTO t (i) VALUES (?)', [2n ** 70n])).rejects.toMatchObject({
          code: 'invalid_parameter',
        })
      })

      test('columns of one name are told apart', async () => {
        const { columns, rows } = await sql('SELECT 1 AS a, 2 AS a, 3 AS a')
        expect(columns).toEqual(['a', 'a_2', 'a_3'])
        expect(rows).toEqual([{ a: 1, a_2: 2, a_3: 3 }])
      })

      test('large answers and large values arrive whole', async () => {
        const value = 'v'.repeat(1_000_000)
        await put('large', value)
        expect(await stored('large')).toBe(value)
        const rows = await rowsOf(
          'WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 5000) SELECT n, hex(zeroblob(500)) FROM c',
        )
        expect(rows).toHaveLength(5_000)
        expect((rows.at(-1) as unknown[])[0]).toBe(5_000)
      })
    })

    describe('errors', () => {
      test.each<[string, CellOperation, object]>([
        ['SQL that is none', { op: 'sql', sql: 'SELEKT' }, { code: 'statement_not_allowed' }],
        [
          'a table that is not there',
          { op: 'sql', sql: 'SELECT * FROM nowhere' },
          { code: 'sql_error', details: { sqliteCode: 'SQLITE_ERROR' } },
        ],
        ['a statement of the engine', { op: 'sql', sql: 'BEGIN' }, { code: 'statement_not_allowed' }],
        ['several statements', { op: 'sql', sql: 'SELECT 1; SELECT 2' }, { code: 'multiple_statements' }],
        [
          'a missing parameter',
          { op: 'sql', sql: 'SELECT ?' },
          { code: 'param_count_mismatch', kind: 'request' },
        ],
        ['an empty key', { op: 'kv.put', key: '', value: '' }, { code: 'invalid_key' }],
        [
          'a time to live of zero',
          { op: 'kv.put', key: 'k', value: '', ttlSeconds: 0 },
          { code: 'invalid_ttl', details: { field: 'ttlSeconds' } },
        ],
        [
          'too many rows',
          { op: 'sql', sql: 'VALUES (1), (2)', limits: { rowsMax: 1, bytesMax: 1_000 } },
          { code: 'result_too_large', details: { limit: 1 } },
        ],
      ])('%s: the code, the details and the class are the same', async (_what, operation, expected) => {
        expect(await rejectedBy(run(operation))).toMatchObject(expected)
      })

      test('a constraint is named, and nothing is changed', async () => {
        await sql('CREATE TABLE t (a UNIQUE)')
        await sql('INSERT INTO t VALUES (1)')
        const error = await rejectedBy(sql('INSERT INTO t VALUES (2), (1)'))
        expect(error).toMatchObject({
          code: 'constraint_violation',
          details: { sqliteCode: 'SQLITE_CONSTRAINT_UNIQUE' },
        })
        expect(await rowsOf('SELECT count(*) FROM t')).toEqual([[1]])
      })

      test('a cell that never was, and one that was deleted, are not found', async () => {
        const { service } = subject
        await expect(service.execute(UNKNOWN, { op: 'kv.get', key: 'k' })).rejects.toMatchObject({
          code: 'cell_not_found',
        })
        await put('k', 'v')
        await service.deleteCell(id)
        for (const operation of [
          { op: 'kv.get', key: 'k' },
          { op: 'kv.put', key: 'k', value: 'v' },
        ] as const)
          await expect(run(operation)).rejects.toMatchObject({ code: 'cell_not_found' })
        await expect(service.describe(id)).rejects.toMatchObject({ code: 'cell_not_found' })
        await expect(service.deleteCell(id)).rejects.toMatchObject({ code: 'cell_not_found' })
        await expect(service.backups.snapshot(id)).rejects.toMatchObject({ code: 'cell_not_found' })
      })
    })

    describe('batches', () => {
      const batch = (...operations: BatchableOperation[]) => run({ op: 'batch', operations })

      test('answer with one result an operation, are one transaction, and see what they have done so far', async () => {
        const results = await batch(
          { op: 'sql', sql: 'CREATE TABLE t (a)' },
          { op: 'kv.incr', key: 'n' },
          { op: 'sql', sql: 'INSERT INTO t VALUES (1) RETURNING a' },
          { op: 'sql', sql: 'SELECT value FROM cell_kv' },
          { op: 'kv.delete', key: 'none' },
        )
        const read = { rows: [{ value: '1' }] }
        expect(results).toMatchObject([{}, { value: 1 }, { rows: [{ a: 1 }] }, read, { deleted: false }])
      })

      test('leave nothing when one of them fails, and the error names which', async () => {
        await sql('CREATE TABLE t (a UNIQUE)')
        const error = await rejectedBy(
          batch(
            { op: 'sql', sql: 'INSERT INTO t VALUES (1)' },
            { op: 'kv.put', key: 'k', value: 'v' },
            { op: 'sql', sql: 'PRAGMA user_version = 9' },
            { op: 'sql', sql: 'INSERT INTO t VALUES (1)' },
          ),
        )
        expect(error).toMatchObject({ code: 'constraint_violation', details: { index: 3 } })
        expect(await rowsOf('SELECT * FROM t')).toEqual([])
        expect(await rowsOf('PRAGMA user_version')).toEqual([[0]])
        expect(await stored('k')).toBeUndefined()
      })

      test('that defer their foreign keys are repaired by no neighbour, and defer no one else’s', async () => {
        await batch(
          { op: 'sql', sql: 'CREATE TABLE parent (id INTEGER PRIMARY KEY)' },
          { op: 'sql', sql: 'CREATE TABLE child (p REFERENCES parent)' },
        )
        const outcomes = await Promise.allSettled([
          batch(
            { op: 'sql', sql: 'PRAGMA defer_foreign_keys = ON' },
            { op: 'sql', sql: 'INSERT INTO child VALUES (5)' },
          ),
          batch(
            { op: 'sql', sql: 'INSERT INTO child VALUES (6)' },
            { op: 'sql', sql: 'INSERT INTO parent VALUES (6)' },
          ),
          sql('INSERT INTO parent VALUES (5)'),
        ])
        expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'fulfilled'])
        expect(await rowsOf('SELECT * FROM child')).toEqual([])
      })

      test('of reads only need no transaction', async () => {
        expect(
          await batch({ op: 'sql', sql: 'SELECT 1 AS a' }, { op: 'sql', sql: 'VALUES (2)' }),
        ).toMatchObject([{ rows: [{ a: 1 }] }, { rows: [{ column1: 2 }] }])
      })
    })

    describe('conditions', () => {
      const putIf = (ifVersion: string | null, value: string) =>
        run({ op: 'kv.put', key: 'k', value, ifVersion })
      const versionNow = async () => (await run({ op: 'kv.get', key: 'k' }))?.version ?? null

      /** @returns the values of those that were put; the others had to fail at their condition */
      async function winners(ifVersion: string | null, values: string[]): Promise<string[]> {
        const settled = await Promise.allSettled(values.map((value) => putIf(ifVersion, value)))
        for (const each of settled) {
          if (each.status === 'rejected') expect(each.reason).toMatchObject({ code: 'precondition_failed' })
        }
        return values.filter((_, i) => settled[i]?.status === 'fulfilled')
      }

      test('exactly one of many who put an entry at once, each only if there is none, wins', async () => {
        const values = Array.from({ length: 40 }, (_, i) => `value ${i}`)
        const won = await winners(null, values)
        expect(won).toHaveLength(1)
        expect(await stored('k')).toBe(won[0])
      })

      test('exactly one of many who change the version that all have read wins, in every round', async () => {
        await put('k', 'first')
        for (let round = 0; round < 5; round++) {
          const values = Array.from({ length: 20 }, (_, i) => `${round}.${i}`)
          const won = await winners(await versionNow(), values)
          expect(won).toHaveLength(1)
          expect(await stored('k')).toBe(won[0])
        }
      })

      test('no update is lost among many who read, add and put back until it succeeds', async () => {
        const addOne = async () => {
          for (;;) {
            const entry = await run({ op: 'kv.get', key: 'k' })
            try {
              return await putIf(entry?.version ?? null, String(Number(entry?.value ?? 0) + 1))
            } catch (error) {
              expect(error).toMatchObject({ code: 'precondition_failed' })
            }
          }
        }
        await Promise.all(Array.from({ length: 12 }, addOne))
        expect(await stored('k')).toBe('12')
      })

      test('exactly one of many gets an entry that all delete', async () => {
        await put('k', 'v')
        const got = await Promise.all(Array.from({ length: 20 }, () => run({ op: 'kv.getdel', key: 'k' })))
        expect(got.filter((entry) => entry !== undefined)).toMatchObject([{ key: 'k', value: 'v' }])
        expect(await stored('k')).toBeUndefined()
      })

      test('of a deletion and of entries put together hold, or nothing happens', async () => {
        const { version } = await put('k', 'v')
        await put('k', 'w')
        const failed = { code: 'precondition_failed' }
        expect(await rejectedBy(run({ op: 'kv.delete', key: 'k', ifVersion: version }))).toMatchObject(failed)
        const entries = [
          { key: 'other', value: 'v' },
          { key: 'k', value: 'x', ifVersion: version },
        ]
        expect(await rejectedBy(run({ op: 'kv.mset', entries }))).toMatchObject({
          ...failed,
          details: { field: 'entries[1].ifVersion' },
        })
        expect([await stored('k'), await stored('other')]).toEqual(['w', undefined])
      })

      test('undo the whole batch in which one fails, SQL included', async () => {
        await sql('CREATE TABLE log (a)')
        const { version } = await put('k', 'v')
        const log: BatchableOperation = { op: 'sql', sql: 'INSERT INTO log VALUES (1)' }
        const change = (value: string): BatchableOperation => ({
          op: 'kv.put',
          key: 'k',
          value,
          ifVersion: version,
        })
        await run({ op: 'batch', operations: [log, change('w')] })
        const error = await rejectedBy(run({ op: 'batch', operations: [log, change('x')] }))
        expect(error).toMatchObject({ code: 'precondition_failed', details: { index: 1 } })
        expect(await rowsOf('SELECT count(*) FROM log')).toEqual([[1]])
        expect(await stored('k')).toBe('w')
      })
    })

    describe('neighbours in one group (invariant 8)', () => {
      /** All at once: they share a transaction where they can. @returns `true`, or the error's code, of each */
      async function together(...texts: string[]): Promise<(true | string)[]> {
        const settled = await Promise.allSettled(texts.map((text) => sql(text)))
        return settled.map((each) => (each.status === 'fulfilled' ? true : each.reason.code))
      }

      beforeEach(async () => {
        await sql('CREATE TABLE t (a UNIQUE)')
        await sql('INSERT INTO t VALUES (0)')
      })

      test('do not notice that one fails', async () => {
        expect(
          await together('INSERT INTO t VALUES (1)', 'INSERT INTO t VALUES (0)', 'INSERT INTO t VALUES (2)'),
        ).toEqual([true, 'constraint_violation', true])
        expect(await rowsOf('SELECT a FROM t ORDER BY a')).toEqual([[0], [1], [2]])
      })

      test('do not notice a foreign key that only COMMIT finds broken', async () => {
        await sql('CREATE TABLE parent (id PRIMARY KEY)')
        await sql('CREATE TABLE child (p REFERENCES parent(id) DEFERRABLE INITIALLY DEFERRED)')
        expect(
          await together(
            'INSERT INTO t VALUES (1)',
            'INSERT INTO child VALUES (7)',
            'INSERT INTO t VALUES (2)',
          ),
        ).toEqual([true, 'constraint_violation', true])
        expect(await rowsOf('SELECT a FROM t ORDER BY a')).toEqual([[0], [1], [2]])
        expect(await rowsOf('SELECT * FROM child')).toEqual([])
      })
    })

    test('neighbours in one group do not notice that one ends the whole transaction (invariants 6, 8)', async () => {
      const trusting = await make({ hasObjects: false, sqlPolicy: 'trusted' })
      onTestFinished(() => trusting.close())
      const cellId = trusting.store.createCell().id
      const trusted = (text: string) => trusting.service.execute(cellId, { op: 'sql', sql: text })
      await trusted('CREATE TABLE t (a UNIQUE)')
      await trusted('CREATE TABLE guarded (a)')
      await trusted("CREATE TRIGGER guard BEFORE INSERT ON guarded BEGIN SELECT raise(ROLLBACK, 'no'); END")
      const settled = await Promise.allSettled(
        [
          'INSERT INTO t VALUES (1)',
          'INSERT OR ROLLBACK INTO t VALUES (1)',
          'INSERT INTO t VALUES (2)',
          'INSERT INTO guarded VALUES (1)',
          'INSERT INTO t VALUES (3)',
        ].map(trusted),
      )
      const fulfilled = settled.map(({ status }) => status === 'fulfilled')
      expect(fulfilled).toEqual([true, false, true, false, true])
      expect((await trusted('SELECT a FROM t ORDER BY a')).rows).toEqual([{ a: 1 }, { a: 2 }, { a: 3 }])
      expect((await trusted('SELECT * FROM guarded')).rows).toEqual([])
    })

    test('many operations on many cells at once are each done once, and answered with their own result', async () => {
      const { service, store } = subject
      const ids = Array.from({ length: 30 }, () => store.createCell().id)
      const rounds = Array.from({ length: 20 }, (_, round) => round)
      const answers = await Promise.all(
        rounds.flatMap((round) =>
          ids.map(async (cellId, cell) => {
            const [, own] = await Promise.all([
              service.execute(cellId, { op: 'kv.incr', key: 'n' }),
              service.execute(cellId, { op: 'sql', sql: 'SELECT ? AS own', params: [cell * 100 + round] }),
            ])
            return own.rows[0]
          }),
        ),
      )
      expect(answers).toEqual(rounds.flatMap((round) => ids.map((_, cell) => ({ own: cell * 100 + round }))))
      const counts = await Promise.all(
        ids.map((cellId) => service.execute(cellId, { op: 'kv.get', key: 'n' })),
      )
      expect(counts.map((entry) => entry?.value)).toEqual(ids.map(() => '20'))
    })

    test('a cell that is deleted under load answers every operation: done, or not found', async () => {
      const writes = Array.from({ length: 100 }, (_, i) => put(`k${i}`, 'v'))
      const [deleted, ...settled] = await Promise.allSettled([subject.service.deleteCell(id), ...writes])
      expect(deleted.status).toBe('fulfilled')
      for (const each of settled) {
        if (each.status === 'rejected') expect(each.reason).toMatchObject({ code: 'cell_not_found' })
      }
      await expect(put('k', 'v')).rejects.toMatchObject({ code: 'cell_not_found' })
    })

    test('an operation that may not make the file grow is refused if it would; the next one without that bound is not', async () => {
      const value = 'v'.repeat(100_000)
      await put('a', value)
      for (const growth of ['none', 0, 50_000] as const) {
        const refused = await rejectedBy(run({ op: 'kv.put', key: 'b', value, growth }))
        expect(refused).toMatchObject({
          code: 'cell_full',
          details: { sqliteCode: 'SQLITE_FULL', limit: growth === 'none' ? 0 : growth },
        })
      }
      const operations: BatchableOperation[] = [
        { op: 'kv.delete', key: 'a' },
        { op: 'kv.put', key: 'b', value },
      ]
      await run({ op: 'batch', operations, growth: 'none' })
      await put('c', value)
      expect(await stored('b')).toBe(value)
    })

    test('an operation whose signal is aborted before it begins never does', async () => {
      const signal = AbortSignal.abort(new Error('gone'))
      await expect(run({ op: 'kv.put', key: 'k', value: 'v' }, { signal })).rejects.toThrow('gone')
      expect(await stored('k')).toBeUndefined()
    })

    test('a signal that is aborted after the answer changes nothing', async () => {
      const abort = new AbortController()
      await run({ op: 'kv.put', key: 'k', value: 'v' }, { signal: abort.signal })
      abort.abort(new Error('late'))
      expect(await stored('k')).toBe('v')
    })

    test('an expired entry is gone, and is collected without a request (invariant 11)', async () => {
      await put('short', 'v', 1)
      await put('long', 'v', 600)
      await expect.poll(() => stored('short')).toBeUndefined()
      expect(await stored('long')).toBe('v')
      expect(await rowsOf('SELECT key FROM cell_kv')).toEqual([['long']])
      const { sizeBytes, quarantine } = await subject.service.describe(id)
      expect(sizeBytes).toBeGreaterThan(0)
      expect(quarantine).toBeUndefined()
    })
  })

  cellServiceBackupsContract(name, make)
  cellServiceBranchesContract(name, make)
  cellServiceWatchContract(name, make)
  cellServiceFilesContract(name, make)
  cellServiceHoldsContract(name, make)
}
