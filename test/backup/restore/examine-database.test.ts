import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import {
  type DatabaseContents,
  examineDatabase,
  proveDatabase,
  withDatabase,
} from '../../../src/backup/restore/build/restore-database.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { thrownBy } from '../../support/thrown.ts'

function databaseWith(schema: string): string {
  const file = path.join(tempDirectory('cellstore-examine'), 'cell.db')
  const connection = new Database(file)
  connection.unsafeMode()
  connection.exec(schema)
  connection.close()
  return file
}

const ENDLESS_VIEW =
  "CREATE VIEW v AS WITH RECURSIVE r (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT i AS rowid, 'a' AS x FROM r"

/** Takes hours to compute, for each row. The policy lets tenants write it. */
const ENDLESS = "instr(hex(zeroblob(20000000 + (n IS NULL))), hex(zeroblob(10000000)) || '1')"

describe('A check that is to leave the expressions of the schema', () => {
  test.each([
    [
      'a generated column',
      `CREATE TABLE t (n); INSERT INTO t VALUES (1); ALTER TABLE t ADD COLUMN g TEXT AS (${ENDLESS})`,
    ],
    [
      'a view that a search index takes for its own table',
      `CREATE VIRTUAL TABLE t USING fts5(n); PRAGMA writable_schema = ON; DELETE FROM sqlite_schema WHERE name = 't_config';
       INSERT INTO sqlite_schema VALUES ('view', 'T_config', 'T_config', 0,
       'CREATE VIEW T_config AS WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n AS k, n AS v FROM c')`,
    ],
    [
      'a search index whose content is a view',
      `${ENDLESS_VIEW}; CREATE VIRTUAL TABLE f USING fts4(content="v", x)`,
    ],
    [
      'a search index that calls functions',
      'CREATE VIRTUAL TABLE f USING fts4(x, compress=abs, uncompress=randomblob)',
    ],
    ['any other virtual table', 'CREATE VIRTUAL TABLE words USING fts5(n)'],
  ])('does nothing where there is %s', (_, schema) => {
    const file = databaseWith(schema)
    expect(proveDatabase(file, 'cell.db', true)).toBe(false)
    expect(examineDatabase(file, 'cell.db', true, true)).toBeUndefined()
  })

  test.each(['(n) WHERE n + 1 > 0', '(n + 1)'])(
    'is quick where only an index has some, and does not look deep: %s',
    (index) => {
      const file = databaseWith(`CREATE TABLE t (n); CREATE INDEX i ON t ${index}`)
      expect(proveDatabase(file, 'cell.db', true)).toBe(true)
      expect(examineDatabase(file, 'cell.db', true, true)).toBeUndefined()
      expect(examineDatabase(file, 'cell.db', true)?.rowCount).toBe(0)
    },
  )

  test('runs where nothing is computed', () => {
    const file = databaseWith(`
      CREATE TABLE "a ""b""" (n DEFAULT (1 + 1) CHECK (n > 0), m TEXT AS (n + 1) STORED);
      CREATE INDEX i ON "a ""b""" (m); CREATE VIEW seen AS SELECT n AS x FROM "a ""b""";
    `)
    expect(proveDatabase(file, 'cell.db', true)).toBe(true)
    expect(examineDatabase(file, 'cell.db', true, true)?.tables.length).toBeGreaterThan(0)
  })
})

describe('The rows of a restored database', () => {
  test('are counted, table by table, whatever the tables are called', () => {
    const file = databaseWith(`
      CREATE TABLE "a ""b""" (n); INSERT INTO "a ""b""" VALUES (1), (2);
      CREATE TABLE counted (n INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO counted DEFAULT VALUES;
      CREATE TABLE plain (k TEXT PRIMARY KEY) WITHOUT ROWID; INSERT INTO plain VALUES ('x');
      CREATE VIEW shown AS SELECT * FROM counted;
      CREATE VIRTUAL TABLE words USING fts5(text, content='', columnsize=0);
    `)
    const { tables, tableCount, rowCount } = examineDatabase(file, 'cell.db', true) as DatabaseContents
    expect(tables.filter(({ name }) => !name.startsWith('words'))).toEqual([
      { name: 'a "b"', rows: 2 },
      { name: 'counted', rows: 1 },
      { name: 'plain', rows: 1 },
    ])
    expect(tableCount).toBe(tables.length)
    expect(rowCount).toBe(tables.reduce((sum, { rows }) => sum + rows, 0))
  })

  test('are compared with the indexes by a deep look, which finds what quick_check does not', () => {
    const file = databaseWith(`
      CREATE TABLE t (n, m); CREATE INDEX by_m ON t (n); INSERT INTO t VALUES (1, 5), (2, 4), (3, 6);
      PRAGMA writable_schema = ON;
      UPDATE sqlite_schema SET sql = 'CREATE INDEX by_m ON t (m)' WHERE name = 'by_m';
    `)
    proveDatabase(file, 'cell.db')
    expect(examineDatabase(file, 'cell.db', false)?.tables).toHaveLength(1)
    expect(thrownBy(() => examineDatabase(file, 'cell.db', true))).toMatchObject({
      code: 'backup_corrupt',
      details: { member: 'cell.db' },
    })
  })
})

test('a copy under proof has no shared memory: nobody else uses it, and each backup would make and remove a file for it', () => {
  const file = databaseWith('PRAGMA journal_mode = WAL; CREATE TABLE t (n); INSERT INTO t VALUES (1)')
  const files = withDatabase(file, 'cell.db', (connection) => {
    expect(connection.prepare('SELECT n FROM t').pluck().all()).toEqual([1])
    return fs.readdirSync(path.dirname(file)).sort()
  })
  expect(files).toEqual(['cell.db', 'cell.db-wal'])
  expect(proveDatabase(file, 'cell.db')).toBe(true)
})
