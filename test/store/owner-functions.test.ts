import { getLoadablePath } from 'sqlite-vec'
import { describe, expect, test } from 'vitest'
import { createHandler } from '../../src/http/fetch/fetch-handler.ts'
import { CellStore } from '../../src/store/cell-store.ts'
import type { StoreOptions } from '../../src/store/settings/store-options.ts'
import { openTestCell, openTestStore } from '../support/open-test-store.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { codeOf, rejectedBy, thrownBy } from '../support/thrown.ts'

const VEC = { extensions: [getLoadablePath()] }
const TENANT = { policy: 'tenant' } as const

describe('functions of the owner', () => {
  test('take and give values as rows and parameters do', async () => {
    const seen: unknown[] = []
    const functions = {
      note: (...args: never[]) => void seen.push(...args),
      two: () => 2,
      half: () => 0.5,
      big: () => 9007199254740993n,
      bytes: () => Uint8Array.of(1, 2),
      yes: () => true,
    }
    const { cell } = await openTestCell({
      functions: { ...functions, note: { run: functions.note, varargs: true } },
    })
    cell.sql("SELECT note(1, 9007199254740993, 1.5, 'x', NULL, x'0102')")
    expect(seen).toStrictEqual([1, 9007199254740993n, 1.5, 'x', null, Uint8Array.of(1, 2)])
    expect(
      cell.get(
        'SELECT note() AS note, two() / 4 AS two, half() AS half, big() AS big, bytes() AS bytes, yes() AS yes',
      ),
    ).toStrictEqual({
      note: null,
      two: 0,
      half: 0.5,
      big: 9007199254740993n,
      bytes: Uint8Array.of(1, 2),
      yes: 1,
    })
  })

  test('are there in every cell, and after the pool has reopened one', async () => {
    const { store } = await openTestStore({
      openCellsMax: 1,
      functions: { slug: (text: string) => text.toLowerCase().replaceAll(' ', '-') },
    })
    const cells = [store.createCell(), store.createCell()]
    const statements = cells.map((cell) => cell.prepare('SELECT slug(?)').pluck())
    for (const statement of [...statements, ...statements]) expect(statement.get('A B')).toBe('a-b')
  })

  test('that fail, or give what SQLite can not hold, fail the statement without their message', async () => {
    const cause = new TypeError('the owner’s secret')
    const { cell } = await openTestCell({
      functions: {
        fails: () => {
          throw cause
        },
        odd: () => new Date(0) as never,
        later: (async () => 1) as never,
      },
    })
    const error = thrownBy(() => cell.sql('SELECT fails()'))
    expect(error).toMatchObject({ code: 'sql_error', message: 'The function fails() failed.', cause })
    expect([codeOf(() => cell.sql('SELECT odd()')), codeOf(() => cell.sql('SELECT later()'))]).toEqual([
      'sql_error',
      'sql_error',
    ])
    expect(cell.get('SELECT 1 AS one')).toEqual({ one: 1 })
  })

  test.each<[field: string, options: Record<string, unknown>]>([
    ['functions.upper', { functions: { upper: () => 1 } }],
    ['functions._cell_now', { functions: { _cell_now: () => 1 } }],
    ['functions.a b', { functions: { 'a b': () => 1 } }],
    ['functions.f', { functions: { f: 7 } }],
    ['functions.f.determinstic', { functions: { f: { run: () => 1, determinstic: true } } }],
    ['extensions[0]', { extensions: ['/nowhere/vec0'] }],
    ['extensions[0]', { extensions: [7] }],
    ['tenantFunctions[0]', { functions: { f: () => 1 }, tenantFunctions: ['g'] }],
  ])('a wrong %s is refused at the start', async (field, options) => {
    const error = await rejectedBy(CellStore.create(tempDirectory(), options as StoreOptions))
    expect([error.code, error.details.field]).toEqual(['invalid_setting', field])
  })
})

