import { describe, expect, onTestFinished, test } from 'vitest'
import { checkStatement } from '../../../src/engine/sql-policy/sql-policy.ts'
import { SqlStatement } from '../../../src/engine/sql-policy/sql-statement.ts'
import { isCellError } from '../../../src/errors.ts'
import { HONEST_SQL } from '../../support/sql/honest-sql.ts'
import { ALLOWED, FORBIDDEN } from '../../support/sql/sql-statements.ts'
import { TenantDatabase } from '../../support/sql/tenant-database.ts'

function openTenantDatabase(): TenantDatabase {
  const database = new TenantDatabase()
  onTestFinished(() => database.close())
  return database
}

/** The message of the refusal; undefined if the policy lets the text through. */
function refusal(sql: string): string | undefined {
  const statement = new SqlStatement(sql)
  try {
    checkStatement(statement.takeTokens(), statement.head)
  } catch (error) {
    expect(isCellError(error, 'statement_not_allowed'), String(error)).toBe(true)
    return (error as Error).message
  }
  return undefined
}

describe('what a statement is', () => {
  test.each([
    ['SELECT 1', 'SELECT'],
    [' ;;\uFEFF/* DROP */ --x\n select 1', 'SELECT'],
    ['VALUES(1)', 'VALUES'],
    ['RePlAcE INTO t VALUES (1)', 'REPLACE'],
    ['WITH x AS (SELECT 1) SELECT * FROM x', 'SELECT'],
    [
      'WITH RECURSIVE x(n) AS NOT MATERIALIZED (SELECT ((1))), y AS MATERIALIZED (SELECT 2) UPDATE t SET a = 1',
      'UPDATE',
    ],
    ['WITH replace AS (SELECT 1), "x(" AS (SELECT \')\') DELETE FROM t', 'DELETE'],
    ['WITH x AS (SELECT 1) ATTACH', 'WITH'],
    ['WITH x', 'WITH'],
    ['WITH x AS (SELECT (1', 'WITH'],
    ['PRAGMA user_version', 'PRAGMA'],
    ['attach x', 'ATTACH'],
    ['(SELECT 1)', 'UNKNOWN'],
    ['"SELECT" 1', 'UNKNOWN'],
    ['SELECTED', 'UNKNOWN'],
    ['\u017FELECT 1', 'UNKNOWN'],
    ['\vSELECT 1', 'UNKNOWN'],
    ['', 'BLANK'],
    [' ; -- SELECT\n /* x */ ;', 'BLANK'],
    ['\0SELECT 1', 'BLANK'],
  ])('%j is %s', (sql, verb) => {
    expect(new SqlStatement(sql).head).toMatchObject({ verb, explain: false })
  })

  test.each([
    ['EXPLAIN SELECT 1', 'SELECT'],
    ['explain query plan DELETE FROM t', 'DELETE'],
    ['EXPLAIN', 'BLANK'],
    ['EXPLAIN WITH x AS (SELECT 1) SELECT 1', 'SELECT'],
  ])('%j explains %s', (sql, verb) => {
    expect(new SqlStatement(sql).head).toMatchObject({ verb, explain: true })
    expect(refusal(sql)).toBeUndefined()
  })

  const LONG_WITH = `WITH x AS (SELECT ${'1, '.repeat(100)} 1) DELETE FROM t`

  test.each([...ALLOWED, '', ';', LONG_WITH])(
    'the head of %j is that of its tokens, whoever asks first',
    (sql) => {
      const [headFirst, tokensFirst] = [new SqlStatement(sql), new SqlStatement(sql)]
      const { head } = headFirst
      const tokens = tokensFirst.takeTokens()
      expect(tokensFirst.head).toEqual(head)
      const taken = headFirst.takeTokens()
      for (let i = 0; tokens.at(i) !== undefined || taken.at(i) !== undefined; i++)
        expect(taken.at(i)).toEqual(tokens.at(i))
      expect(headFirst.takeTokens().count).toBe(0)
    },
  )
})

