import { describe, expect, test } from 'vitest'
import { stepsOf } from '../../../src/cli/sql/script-steps.ts'
import { codeOf } from '../../support/thrown.ts'

const shape = (script: string) =>
  stepsOf(script).map(({ statements, isTransaction }) =>
    isTransaction ? statements.map(({ sql }) => sql) : statements[0]?.sql,
  )

describe('the steps of a script', () => {
  test('are its statements, and all between BEGIN and COMMIT at once', () => {
    expect(shape('SELECT 1; BEGIN; SELECT 2; SELECT 3; COMMIT; SELECT 4')).toEqual([
      'SELECT 1',
      ['SELECT 2', 'SELECT 3'],
      'SELECT 4',
    ])
    expect(shape('begin immediate transaction;SELECT 1;end transaction;')).toEqual([['SELECT 1']])
  })

  test('leave out what is rolled back, and what is empty', () => {
    expect(shape('BEGIN; SELECT 1; ROLLBACK; ;;BEGIN; COMMIT; -- nothing\n')).toEqual([])
  })

  test("take no word in a literal, a comment or a trigger's body for an end", () => {
    const trigger = `CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 'COMMIT;'; END`
    expect(shape(`${trigger}; BEGIN; SELECT ';' /* COMMIT; */; COMMIT`)).toEqual([
      trigger,
      ["SELECT ';' /* COMMIT; */"],
    ])
  })

  test('pass on what a cell refuses: savepoints, EXPLAIN BEGIN, a COMMIT without BEGIN', () => {
    expect(shape('BEGIN; SAVEPOINT a; ROLLBACK TO a; COMMIT')).toEqual([['SAVEPOINT a', 'ROLLBACK TO a']])
    expect(shape('EXPLAIN BEGIN; COMMIT')).toEqual(['EXPLAIN BEGIN', 'COMMIT'])
  })

  test('know the number and the line of each statement', () => {
    const [first, second] = stepsOf('SELECT 1;\n\n-- two\nBEGIN;\n  SELECT 2;\nCOMMIT')
    expect(first?.statements).toMatchObject([{ number: 1, line: 1 }])
    expect(second?.statements).toMatchObject([{ number: 3, line: 5 }])
  })

  const DUMP = 'PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n'

  test('of a dump are one batch that defers its foreign keys, with tables first and rows together', () => {
    const rows = `CREATE TABLE child (p REFERENCES parent);
      INSERT INTO child VALUES(1);
      INSERT INTO child VALUES('a;(');
      INSERT INTO "my child"(rowid,p) VALUES(7,2);
      INSERT INTO child VALUES((3));
      CREATE TABLE parent (id INTEGER PRIMARY KEY AUTOINCREMENT);
      INSERT INTO parent VALUES(1);
      DELETE FROM sqlite_sequence;
      INSERT INTO sqlite_sequence VALUES('parent',1);
      CREATE INDEX i ON child (p);`
    expect(shape(`${DUMP}${rows}\nCOMMIT;`)).toEqual([
      [
        'PRAGMA defer_foreign_keys = ON',
        'CREATE TABLE child (p REFERENCES parent)',
        'CREATE TABLE parent (id INTEGER PRIMARY KEY AUTOINCREMENT)',
        "INSERT INTO child VALUES(1),\n('a;(')",
        'INSERT INTO "my child"(rowid,p) VALUES(7,2)',
        'INSERT INTO child VALUES((3))',
        'INSERT INTO parent VALUES(1)',
        'DELETE FROM sqlite_sequence',
        "INSERT INTO sqlite_sequence VALUES('parent',1)",
        'CREATE INDEX i ON child (p)',
      ],
    ])
  })

  test.each([
    'INSERT INTO t VALUES(1) RETURNING (a); INSERT INTO t VALUES(2) RETURNING (a)',
    'INSERT INTO t SELECT 1 UNION VALUES(1); INSERT INTO t SELECT 1 UNION VALUES(2)',
    'INSERT OR IGNORE INTO t VALUES(1); INSERT OR IGNORE INTO t VALUES(2)',
    'INSERT INTO t VALUES(1),(2); INSERT INTO t VALUES(3)',
  ])('leave alone what is more than a row: %s', (inserts) => {
    expect(shape(`${DUMP}${inserts};COMMIT`)).toEqual([
      ['PRAGMA defer_foreign_keys = ON', ...inserts.split('; ')],
    ])
  })

  test('of a dump have statements that a cell takes, and each keeps the line of its first row', () => {
    const insert = `INSERT INTO t VALUES('${'x'.repeat(30_000)}');\n`
    const [step] = stepsOf(`${DUMP}${insert.repeat(10)}COMMIT;`)
    expect(step?.statements.map(({ sql, line }) => [sql.length < 102_400, line])).toEqual(
      [1, 3, 6, 9, 12].map((line) => [true, line]),
    )
  })

  // Foreign keys that are deferred, and not off, would empty what refers to the table.
  test.each([
    'DROP TABLE t',
    'ALTER TABLE a RENAME TO t',
    'DELETE FROM t',
    'UPDATE t SET a = 1',
    'REPLACE INTO t VALUES (1)',
  ])('leave the PRAGMA to be refused where the transaction is no dump: %s', (sql) => {
    expect(shape(`${DUMP}CREATE TABLE a (b);${sql};COMMIT`)).toEqual([
      'PRAGMA foreign_keys=OFF',
      ['CREATE TABLE a (b)', sql],
    ])
    expect(shape(`PRAGMA foreign_keys=OFF; SELECT 1; BEGIN; CREATE TABLE a (b); COMMIT`)).toHaveLength(3)
    expect(shape(`PRAGMA foreign_keys=ON; BEGIN; CREATE TABLE a (b); COMMIT`)).toHaveLength(2)
  })

  test('are none at all if a transaction has no end', () => {
    expect(codeOf(() => stepsOf('SELECT 1;\nBEGIN; SELECT 2;'))).toBe('invalid_request')
    expect(() => stepsOf('SELECT 1;\nBEGIN; SELECT 2;')).toThrow(/statement 2, at line 2, has no COMMIT/)
  })
})
