import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import {
  behindItsIndexes,
  cut,
  damaged,
  foreign,
  leftOvers,
  place,
  text,
  unsafe,
} from '../support/database-files.ts'
import { openTestCell, openTestStore } from '../support/open-test-store.ts'
import { rejectedBy } from '../support/thrown.ts'

describe('an import', () => {
  const tooOld = 'CREATE TABLE _cell_meta (key TEXT NOT NULL PRIMARY KEY, value) WITHOUT ROWID'
  const KV = `CREATE TABLE _cell_kv (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL, expires_at INTEGER,
    version INTEGER NOT NULL) STRICT, WITHOUT ROWID`
  const EXPIRY = 'CREATE INDEX _cell_kv_expiry ON _cell_kv (expires_at) WHERE expires_at IS NOT NULL'
  const whole = (version: number, more = '') =>
    `${tooOld}; INSERT INTO _cell_meta VALUES ('schema_version', ${version}); ${KV}; ${EXPIRY}; ${more}`

  const REFUSED: [string, () => string, RegExp][] = [
    [
      'a text',
      () => text('Not a database, but long enough to hold the header of one. '.repeat(10)),
      /not a SQLite database/,
    ],
    ['an empty file', () => text(''), /not a SQLite database/],
    [
      'half of a database',
      () => cut(foreign('CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(50000))'), 20_480),
      /cannot read it/,
    ],
    ['a page and a half', () => cut(foreign('CREATE TABLE t (a)'), 6_000), /cut off/],
    [
      'damaged pages',
      () =>
        damaged(
          foreign('CREATE TABLE t (a, b); CREATE INDEX i ON t (b); INSERT INTO t VALUES (zeroblob(9000), 1)'),
        ),
      /damaged|cannot read/,
    ],
    [
      'tables that share their pages',
      () => unsafe('CREATE TABLE a (x); CREATE TABLE b (x); UPDATE sqlite_schema SET rootpage = 2'),
      /damaged.*2nd reference/s,
    ],
    ['UTF-16', () => foreign('CREATE TABLE t (a)', "PRAGMA encoding = 'UTF-16le'"), /UTF-16/],
    ['a table of another _cell', () => foreign('CREATE TABLE _cell_other (a)'), /table "_cell_other".*_cell/],
    [
      'tables like ours',
      () =>
        foreign(whole(2).replace('value TEXT NOT NULL,', 'value TEXT NOT NULL CHECK (length(value) < 5),')),
      /"_cell_kv"/,
    ],
    ...(['sqlite_stat1', 'sqlite_stat4'] as const).map((table): [string, () => string, RegExp] => [
      `more rows in ${table} than ANALYZE makes`,
      () =>
        foreign(`CREATE TABLE t (a); CREATE INDEX i ON t (a); INSERT INTO t VALUES (1); ANALYZE;
          WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 200)
          INSERT INTO ${table} (tbl, idx) SELECT 't', 'i' FROM n`),
      /more rows than ANALYZE makes/,
    ]),
    [
      'such rows in a table whose row of the schema has another name',
      () =>
        unsafe(`CREATE TABLE t (a); CREATE INDEX i ON t (a); INSERT INTO t VALUES (1); ANALYZE;
          WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 200)
          INSERT INTO sqlite_stat4 (tbl, idx) SELECT 't', 'i' FROM n;
          UPDATE sqlite_schema SET name = 'sqlite_STAT4', tbl_name = 'sqlite_STAT4' WHERE name = 'sqlite_stat4'`),
      /more rows than ANALYZE makes/,
    ],
    ['a part of our tables', () => foreign(KV), /not complete/],
    [
      'a trigger on our table',
      () => foreign(whole(2, 'CREATE TRIGGER x AFTER INSERT ON _cell_kv BEGIN DELETE FROM _cell_meta; END')),
      /trigger "x"/,
    ],
    ['our tables of another version', () => foreign(whole(99)), /schema version.*99/],
    [
      'an entry that is too large',
      () => foreign(whole(2, "INSERT INTO _cell_kv VALUES (printf('%2000d', 1), 'v', NULL, 1)")),
      /KV entry/,
    ],
    [
      'an entry without a key',
      () => foreign(whole(2, "INSERT INTO _cell_kv VALUES ('', 'v', NULL, 1)")),
      /KV entry/,
    ],
    [
      'a version that is no number',
      () => foreign(whole(2, "UPDATE _cell_meta SET value = '2'")),
      /schema version/,
    ],
    [
      'keys that are not Unicode',
      () => foreign(whole(2, "INSERT INTO _cell_kv VALUES (CAST(x'FF' AS TEXT), 'v', NULL, 1)")),
      /Unicode/,
    ],
    [
      'a value that is not Unicode',
      () => foreign(whole(2, "INSERT INTO _cell_kv VALUES ('k', CAST(x'C0' AS TEXT), NULL, 1)")),
      /Unicode/,
    ],
    [
      'a negative version of an entry',
      () => foreign(whole(2, "INSERT INTO _cell_kv VALUES ('k', 'v', NULL, -1)")),
      /KV entry/,
    ],
    [
      'a name of SQLite',
      () =>
        unsafe(
          "CREATE TABLE t (a); INSERT INTO sqlite_schema VALUES ('table', 'sqlite_x', 'sqlite_x', 2, 'CREATE TABLE sqlite_x (a)')",
        ),
      /SQLite/,
    ],
  ]

  test.each(REFUSED)('refuses %s by name, and leaves nothing', async (_what, make, why) => {
    const test = await openTestStore()
    const refused = await rejectedBy(test.store.importCell(make()))
    expect(refused.code).toBe('invalid_database')
    expect(refused.message).toMatch(why)
    expect(test.store.cells().cells).toEqual([])
    expect(leftOvers(test, 0)).toEqual([])
  })

  const SMUGGLED: [string, string][] = [
    [
      'a trigger that ends transactions',
      'CREATE TABLE t (a); CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT RAISE(ROLLBACK, 1); END',
    ],
    ['a view of an engine’s table', 'CREATE VIEW x AS SELECT * FROM _cell_kv'],
    ['a view of what PRAGMAs tell', 'CREATE VIEW x AS SELECT * FROM pragma_database_list'],
    ['a view that loads', "CREATE VIEW x AS SELECT load_extension('x')"],
    ['a search table of engine’s text', "CREATE VIRTUAL TABLE x USING fts5(a, content='_cell_kv')"],
    ['a view of cell_kv', 'CREATE VIEW x AS SELECT * FROM cell_kv'],
  ]

  test.each(SMUGGLED)('refuses %s under the policy of tenants', async (_what, schema) => {
    const test = await openTestStore()
    const refused = await rejectedBy(test.store.importCell(foreign(schema), { sqlPolicy: 'tenant' }))
    expect(refused).toMatchObject({ code: 'invalid_database', message: expect.stringContaining('"x"') })
    expect(leftOvers(test, 0)).toEqual([])
  })

  const DISGUISED: [string, string, string][] = [
    ['view', 'sqlite_stat1', 'CREATE VIEW sqlite_stat1 AS SELECT * FROM _cell_meta'],
    [
      'trigger',
      'sqlite_sequence',
      'CREATE TRIGGER sqlite_sequence AFTER INSERT ON t BEGIN UPDATE _cell_meta SET value = 99; END',
    ],
    ['table', 'sqlite_stat4', 'CREATE VIRTUAL TABLE sqlite_stat4 USING fts5(a, content=_cell_meta)'],
  ]

  test.each(DISGUISED)('refuses a %s with a name of a table of SQLite', async (type, name, sql) => {
    const test = await openTestStore()
    const table = type === 'trigger' ? 't' : name
    const file = unsafe(
      `CREATE TABLE t (a); INSERT INTO sqlite_schema VALUES ('${type}', '${name}', '${table}', 0, '${sql}')`,
    )
    const refused = await rejectedBy(test.store.importCell(file, { sqlPolicy: 'tenant' }))
    expect(refused).toMatchObject({ code: 'invalid_database', message: expect.stringContaining(name) })
    expect(leftOvers(test, 0)).toEqual([])
  })

  test.each([
    ['a definition that is a blob', "sql = CAST(sql AS BLOB) WHERE name = 'x'"],
    [
      'a forbidden name that is a blob',
      "name = CAST('_cell_x' AS BLOB), tbl_name = '_cell_x', sql = 'CREATE VIEW _cell_x AS SELECT 1' WHERE name = 'x'",
    ],
    ['a view that a copy would leave out', "type = 'VIEW' WHERE name = 'x'"],
    ['an index that a copy would leave out', "type = 'INDEX' WHERE name = '_cell_kv_expiry'"],
  ])('refuses %s: SQLite reads such a row of the schema, and never writes one', async (_what, change) => {
    const test = await openTestStore()
    const file = unsafe(`${whole(2)}; CREATE VIEW x AS SELECT 1; UPDATE sqlite_schema SET ${change}`)
    for (const sqlPolicy of ['tenant', 'trusted'] as const)
      await expect(test.store.importCell(file, { sqlPolicy })).rejects.toMatchObject({
        code: 'invalid_database',
        message: expect.stringContaining('row of its schema'),
      })
    expect(leftOvers(test, 0)).toEqual([])
  })

  test('refuses settings of a search table that the policy refuses as commands', async () => {
    const { store } = await openTestStore()
    const search = (command: string) =>
      foreign(`CREATE VIRTUAL TABLE t USING fts5(a); INSERT INTO t(t, rank) VALUES (${command})`)
    const refused = await rejectedBy(
      store.importCell(search("'crisismerge', 1000000"), { sqlPolicy: 'tenant' }),
    )
    expect(refused).toMatchObject({
      code: 'invalid_database',
      message: expect.stringContaining('"t_config"'),
    })
    const allowed = await store.importCell(search("'secure-delete', 1"), { sqlPolicy: 'tenant' })
    expect(allowed.name).toBeNull()
  })

  test('refuses a view in place of a table of a search table: SQLite would run it in each check', async () => {
    const { store } = await openTestStore()
    const view = 'CREATE VIEW T_config AS SELECT 1 AS k, 1 AS v'
    const file = unsafe(
      `CREATE VIRTUAL TABLE t USING fts5(a); DELETE FROM sqlite_schema WHERE name = 't_config';
       INSERT INTO sqlite_schema VALUES ('view', 'T_config', 'T_config', 0, '${view}')`,
    )
    for (const sqlPolicy of ['tenant', 'trusted'] as const)
      await expect(store.importCell(file, { sqlPolicy })).rejects.toMatchObject({
        code: 'invalid_database',
        message: expect.stringContaining('"T_config" is a view'),
      })
  })

  test('refuses a virtual table in place of a table of a search table: its own check would begin another one', async () => {
    const { store } = await openTestStore()
    const inner = 'CREATE VIRTUAL TABLE T_config USING fts5(k, v)'
    const file = unsafe(
      `CREATE VIRTUAL TABLE t USING fts5(a); DELETE FROM sqlite_schema WHERE name = 't_config';
       INSERT INTO sqlite_schema VALUES ('table', 'T_config', 'T_config', 0, '${inner}')`,
    )
    for (const sqlPolicy of ['tenant', 'trusted'] as const)
      await expect(store.importCell(file, { sqlPolicy })).rejects.toMatchObject({
        code: 'invalid_database',
        message: expect.stringContaining('"T_config" is a virtual table in place of'),
      })
  })

  test('rebuilds the engine’s index: one that names entries which are not there would be collected forever', async () => {
    const { store } = await openTestStore()
    const filled = foreign(whole(2, "INSERT INTO _cell_kv VALUES ('k', 'v', 1000, 1)"))
    const cell = await store.importCell(behindItsIndexes(filled, 'DELETE FROM _cell_kv'))
    const oldest = `SELECT min(expires_at) FROM _cell_kv INDEXED BY _cell_kv_expiry WHERE expires_at IS NOT NULL`
    expect(cell.prepare(oldest).raw().get()).toEqual([null])
  })

  test('refuses an index that does not agree with its table, as a proof of its backups would', async () => {
    const { store } = await openTestStore()
    const filled = foreign('CREATE TABLE t (a, b); CREATE INDEX i ON t (b); INSERT INTO t VALUES (1, 2)')
    const refused = await rejectedBy(store.importCell(behindItsIndexes(filled, 'UPDATE t SET b = 3')))
    expect(refused).toMatchObject({ code: 'invalid_database', message: expect.stringContaining('index i') })
  })

  test('refuses functions of the owner under the policy of tenants, and takes them under the other', async () => {
    const test = await openTestStore({ functions: { secret: () => 42 } })
    const file = foreign('CREATE VIEW x AS SELECT secret() AS s')
    const refused = await rejectedBy(test.store.importCell(file, { sqlPolicy: 'tenant' }))
    expect(refused).toMatchObject({ code: 'invalid_database', message: expect.stringContaining('secret()') })
    const cell = await test.store.importCell(file)
    expect(cell.name).toBeNull()
  })

  test('is bounded in its size and in the length of its schema', async () => {
    const test = await openTestStore({ limits: { cellBytesMax: 100_000, schemaBytesMax: 1_000 } })
    const large = foreign('CREATE TABLE t (a); INSERT INTO t VALUES (zeroblob(200000))')
    expect(await rejectedBy(test.store.importCell(large))).toMatchObject({ code: 'body_too_large' })
    const long = foreign(`CREATE TABLE t (${Array.from({ length: 300 }, (_, i) => `c${i}`).join(', ')})`)
    expect(await rejectedBy(test.store.importCell(long))).toMatchObject({
      code: 'invalid_database',
      message: expect.stringContaining('limits.schemaBytesMax'),
    })
    expect(leftOvers(test, 0)).toEqual([])
  })

  test('refuses a file whose log lies next to it, and a file of the store itself', async () => {
    const { cell, store, directory } = await openTestCell()
    cell.kv.put('k', 'v')
    const file = place()
    const open = new Database(file)
    open.exec('PRAGMA journal_mode = WAL; CREATE TABLE t (a)')
    expect(await rejectedBy(store.importCell(file))).toMatchObject({
      code: 'invalid_database',
      message: expect.stringContaining('file.db-wal'),
    })
    open.close()
    const own = new StorePaths(directory).cell(cell.id).database
    expect(await rejectedBy(store.importCell(own))).toMatchObject({ code: 'invalid_request' })
  })

  test('reads nothing if its name is taken, and makes no cell if the name is taken meanwhile', async () => {
    const test = await openTestStore()
    test.store.cell('acme')
    expect(await rejectedBy(test.store.importCell('/nowhere', { name: 'acme' }))).toMatchObject({
      code: 'name_taken',
    })
    const file = foreign('CREATE TABLE t (a)')
    const importing = test.store.importCell(file, { name: 'new', onBytes: () => test.store.cell('new') })
    expect(await rejectedBy(importing)).toMatchObject({ code: 'name_taken' })
    expect(test.store.cells().cells).toHaveLength(2)
    expect(leftOvers(test, 2)).toEqual([])
  })

  test('is ended by its signal', async () => {
    const test = await openTestStore()
    const abort = new AbortController()
    const reason = new Error('enough')
    const importing = test.store.importCell(foreign('CREATE TABLE t (a)'), {
      signal: abort.signal,
      onBytes: () => abort.abort(reason),
    })
    await expect(importing).rejects.toThrow()
    expect(leftOvers(test, 0)).toEqual([])
  })
})