describe('tenants', () => {
  const functions = {
    secret: () => 's3cret',
    public_one: () => 'public',
    regexp: (pattern: string, text: string) => new RegExp(pattern).test(text),
  }

  test.each([
    'SELECT secret()',
    'SELECT "SECRET" ()',
    'SELECT [secret]/* */(1)',
    'CREATE VIEW v AS SELECT secret() AS s',
    'CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT secret(); END',
    "SELECT 'a' REGEXP 'a'",
    'CREATE VIRTUAL TABLE f USING fts4(a, compress=secret, uncompress=secret)',
    'CREATE VIRTUAL TABLE f USING fts4(a, compress="secret")',
    'SELECT vec_distance_l2(?1, ?1)',
    'SELECT * FROM vec_each',
    'SELECT * FROM "Vec_Each"(?1)',
    'CREATE VIRTUAL TABLE v USING vec0(a float[2])',
  ])('can not call what they were not allowed: %s', async (sql) => {
    const { cell } = await openTestCell({ ...VEC, functions })
    cell.sql('CREATE TABLE t (a)')
    expect(thrownBy(() => cell.sql(sql, [], TENANT)).code).toBe('statement_not_allowed')
  })

  test('can use the same words as names of their own', async () => {
    const { cell } = await openTestCell({ functions })
    cell.sql('CREATE TABLE t (secret TEXT)', [], TENANT)
    cell.sql("INSERT INTO t (secret) VALUES ('secret')", [], TENANT)
    expect(cell.get('SELECT secret FROM t AS regexps', [], TENANT)).toEqual({ secret: 'secret' })
  })

  test('can call what they were allowed by name', async () => {
    const { cell } = await openTestCell({
      ...VEC,
      functions,
      tenantFunctions: ['public_one', 'VEC_distance_cosine', 'vec_each', 'regexp'],
    })
    expect(cell.get('SELECT public_one() AS one', [], TENANT)).toEqual({ one: 'public' })
    expect(cell.get("SELECT 'abc' REGEXP 'b' AS found", [], TENANT)).toEqual({ found: 1 })
    expect(
      cell.get(
        "SELECT vec_distance_cosine('[1, 0]', '[0, 1]') AS d, (SELECT count(*) FROM vec_each('[1, 2]')) AS n",
        [],
        TENANT,
      ),
    ).toEqual({ d: 1, n: 2 })
    expect(codeOf(() => cell.sql('SELECT secret()', [], TENANT))).toBe('statement_not_allowed')
  })

  test('a trusted statement that is in the cache is still refused to a tenant', async () => {
    const { cell } = await openTestCell({ functions })
    expect(cell.get('SELECT secret() AS s')).toEqual({ s: 's3cret' })
    expect(codeOf(() => cell.get('SELECT secret() AS s', [], TENANT))).toBe('statement_not_allowed')
  })

  test('a view or a trigger that was made before the function does not call it', async () => {
    const test = await openTestCell()
    const { id } = test.cell
    test.cell.sql('CREATE VIEW v AS SELECT secret() AS s', [], TENANT)
    const cell = (await test.reopen({ functions })).openCell(id)
    expect(thrownBy(() => cell.sql('SELECT * FROM v', [], TENANT)).message).toContain(
      'unsafe use of secret()',
    )
  })

  test('over HTTP too, where a failed function’s own message is not shown', async () => {
    const { store } = await openTestStore({
      functions: {
        ...functions,
        fails: () => {
          throw new Error('s3cret')
        },
      },
      tenantFunctions: ['public_one', 'fails'],
    })
    const account = store.accounts.create()
    const { key } = store.apiKeys.create(account.id)
    const { id } = store.createCell({ accountId: account.id })
    const handler = createHandler(store)
    const answer = async (sql: string) => {
      const response = await handler(
        new Request(`http://localhost/v1/databases/${id}/sql`, {
          method: 'POST',
          headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
          body: JSON.stringify({ sql }),
        }),
      )
      return { status: response.status, text: await response.text() }
    }
    expect((await answer('SELECT secret()')).status).toBe(403)
    expect((await answer('SELECT public_one() AS one')).text).toContain('public')
    const failed = await answer('SELECT fails()')
    expect(failed.status).toBe(400)
    expect(failed.text).toContain('The function fails() failed.')
    expect(failed.text).not.toContain('s3cret')
  })
})

