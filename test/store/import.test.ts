import fs from 'node:fs'
import path from 'node:path'
import { Readable } from 'node:stream'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { openConnection } from '../../src/engine/sqlite.ts'
import { foreign, leftOvers, place } from '../support/database-files.ts'
import { openTestCell, openTestStore } from '../support/open-test-store.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { rejectedBy } from '../support/thrown.ts'

const NO_SCHEDULE = { snapshotEveryMs: null, incrementalEveryMs: null, drillEveryMs: null }

function abortable() {
  const controller = new AbortController()
  return { signal: controller.signal, abort: () => controller.abort(new Error('enough')) }
}

describe('an import', () => {
  test('takes an export, with its entries and their times to live', async () => {
    const { cell, store, clock } = await openTestCell()
    cell.exec('CREATE TABLE t (a); INSERT INTO t VALUES (1);')
    cell.kv.put('stays', 'v')
    cell.kv.put('goes', 'v', { ttlSeconds: 60 })
    const file = place()
    await cell.export(file)
    const copy = await store.importCell(file, { name: 'copy' })
    expect(store.cell('copy').id).toBe(copy.id)
    expect(copy.sql('SELECT a FROM t').rows).toEqual([{ a: 1 }])
    expect(copy.kv.get('stays')).toBe('v')
    expect(copy.kv.ttl(['stays', 'goes'])).toEqual([-1, 60])
    clock.advance(60_000)
    expect(copy.kv.get('goes')).toBeUndefined()
    copy.kv.put('new', 'v')
    expect(cell.kv.get('new')).toBeUndefined()
  })

  test('takes a database that was made elsewhere: in WAL mode, with other pages, rows of every type, and FTS5', async () => {
    const { store } = await openTestStore()
    const file = foreign(
      `CREATE TABLE t (a INTEGER PRIMARY KEY, b, c, d, e); CREATE TABLE implicit (a);
       INSERT INTO t VALUES (1, 'text', 2.5, x'00ff', NULL), (9007199254740993, 'ä', -1e300, x'', 0);
       INSERT INTO implicit (rowid, a) VALUES (5, 'five'), (90, 'ninety'); DELETE FROM implicit WHERE rowid = 5;
       CREATE VIRTUAL TABLE docs USING fts5(body); INSERT INTO docs VALUES ('the quick brown fox');
       CREATE VIEW v AS SELECT a FROM t; CREATE TABLE log (n);
       CREATE TRIGGER tr AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.a); END;
       PRAGMA user_version = 7;`,
      'PRAGMA page_size = 1024; PRAGMA auto_vacuum = FULL; PRAGMA journal_mode = WAL',
    )
    const cell = await store.importCell(file)
    expect(cell.sql('SELECT * FROM t', [], { rowMode: 'array' }).rows).toEqual([
      [1, 'text', 2.5, new Uint8Array([0, 255]), null],
      [9_007_199_254_740_993n, 'ä', -1e300, new Uint8Array(), 0],
    ])
    expect(cell.sql('SELECT rowid AS n, a FROM implicit').rows).toEqual([{ n: 90, a: 'ninety' }])
    expect(cell.sql("SELECT rowid AS n FROM docs WHERE docs MATCH 'fox'").rows).toEqual([{ n: 1 }])
    expect(cell.sql('PRAGMA user_version').rows).toEqual([{ user_version: 7 }])
    expect(cell.sql('PRAGMA page_size').rows).toEqual([{ page_size: 4_096 }])
    cell.sql("INSERT INTO t VALUES (2, 'b', 1, NULL, NULL)")
    expect(cell.sql('SELECT n FROM log').rows).toEqual([{ n: 2 }])
    cell.kv.put('k', 'v')
    expect(cell.kv.get('k')).toBe('v')
  })

  test('keeps the statistics that ANALYZE has made: the planner goes on with the same plans', async () => {
    const { store } = await openTestStore()
    const file = foreign(
      `CREATE TABLE t (a, b); CREATE INDEX common ON t (b); CREATE INDEX rare ON t (a);
       WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000) INSERT INTO t SELECT i, i % 2 FROM n;
       ANALYZE`,
    )
    const queries = [
      'SELECT * FROM sqlite_stat1 ORDER BY idx',
      'SELECT idx, neq, nlt, ndlt, hex(sample) FROM sqlite_stat4 ORDER BY idx, nlt',
      'EXPLAIN QUERY PLAN SELECT * FROM t WHERE a = 1 AND b = 1',
    ]
    const cell = await store.importCell(file)
    const source = openConnection(file, { readonly: true })
    for (const query of queries) {
      const rows = source.prepare(query).raw().all()
      expect(rows).not.toEqual([])
      expect(cell.sql(query, [], { rowMode: 'array' }).rows).toEqual(rows)
    }
    source.close()
  })

  test('takes a stream, and stops reading at the limit', async () => {
    const test = await openTestStore()
    const file = foreign('CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(100000))')
    const cell = await test.store.importCell(fs.createReadStream(file))
    expect(cell.get('SELECT length(a) AS n FROM t')).toEqual({ n: 100_000 })
    let read = 0
    const endless = Readable.from(
      (function* () {
        for (;;) {
          read++
          yield Buffer.alloc(10_000)
        }
      })(),
    )
    const refused = await rejectedBy(test.store.importCell(endless, { bytesMax: 50_000 }))
    expect(refused).toMatchObject({ code: 'body_too_large', details: { limit: 50_000 } })
    expect(read).toBeLessThan(100)
    expect(test.store.cells().cells).toHaveLength(1)
    expect(leftOvers(test, 1)).toEqual([])
  })

  test.each<[string, object]>([
    ['bytesMax', { bytesMax: Number.NaN }],
    ['bytesMax', { bytesMax: '10' }],
    ['signal', { signal: {} }],
    ['onBytes', { onBytes: 'bytes' }],
  ])('names %s of the wrong kind: a bound that is no number bounded nothing', async (field, options) => {
    const test = await openTestStore()
    const refused = await rejectedBy(test.store.importCell(Readable.from([]), options))
    expect(refused).toMatchObject({ code: 'invalid_request', details: { field } })
    expect(leftOvers(test, 0)).toEqual([])
  })

  test.each<[string, unknown]>([
    ['words, whose number is not that of their bytes', new Uint16Array(100)],
    ['a view, which has no length', new DataView(new ArrayBuffer(100))],
    ['nothing', null],
  ])('refuses a source that gives %s', async (_what, chunk) => {
    const test = await openTestStore()
    const source = (async function* () {
      yield chunk as Uint8Array
    })()
    const refused = await rejectedBy(test.store.importCell(source, { bytesMax: 150 }))
    expect(refused).toMatchObject({ code: 'invalid_request', details: { field: 'source' } })
    expect(leftOvers(test, 0)).toEqual([])
  })

  test('ends with its signal, also if its source gives nothing more, and leaves nothing', async () => {
    const test = await openTestStore()
    const { signal, abort } = abortable()
    const stalled = (async function* () {
      yield fs.readFileSync(foreign('CREATE TABLE t (a)')).subarray(0, 100)
      await new Promise(() => setImmediate(abort))
    })()
    await expect(test.store.importCell(stalled, { name: 'stalled', signal })).rejects.toThrow('enough')
    expect(test.store.cells().cells).toEqual([])
    expect(leftOvers(test, 0)).toEqual([])
  })

  test('is backed up as a base, and restored', async () => {
    const objectStore = pathToFileURL(path.join(tempDirectory(), 'objects')).href
    const { store } = await openTestStore({ objectStore, backups: NO_SCHEDULE })
    const cell = await store.importCell(foreign('CREATE TABLE t (a); INSERT INTO t VALUES (1)'))
    expect(store.core.destination?.progress.find(cell.id)).toMatchObject({ dirty: true, chain: null })
    expect(await store.backups.incremental(cell.id)).toMatchObject({ kind: 'incremental', baseVersion: null })
    cell.sql('DELETE FROM t')
    await store.backups.restore(cell.id)
    expect(cell.sql('SELECT a FROM t').rows).toEqual([{ a: 1 }])
  })
})
