import { describe, expect, test } from 'vitest'
import { openTestDatabase } from '../../support/open-test-database.ts'

describe('columns', () => {
  test('a duplicate name gets a number that hides no real one', () => {
    const { columns, rows } = openTestDatabase().sql('SELECT 1 AS a, 2 AS a, 3 AS a_2, 4 AS a, 5 AS a_3')
    expect(columns).toEqual(['a', 'a_4', 'a_2', 'a_5', 'a_3'])
    expect(rows).toEqual([{ a: 1, a_4: 2, a_2: 3, a_5: 4, a_3: 5 }])
  })

  test('the second of two is name_2', () => {
    const database = openTestDatabase()
    database.sql('CREATE TABLE t (id INTEGER, name TEXT)')
    database.sql("INSERT INTO t VALUES (1, 'x'), (2, 'y')")
    const { columns, rows } = database.sql('SELECT * FROM t a JOIN t b ON a.id < b.id')
    expect(columns).toEqual(['id', 'name', 'id_2', 'name_2'])
    expect(rows).toEqual([{ id: 1, name: 'x', id_2: 2, name_2: 'y' }])
  })

  test('one called __proto__ is a member like any other, and changes no prototype', () => {
    const { rows } = openTestDatabase().sql('SELECT x\'00\' AS "__proto__", \'x\' AS "constructor"')
    const [row] = rows
    expect(Object.keys(row ?? {})).toEqual(['__proto__', 'constructor'])
    expect(Object.getPrototypeOf(row)).toBe(Object.prototype)
    expect(Object.getOwnPropertyDescriptor(row, '__proto__')?.value).toEqual(Uint8Array.of(0))
  })

  test('an empty result has its columns', () => {
    const database = openTestDatabase()
    database.sql('CREATE TABLE t (a, b)')
    expect(database.sql('SELECT * FROM t')).toEqual({
      columns: ['a', 'b'],
      rows: [],
      changes: 0,
      lastInsertRowid: null,
    })
  })

  test('what is returned is the caller’s own: changing it changes nothing else', () => {
    const database = openTestDatabase()
    const first = database.sql('SELECT 1 AS a')
    first.columns.push('b')
    expect(database.sql('SELECT 1 AS a').columns).toEqual(['a'])
  })

  test('rows as arrays have their values in column order', () => {
    const { columns, rows } = openTestDatabase().sql('SELECT 1 AS a, 2 AS a', [], { rowMode: 'array' })
    expect({ columns, rows }).toEqual({ columns: ['a', 'a_2'], rows: [[1, 2]] })
  })

  test('a statement without rows has no columns', () => {
    expect(openTestDatabase().sql('CREATE TABLE t (a)')).toEqual({
      columns: [],
      rows: [],
      changes: 0,
      lastInsertRowid: null,
    })
  })
})

describe('changes', () => {
  test('count the rows of an INSERT, UPDATE and DELETE', () => {
    const database = openTestDatabase()
    database.sql('CREATE TABLE t (a)')
    expect(database.sql('INSERT INTO t VALUES (1), (2), (3)').changes).toBe(3)
    expect(database.sql('UPDATE t SET a = a + 1 WHERE a > 1').changes).toBe(2)
    expect(database.sql('DELETE FROM t').changes).toBe(3)
    expect(database.sql('DELETE FROM t').changes).toBe(0)
  })

  test.each([
    'SELECT 1',
    'EXPLAIN INSERT INTO t VALUES (1)',
    'PRAGMA user_version = 7',
    'PRAGMA user_version',
    'PRAGMA optimize',
    'PRAGMA foreign_key_check',
    'CREATE INDEX i ON t (a)',
    'ALTER TABLE t ADD COLUMN b',
    'ANALYZE',
    'REINDEX',
    'UPDATE t SET a = 1 WHERE 0',
    'UPDATE t SET a = 1 WHERE 0 RETURNING a',
    'DROP TABLE t',
  ])('are 0 after %s, whatever was changed before', (sql) => {
    const database = openTestDatabase()
    database.sql('CREATE TABLE t (a)')
    database.sql('INSERT INTO t VALUES (1), (2), (3)')
    expect(database.sql(sql)).toMatchObject({ changes: 0, lastInsertRowid: null })
  })

  test('with RETURNING the rows come back and are counted', () => {
    const database = openTestDatabase()
    database.sql('CREATE TABLE t (id INTEGER PRIMARY KEY, a)')
    expect(database.sql("INSERT INTO t (a) VALUES ('x'), ('y') RETURNING id, a")).toEqual({
      columns: ['id', 'a'],
      rows: [
        { id: 1, a: 'x' },
        { id: 2, a: 'y' },
      ],
      changes: 2,
      lastInsertRowid: 2,
    })
    expect(database.sql('DELETE FROM t RETURNING id')).toMatchObject({ changes: 2, lastInsertRowid: null })
  })
})