describe('invariant 5: what is refused', () => {
  test.each(FORBIDDEN)('%s', (sql) => {
    expect(refusal(sql)).toBeDefined()
  })

  test.each([
    ['an unknown first word', 'FROBNICATE t', /SELECT, VALUES/],
    ['a statement in parentheses', '(SELECT 1)', /SELECT, VALUES/],
    ['a transaction', 'BEGIN', /one batch/],
    ['a second database', "ATTACH 'x' AS y", /one cell/],
    ['VACUUM', 'VACUUM', /backup/],
    ['EXPLAIN of EXPLAIN', 'EXPLAIN EXPLAIN SELECT 1', /once/],
    ['EXPLAIN of a PRAGMA', 'EXPLAIN PRAGMA user_version', /without EXPLAIN/],
    ['EXPLAIN of what is not allowed', 'EXPLAIN ATTACH x AS y', /EXPLAIN ATTACH/],
    ['a PRAGMA off the list', 'PRAGMA synchronous', /table_info/],
    ['a PRAGMA without a name', 'PRAGMA', /table_info/],
    ['a PRAGMA of another schema', 'PRAGMA "temp".table_info(t)', /Leave out the schema name/],
    ['two names for a PRAGMA', 'PRAGMA table_info(t, u)', /one name/],
    ['an expression for a PRAGMA', 'PRAGMA user_version = 1 + 1', /whole number/],
    ['a fraction for a PRAGMA', 'PRAGMA user_version = 1.5', /whole number/],
    ['a number that SQLite would take for 0', 'PRAGMA user_version = 2147483648', /2147483647/],
    ['a parameter for a PRAGMA', 'PRAGMA user_version = ?', /whole number/],
    ['a name with a sign for a PRAGMA', 'PRAGMA table_info(-t)', /one name/],
    ['an open parenthesis', 'PRAGMA table_info(t', /one name/],
    ['a PRAGMA that sets a table name by =', "PRAGMA table_info = '_cell_kv'", /parameter/],
    ['TEMP objects', 'CREATE TEMP TABLE x(a)', /ordinary table/],
    ['TEMP objects by the longer word', 'create temporary view x as select 1', /ordinary table/],
    ['the temp schema', "CREATE TABLE 'Temp' /**/ . x(a)", /ordinary table/],
    ['its alias', 'SELECT temp.a FROM t AS temp', /alias/],
    ['IF as the bare name of an object', 'CREATE TABLE IF NOT EXISTS if(a)', /Quote the name IF/],
    ['IF behind a schema', 'CREATE UNIQUE INDEX main.If ON t(a)', /Quote the name IF/],
    ['a misspelt object', 'CREATE TABEL x(a)', /CREATE is followed by TABLE/],
    ['a misspelt DROP', 'DROP DATABASE x', /DROP is followed by TABLE/],
    ['a module that is not on the list', 'CREATE VIRTUAL TABLE x USING dbstat', /fts5/],
    ['a virtual table of another shape', 'CREATE VIRTUAL TABLE x', /fts5/],
    [
      'a reserved name inside the arguments of a module',
      'CREATE VIRTUAL TABLE x USING fts5(a, content="my_CELL_kv")',
      /my|_CELL/,
    ],
    ['a reserved name', 'SELECT * FROM [_CELL_KV]', /reserved/],
    ['a reserved name as a string', "SELECT * FROM '_cell_kv'", /parameter/],
    ['a text that may be a name', "INSERT INTO t VALUES ('_cellar')", /parameter/],
    ['a comparison with what is a table name', "SELECT 1 = '_cell_kv'.key", /parameter/],
    ['a PRAGMA function off the list', 'SELECT * FROM "pragma_DATABASE_list"', /pragma_/],
    ['ROLLBACK as a conflict clause', 'INSERT OR ROLLBACK INTO t VALUES (1)', /ABORT/],
    [
      'ROLLBACK in a trigger',
      "CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT RAISE(ROLLBACK, 'no'); END",
      /ABORT/,
    ],
    ['ROLLBACK as a bare name', 'SELECT rollback FROM t', /quote/],
    ['a write to the view', 'UPDATE cell_kv SET value = 1', /KV API/],
    ['a write to the view from a trigger or WITH', 'WITH x AS (SELECT 1) DELETE FROM "Cell_KV"', /KV API/],
    ['a schema object over the view', 'CREATE TABLE copy AS SELECT * FROM cell_kv', /INSERT INTO/],
    ['statistics of the view', 'ANALYZE cell_kv', /view/],
    ['a write to the schema', 'UPDATE sqlite_schema SET sql = 1', /CREATE/],
    ['a write to the statistics', 'DELETE FROM sqlite_stat1', /ANALYZE/],
    ['a function', 'SELECT "load_extension"(?)', /Extensions/],
    ['full-text optimize as a function', 'SELECT optimize(ft) FROM ft', /INSERT INTO/],
    ['a refused name behind a semicolon', 'SELECT 1; DELETE FROM _cell_kv', /reserved/],
  ])('%s', (_what, sql, mend) => {
    expect(refusal(sql)).toMatch(mend)
  })

  test('a refusal tells no value that the text held', () => {
    expect(refusal("INSERT INTO t VALUES ('_cell_kv is my password')")).not.toMatch(/password/)
  })
})

