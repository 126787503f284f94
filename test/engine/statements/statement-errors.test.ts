import { describe, expect, test } from 'vitest'
import { openTestDatabase } from '../../support/open-test-database.ts'
import { codeOf, thrownBy } from '../../support/thrown.ts'

describe('the text', () => {
  test('may be as long as the limit in bytes, and not one byte longer', () => {
    const database = openTestDatabase({ limits: { sqlBytesMax: 50 } })
    const sql = (bytes: number) => {
      const text = "SELECT 'é' AS a -- "
      return text + 'x'.repeat(bytes - Buffer.byteLength(text))
    }
    expect(database.sql(sql(50)).rows).toEqual([{ a: 'é' }])
    expect(thrownBy(() => database.sql(sql(51)))).toMatchObject({
      code: 'sql_too_long',
      details: { limit: 50 },
    })
  })

  test('is measured in UTF-8, not in characters', () => {
    const database = openTestDatabase({ limits: { sqlBytesMax: 30 } })
    const sql = `SELECT '${'é'.repeat(11)}'`
    expect(sql.length).toBeLessThan(30)
    expect(codeOf(() => database.sql(sql))).toBe('sql_too_long')
  })

  test.each(['', '   ', ';', ' ;; ', '-- only a comment', '/* so is this */', '\n\t'])(
    'of nothing but blanks is an error (%j)',
    (sql) => {
      expect(codeOf(() => openTestDatabase().sql(sql))).toBe('sql_error')
    },
  )

  test.each(['SELECT 1; SELECT 2', 'SELECT 1;;SELECT 2', 'CREATE TABLE a (b); DROP TABLE a'])(
    'of more than one statement is refused, and none of it has run (%s)',
    (sql) => {
      const database = openTestDatabase()
      expect(codeOf(() => database.sql(sql))).toBe('multiple_statements')
      expect(database.sql("SELECT name FROM sqlite_schema WHERE name = 'a'").rows).toEqual([])
    },
  )

  test.each(['SELECT 1;', 'SELECT 1 ; -- done', 'SELECT 1;;; /* done */'])(
    'may end in a semicolon (%s)',
    (sql) => {
      expect(openTestDatabase().sql(sql).rows).toEqual([{ 1: 1 }])
    },
  )

  test.each([undefined, null, 7, {}, ['SELECT 1']])('that is no text is refused (%s)', (sql) => {
    expect(thrownBy(() => openTestDatabase().sql(sql as never))).toMatchObject({
      code: 'invalid_request',
      details: { field: 'sql' },
    })
  })

  test('with a lone surrogate is refused', () => {
    expect(codeOf(() => openTestDatabase().sql("SELECT '\udc00'"))).toBe('invalid_request')
  })
})

describe('what SQLite refuses', () => {
  test.each([
    ['a syntax error', 'SELEC 1'],
    ['no such table', 'SELECT * FROM nowhere'],
    ['no such column', 'SELECT nothing'],
    ['no such function', 'SELECT nothing()'],
    ['a function’s own error', "SELECT json('{')"],
  ])('%s is an sql_error with SQLite’s code', (_what, sql) => {
    const error = thrownBy(() => openTestDatabase().sql(sql))
    expect(error).toMatchObject({ code: 'sql_error', details: { sqliteCode: 'SQLITE_ERROR' } })
    expect(error.cause).toBeDefined()
  })

  test.each([
    ['SQLITE_CONSTRAINT_PRIMARYKEY', 'INSERT INTO t (id, u, c) VALUES (1, 9, 1)'],
    ['SQLITE_CONSTRAINT_UNIQUE', 'INSERT INTO t (id, u, c) VALUES (2, 1, 1)'],
    ['SQLITE_CONSTRAINT_NOTNULL', 'INSERT INTO t (id, u, c) VALUES (2, NULL, 1)'],
    ['SQLITE_CONSTRAINT_CHECK', 'INSERT INTO t (id, u, c) VALUES (2, 9, -1)'],
    ['SQLITE_CONSTRAINT_FOREIGNKEY', 'INSERT INTO t (id, u, c, parent) VALUES (2, 9, 1, 77)'],
    ['SQLITE_CONSTRAINT_TRIGGER', 'INSERT INTO t (id, u, c) VALUES (2, 13, 1)'],
    ['SQLITE_CONSTRAINT_DATATYPE', "INSERT INTO strict VALUES ('x')"],
    ['SQLITE_CONSTRAINT_ROWID', 'INSERT INTO plain (rowid) VALUES (1)'],
    ['SQLITE_CONSTRAINT_UNIQUE', 'INSERT INTO t (id, u, c) VALUES (2, 1, 1) RETURNING id'],
  ])('%s is a constraint_violation that says so', (sqliteCode, sql) => {
    const database = openTestDatabase()
    database.exec(`
      CREATE TABLE t (id INTEGER PRIMARY KEY, u NOT NULL UNIQUE, c CHECK (c > 0), parent REFERENCES t);
      CREATE TRIGGER no_thirteen BEFORE INSERT ON t WHEN new.u = 13 BEGIN SELECT RAISE(ABORT, 'bad luck'); END;
      CREATE TABLE strict (a INTEGER) STRICT;
      CREATE TABLE plain (a);
      INSERT INTO t VALUES (1, 1, 1, NULL);
      INSERT INTO plain VALUES (1);
    `)
    expect(thrownBy(() => database.sql(sql))).toMatchObject({
      code: 'constraint_violation',
      details: { sqliteCode },
    })
    expect(database.sql('SELECT count(*) AS n FROM t').rows).toEqual([{ n: 1 }])
  })

  test('a value too large for memory is result_memory_exceeded', () => {
    expect(codeOf(() => openTestDatabase().sql('SELECT zeroblob(600000000)'))).toBe('result_memory_exceeded')
  })

  test('a full-text index that is out of step is an sql_error, and does not quarantine the cell', () => {
    const database = openTestDatabase()
    database.sql('CREATE TABLE content (id INTEGER PRIMARY KEY, body)')
    database.sql("CREATE VIRTUAL TABLE f USING fts5(body, content='content', content_rowid='id')")
    database.sql("INSERT INTO f (rowid, body) VALUES (1, 'never in content')")
    const check = "INSERT INTO f (f, rank) VALUES ('integrity-check', 1)"
    expect(thrownBy(() => database.sql(check))).toMatchObject({
      code: 'sql_error',
      details: { sqliteCode: 'SQLITE_CORRUPT_VTAB' },
    })
    expect(database.sql('SELECT 1 AS one').rows).toEqual([{ one: 1 }])
  })

  test('a closed cell says so', () => {
    const database = openTestDatabase()
    database.close()
    expect(codeOf(() => database.sql('SELECT 1'))).toBe('store_closed')
    expect(codeOf(() => database.transaction(() => 1))).toBe('store_closed')
    expect(codeOf(() => database.write(() => 1))).toBe('store_closed')
  })
})