describe('lastInsertRowid', () => {
  test('is exact to 64 bits', () => {
    const database = openTestDatabase()
    database.sql('CREATE TABLE t (id INTEGER PRIMARY KEY)')
    for (const id of [2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n), -(2n ** 53n) - 1n]) {
      expect(database.sql('INSERT INTO t VALUES (?)', [id]).lastInsertRowid).toBe(id)
    }
    expect(database.sql('INSERT INTO t VALUES (?) RETURNING id', [2n ** 53n + 3n]).lastInsertRowid).toBe(
      2n ** 53n + 3n,
    )
    expect(database.sql('INSERT INTO t VALUES (7)').lastInsertRowid).toBe(7)
  })

  /** Each on a table `t (id INTEGER PRIMARY KEY, a)` that holds row 1, and `w` without rowid; another row was just inserted. */
  const NONE_INSERTED = [
    'UPDATE t SET a = 2',
    'DELETE FROM t',
    "INSERT OR IGNORE INTO t VALUES (1, 'x')",
    "INSERT INTO t VALUES (1, 'x') ON CONFLICT DO NOTHING",
    "INSERT INTO t VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET a = excluded.a",
    "INSERT INTO t VALUES (1, 'x') ON CONFLICT (id) DO UPDATE SET a = excluded.a RETURNING a",
    "WITH v(i, a) AS (VALUES (1, 'x')) INSERT INTO t SELECT * FROM v WHERE true ON CONFLICT (id) DO UPDATE SET a = excluded.a",
    'INSERT INTO t SELECT 5, 5 WHERE 0',
    "INSERT INTO w VALUES ('k')",
    "INSERT INTO main.w VALUES ('k')",
    'INSERT INTO "W" VALUES (\'k\') RETURNING k',
    "REPLACE INTO w VALUES ('k')",
    "INSERT INTO v VALUES ('x')",
  ]
  test.each(NONE_INSERTED)('is null after %s', (sql) => {
    const database = openTestDatabase()
    database.sql('CREATE TABLE t (id INTEGER PRIMARY KEY, a)')
    database.sql('CREATE TABLE w (k TEXT PRIMARY KEY) WITHOUT ROWID')
    database.sql('CREATE VIEW v AS SELECT a FROM t')
    database.sql('CREATE TRIGGER vi INSTEAD OF INSERT ON v BEGIN INSERT INTO t (a) VALUES (new.a); END')
    database.sql("INSERT INTO t VALUES (1, 'x')")
    database.sql('CREATE TABLE other (a)')
    database.sql('INSERT INTO other VALUES (1), (2), (3)')
    expect(database.sql(sql).lastInsertRowid).toBeNull()
  })

  test('an upsert that inserts has it, also where the table before gave out the same', () => {
    const database = openTestDatabase()
    for (const table of ['a', 'b']) {
      database.sql(`CREATE TABLE ${table} (id INTEGER PRIMARY KEY, n UNIQUE)`)
      const upsert = `INSERT INTO ${table} (n) VALUES (1) ON CONFLICT (n) DO UPDATE SET n = excluded.n`
      expect(database.sql(upsert).lastInsertRowid).toBe(1)
      expect(database.sql(upsert).lastInsertRowid).toBeNull()
    }
  })

  test('REPLACE of the same row has it each time', () => {
    const database = openTestDatabase()
    database.sql('CREATE TABLE t (id INTEGER PRIMARY KEY, a)')
    for (const sql of ["REPLACE INTO t VALUES (3, 'x')", "INSERT OR REPLACE INTO t VALUES (3, 'y')"]) {
      expect(database.sql(sql).lastInsertRowid).toBe(3)
      expect(database.sql(sql).lastInsertRowid).toBe(3)
    }
  })

  test("SQL's own last_insert_rowid() is that of the last row inserted, also after an upsert that only updated", () => {
    const database = openTestDatabase()
    database.sql('CREATE TABLE t (id INTEGER PRIMARY KEY, a)')
    database.sql('INSERT INTO t (id) VALUES (41)')
    database.sql('INSERT INTO t (id) VALUES (42)')
    database.sql('INSERT INTO t (id) VALUES (41) ON CONFLICT (id) DO UPDATE SET a = 1')
    expect(database.sql('SELECT last_insert_rowid() AS id').rows).toEqual([{ id: 42 }])
  })

  test('an insert into a virtual table has it', () => {
    const database = openTestDatabase()
    database.sql('CREATE VIRTUAL TABLE f USING fts5(body)')
    expect(database.sql("INSERT INTO f (rowid, body) VALUES (17, 'x')")).toMatchObject({
      changes: 1,
      lastInsertRowid: 17,
    })
  })
})