describe('what is allowed', () => {
  test('a corpus of ordinary SQL passes, runs, and touches nothing but the tenant tables', () => {
    const database = openTenantDatabase()
    for (const sql of HONEST_SQL) {
      expect(refusal(sql), sql).toBeUndefined()
      const outcome = database.run(sql)
      expect(outcome, `${database.failure}: ${sql}`).toBe('ran')
      expect(database.violations(false), sql).toEqual([])
    }
  })

  test.each([
    [
      'behind an operator, a text is a value',
      "SELECT * FROM t WHERE b = '_cell' OR b LIKE '_cell%' OR b <> 'pragma_x' OR '' || '_cell'",
    ],
    ['even in DDL', "CREATE INDEX i ON t (b) WHERE b <> 'cell_kv'"],
    ['a column of a table called temp', 'SELECT x.a FROM main.temp AS x'],
    ['reserved words as quoted names', 'SELECT "rollback", [rollback], `rollback` FROM t'],
    ['the view under another name', 'WITH cell_kv AS (SELECT 1) SELECT * FROM cell_kv'],
    ['IF as a quoted name and as a function', 'CREATE VIEW IF NOT EXISTS "if" AS SELECT if(a, 1, 2) FROM t'],
    ['a column that is called like a function', 'SELECT load_extension FROM t'],
    ['a text that holds the prefix elsewhere', "SELECT 'my_cell', '__cell', 'x pragma_x'"],
    ['nonsense, which is for SQLite to explain', 'SELECT FROM WHERE'],
    ['several statements, which preparing refuses', 'SELECT 1; SELECT 2'],
    ['an unknown token, which preparing refuses', 'SELECT \\'],
  ])('%s', (_what, sql) => {
    expect(refusal(sql)).toBeUndefined()
  })
})

