import path from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { examineDatabase } from '../../../src/backup/restore/examine-database.ts'
import { proveDatabase } from '../../../src/backup/restore/restore-database.ts'
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

describe('The rows of a restored database', () => {
  test('are counted, table by table, whatever the tables are called', () => {
    const file = databaseWith(`
      CREATE TABLE "a ""b""" (n); INSERT INTO "a ""b""" VALUES (1), (2);
      CREATE TABLE counted (n INTEGER PRIMARY KEY AUTOINCREMENT); INSERT INTO counted DEFAULT VALUES;
      CREATE TABLE plain (k TEXT PRIMARY KEY) WITHOUT ROWID; INSERT INTO plain VALUES ('x');
      CREATE VIEW shown AS SELECT * FROM counted;
      CREATE VIRTUAL TABLE words USING fts5(text, content='', columnsize=0);
    `)
    const { tables, tableCount, rowCount } = examineDatabase(file, 'cell.db', true)
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
    expect(examineDatabase(file, 'cell.db', false).tables).toHaveLength(1)
    expect(thrownBy(() => examineDatabase(file, 'cell.db', true))).toMatchObject({
      code: 'backup_corrupt',
      details: { member: 'cell.db' },
    })
  })
})