test('an INSERT works in a cell that has tables called like the functions that the engine asks for its schema', () => {
  const database = openTestDatabase()
  for (const name of ['pragma_table_list', 'pragma_table_xinfo']) database.sql(`CREATE TABLE ${name} (a)`)
  database.sql('CREATE TABLE t (a UNIQUE)')
  const upsert = 'INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING'
  expect(database.sql(upsert, [], { policy: 'tenant' }).lastInsertRowid).toBe(1)
  expect(database.sql('DROP TABLE pragma_table_list', [], { policy: 'tenant' }).rows).toEqual([])
})

test.each(['PRAGMA optimize = 0x10002', 'SELECT * FROM pragma_optimize(0x10002)'])(
  '%s, which SQLite takes for a read, counts as the change that it makes',
  (sql) => {
    let changes = 0
    const database = openTestDatabase({ hooks: { changed: () => void changes++ } })
    database.sql('CREATE TABLE t (a)')
    database.sql('CREATE INDEX ta ON t (a)')
    database.sql('INSERT INTO t VALUES (1), (2)')
    database.dirty = false
    const before = changes
    database.sql(sql)
    expect(database.sql("SELECT count(*) AS n FROM sqlite_stat1 WHERE tbl = 't'").rows).toEqual([{ n: 1 }])
    expect([changes - before, database.dirty]).toEqual([1, true])
  },
)

test.each(['tenant', 'trusted'] as const)(
  'EXPLAIN shows nobody where in memory a virtual table is (%s)',
  (policy) => {
    const database = openTestDatabase()
    database.sql('CREATE VIRTUAL TABLE ft USING fts5(a)')
    for (const sql of ['SELECT * FROM ft', "INSERT INTO ft VALUES ('vtab:1F')", 'DELETE FROM ft']) {
      const { rows } = database.sql(`EXPLAIN ${sql}`, [], { policy })
      const shown = rows.map(({ p4 }) => p4).filter((p4) => String(p4).startsWith('vtab'))
      expect(new Set(shown)).toEqual(new Set(sql.includes('1F') ? ['vtab', 'vtab:1F'] : ['vtab']))
    }
  },
)