describe('why: without the policy, SQLite does all of this', () => {
  test.each([
    ['opens another file', ["ATTACH '{other}' AS o", 'SELECT * FROM o.secret'], 'OTHER-TENANT-SECRET'],
    ['writes a file', ["VACUUM INTO '{folder}/evil.db'"], 'evil.db'],
    ['tells the path', ["SELECT * FROM 'pragma_database_list'"], 'cellstore-policy'],
    [
      'tells it through fts5',
      [
        `CREATE VIRTUAL TABLE vt USING fts5(file, content='pragma_database_list', content_rowid=seq)`,
        'SELECT * FROM vt',
      ],
      'cellstore-policy',
    ],
    [
      'tells it through fts4',
      ['CREATE VIRTUAL TABLE vt USING fts4(content=pragma_database_list)', 'SELECT * FROM vt'],
      'cellstore-policy',
    ],
    ['opens a transaction', ['BEGIN'], 'inTransaction is true'],
    ['sets a PRAGMA under EXPLAIN', ['EXPLAIN PRAGMA cache_size = 777'], '777'],
    ['sets it behind a vertical tab', [' \vPRAGMA cache_size = 777'], '777'],
    ['sets it behind a comment and before a NUL', ['--\n\vPRAGMA/**/cache_size/**/=/**/777\0x'], '777'],
    ['sets it behind byte order marks', [';\uFEFF;\uFEFFPRAGMA cache_size = 777'], '777'],
    ['makes a TEMP table by its schema', ['CREATE TABLE [TEMP].tt(a)'], '"tt"'],
    ['makes TEMP tables to analyse TEMP', ['ANALYZE temp'], 'sqlite_stat1'],
    ['makes TEMP tables to analyse a TEMP view', ["ANALYZE 'cell_kv'"], 'sqlite_stat1'],
    [
      'makes a TEMP trigger on a TEMP view',
      ['CREATE TRIGGER tr INSTEAD OF INSERT ON cell_kv BEGIN SELECT 1; END'],
      'trigger',
    ],
    ['drops the view', ['DROP VIEW cell_kv'], '"temp":[]'],
    ['writes the tables of the engine', ["DELETE FROM '_CELL_KV'"], '"kv":[]'],
    ['reads them', ["SELECT '_cell_meta'.value FROM `_cell_meta`"], 'WORKER-SECRET'],
    ['makes tables with the reserved prefix', ['CREATE VIRTUAL TABLE _cell USING fts5(a)'], '_cell_data'],
  ])('%s', (_what, steps, sign) => {
    const database = openTenantDatabase()
    for (const step of steps) expect(database.run(database.inPlace(step))).toBe('ran')
    expect(database.violations(false).join()).toContain(sign)
    expect(steps.some((step) => refusal(step) !== undefined)).toBe(true)
  })

  const LONG = 'n'.repeat(70)

  test.each([
    ['a long name', LONG, `"${LONG}"`],
    ['a long name that differs late', `${LONG}_b`, `[${LONG.toUpperCase()}_B]`],
    ['a doubled double quote', '[a"b]', '"a""b"'],
    ['a doubled backtick', '"a`b"', '`a``b`'],
    ['a doubled apostrophe', `"a'b"`, `'a''b'`],
    ['quotes of two kinds, in other letters', '`a"]b`', '"A""]B"'],
  ])('a setting of a search table is a setting under %s', (_what, table, column) => {
    const { connection } = openTenantDatabase()
    const set = (value: string) => `INSERT INTO ${table}(${column}, rank) VALUES (${value})`
    connection.exec(`CREATE VIRTUAL TABLE ${table} USING fts5(x)`)
    connection.exec(set("'crisismerge', 1999"))
    expect(refusal(set("'crisismerge', 1999"))).toMatch(/would be a command/)
    expect(refusal(`INSERT INTO ${table}("ra" , "RANK") VALUES (1, 2)`)).toBeUndefined()
    expect(refusal(set("'merge', 4"))).toBeUndefined()
  })

  test('names that differ behind their first letters are no command', () => {
    expect(refusal(`INSERT INTO "${LONG}"("${LONG}b", rank) VALUES (1, 2)`)).toBeUndefined()
  })

  test.each([
    'INSERT OR ROLLBACK INTO u VALUES (1)',
    'UPDATE OR ROLLBACK u SET a = 1',
    'INSERT INTO boom VALUES (1)',
  ])('%s ends the transaction', (sql) => {
    const database = openTenantDatabase()
    database.run('CREATE TABLE boom(a)')
    database.run("CREATE TRIGGER r AFTER INSERT ON boom BEGIN SELECT RAISE(ROLLBACK, 'x'); END")
    database.run('BEGIN')
    expect(database.run(sql)).toBe('failed')
    expect(database.violations(true)).toEqual(['inTransaction is false'])
  })

  test.each([
    'CREATE TABLE IF NOT EXISTS if(a)',
    'CREATE VIEW main.if AS SELECT 1',
    'CREATE TRIGGER main.if AFTER INSERT ON t BEGIN SELECT 1; END',
    'CREATE INDEX main.if ON t(a)',
    'CREATE VIRTUAL TABLE IF NOT EXISTS if USING fts5(a)',
  ])('%s spoils the transaction for all others', (sql) => {
    const database = openTenantDatabase()
    const { connection } = database
    connection.exec('BEGIN; SAVEPOINT work')
    expect(database.run(sql)).toBe('failed')
    connection.exec('ROLLBACK TO work; RELEASE work')
    expect(() => connection.exec('COMMIT')).toThrow(/malformed/)
    expect(refusal(sql)).toMatch(/Quote the name IF/)
  })

  test('a known limit: SQLITE_FULL ends a transaction from within allowed SQL', () => {
    const database = openTenantDatabase()
    database.run('CREATE TABLE full(id INTEGER PRIMARY KEY AUTOINCREMENT)')
    database.run('INSERT INTO full VALUES (9223372036854775807)')
    database.run('BEGIN')
    database.run('INSERT INTO t VALUES (7, 7)')
    const sql = 'INSERT INTO full DEFAULT VALUES'
    expect(refusal(sql)).toBeUndefined()
    expect(database.run(sql)).toBe('failed')
    expect(database.violations(true)).toEqual(['inTransaction is false'])
  })
})
