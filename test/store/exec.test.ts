import { describe, expect, test } from 'vitest'
import { openTestCell } from '../support/open-test-store.ts'
import { codeOf, thrownBy } from '../support/thrown.ts'

describe('exec', () => {
  test('runs all statements of a script, with semicolons in literals, comments and triggers', async () => {
    const { cell } = await openTestCell()
    cell.exec(`
      -- the first; statement
      CREATE TABLE t (a TEXT, "b;c" INT);;
      CREATE TEMP TRIGGER IF NOT EXISTS no_such AFTER INSERT ON t BEGIN SELECT 1; END;
      CREATE TRIGGER twice AFTER INSERT ON t WHEN new.a = 'x;y' BEGIN
        UPDATE t SET "b;c" = CASE WHEN a IS NULL THEN 0 ELSE 2 END; /* ; END; */
        INSERT INTO t VALUES (';', 1);
      END;
      INSERT INTO t VALUES ('x;y', 0)`)
    expect(cell.sql('SELECT * FROM t ORDER BY 2').rows).toEqual([
      { a: ';', 'b;c': 1 },
      { a: 'x;y', 'b;c': 2 },
    ])
  })

  test('is all or nothing, and names the statement that failed', async () => {
    const { cell } = await openTestCell()
    const error = thrownBy(() =>
      cell.exec(
        "CREATE TABLE t (a);\nINSERT INTO t VALUES ('x');\n\n-- and\n  INSERT INTO nowhere VALUES (1);",
      ),
    )
    expect(error).toMatchObject({
      code: 'sql_error',
      message: 'Statement 3 of the script, at line 5: no such table: nowhere',
      details: { index: 2 },
    })
    expect(cell.sql("SELECT count(*) AS n FROM sqlite_schema WHERE name = 't'").rows).toEqual([{ n: 0 }])
  })

  test('inside a transaction is a part of it', async () => {
    const { cell } = await openTestCell()
    cell.exec('CREATE TABLE t (a)')
    cell.transaction(() => {
      cell.sql('INSERT INTO t VALUES (1)')
      expect(codeOf(() => cell.exec('INSERT INTO t VALUES (2); INSERT INTO t VALUES (3, 4)'))).toBe(
        'sql_error',
      )
      cell.exec('INSERT INTO t VALUES (5); INSERT INTO t VALUES (6);')
    })
    expect(cell.prepare('SELECT a FROM t').pluck().all()).toEqual([1, 5, 6])
  })

  test('refuses transactions, what the policy refuses, placeholders and a NUL', async () => {
    const { cell } = await openTestCell()
    expect([
      codeOf(() => cell.exec('CREATE TABLE t (a); BEGIN; INSERT INTO t VALUES (1); COMMIT')),
      codeOf(() => cell.exec("CREATE TABLE t (a); ATTACH 'x' AS y", { policy: 'tenant' })),
      codeOf(() => cell.exec('CREATE TABLE t (a); INSERT INTO t VALUES (?)')),
      codeOf(() => cell.exec('CREATE TABLE t (a);\0 DROP TABLE t')),
      codeOf(() => cell.exec(7 as unknown as string)),
    ]).toEqual([
      'statement_not_allowed',
      'statement_not_allowed',
      'param_count_mismatch',
      'invalid_request',
      'invalid_request',
    ])
    expect(cell.get("SELECT 1 FROM sqlite_schema WHERE name = 't'")).toBeUndefined()
  })

  test.each(['', ' ;; -- nothing\n/* ; */'])('takes a script without statements: %j', async (script) => {
    const { cell } = await openTestCell()
    cell.exec(script)
  })

  test('a text that ends inside a trigger or a literal is refused', async () => {
    const { cell } = await openTestCell()
    expect(
      codeOf(() => cell.exec('CREATE TABLE t (a); CREATE TRIGGER r AFTER INSERT ON t BEGIN SELECT 1;')),
    ).toBe('sql_error')
    expect(codeOf(() => cell.exec("CREATE TABLE t (a); SELECT 'x; SELECT 2;"))).toBe('sql_error')
  })

  test('a script of many statements', async () => {
    const { cell } = await openTestCell({ durability: 'relaxed' })
    const inserts = Array.from({ length: 5_000 }, (_, i) => `INSERT INTO t VALUES (${i});`).join('\n')
    cell.exec(`CREATE TABLE t (a);\n${inserts}`)
    expect(cell.get('SELECT count(*) AS n, sum(a) AS sum FROM t')).toEqual({ n: 5_000, sum: 12_497_500 })
  })
})