describe('sqlite-vec', () => {
  const NEAREST =
    'SELECT rowid AS id, distance FROM items WHERE embedding MATCH ? AND k = 2 ORDER BY distance'

  test('finds the nearest neighbours in a cell, also in one that was restored from its backup', async () => {
    const test = await openTestCell({ ...VEC, objectStore: `file://${tempDirectory()}/objects` })
    const { cell, store } = test
    cell.migrate(['CREATE VIRTUAL TABLE items USING vec0(embedding float[3])'])
    const insert = cell.prepare('INSERT INTO items (rowid, embedding) VALUES (?, ?)')
    const vectors = [
      [0, 0, 0],
      [1, 1, 1],
      [5, 5, 5],
      [1, 1, 2],
    ]
    cell.transaction(() => {
      for (const [i, vector] of vectors.entries())
        insert.run(i, new Uint8Array(Float32Array.from(vector).buffer))
    })
    const nearest = [
      { id: 1, distance: 0 },
      { id: 3, distance: 1 },
    ]
    expect(cell.prepare(NEAREST).all('[1, 1, 1]')).toEqual(nearest)
    const { version } = await store.backups.snapshot(cell.id)
    cell.sql('DELETE FROM items')
    expect(cell.prepare(NEAREST).all('[1, 1, 1]')).toEqual([])
    await store.backups.restore(cell.id, { version })
    expect(cell.prepare(NEAREST).all('[1, 1, 1]')).toEqual(nearest)
    expect(cell.sql('PRAGMA integrity_check').rows).toEqual([{ integrity_check: 'ok' }])
  })

  test('a transaction that fails takes its vectors with it', async () => {
    const { cell } = await openTestCell(VEC)
    cell.sql('CREATE VIRTUAL TABLE items USING vec0(embedding float[2])')
    cell.sql('INSERT INTO items (rowid, embedding) VALUES (1, ?)', ['[1, 1]'])
    const undone = new Error('undone')
    expect(() =>
      cell.transaction(() => {
        cell.sql('INSERT INTO items (rowid, embedding) VALUES (2, ?)', ['[2, 2]'])
        throw undone
      }),
    ).toThrow(undone)
    expect(cell.prepare(NEAREST).all('[2, 2]')).toEqual([{ id: 1, distance: expect.closeTo(Math.SQRT2, 6) }])
  })

  test('a CHECK that calls it does not make a backup damaged', async () => {
    const { cell, store } = await openTestCell({ ...VEC, objectStore: `file://${tempDirectory()}/objects` })
    cell.exec(`
      CREATE TABLE items (embedding BLOB CHECK (vec_length(embedding) = 2));
      CREATE INDEX by_length ON items (vec_length(embedding));
      INSERT INTO items VALUES (vec_f32('[1, 2]'));
    `)
    const { version } = await store.backups.snapshot(cell.id)
    cell.sql('DELETE FROM items')
    await store.backups.restore(cell.id, { version })
    expect(cell.get('SELECT vec_to_json(embedding) AS v FROM items')).toEqual({ v: '[1.000000,2.000000]' })
    expect(await store.backups.verify(cell.id, { deep: true })).toMatchObject({ version })
    // The check at the end of the test has no extension.
    cell.sql('DROP TABLE items')
  })

  test('its own tables can not be written from SQL, also after the cell was opened again', async () => {
    const test = await openTestCell(VEC)
    const { id } = test.cell
    test.cell.sql('CREATE VIRTUAL TABLE items USING vec0(embedding float[2])')
    test.cell.sql('INSERT INTO items (rowid, embedding) VALUES (1, ?)', ['[1, 1]'])
    const cell = (await test.reopen()).openCell(id)
    for (const policy of ['tenant', 'trusted'] as const) {
      const write = () => cell.sql("UPDATE items_chunks SET validity = x'00'", [], { policy })
      expect(thrownBy(write).message).toBe('table items_chunks may not be modified')
    }
  })

  test('without the extension, the cell opens and only its vectors are out of reach', async () => {
    const test = await openTestCell(VEC)
    const { id } = test.cell
    test.cell.exec(
      'CREATE TABLE t (a); INSERT INTO t VALUES (1); CREATE VIRTUAL TABLE v USING vec0(a float[2])',
    )
    const cell = (await test.reopen({ extensions: [] })).openCell(id)
    expect(cell.get('SELECT a FROM t')).toEqual({ a: 1 })
    expect(thrownBy(() => cell.sql('SELECT * FROM v')).message).toContain('no such module: vec0')
  })
})
