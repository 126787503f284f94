import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { CellDatabase } from '../../src/engine/cell-database.ts'
import { openTestDatabase, type TestDatabaseOptions } from '../support/open-test-database.ts'
import { tempDirectory } from '../support/temp-directory.ts'

const LONG = 30_000_000

function logBytes(database: CellDatabase): number {
  return fs.statSync(`${database.path}-wal`, { throwIfNoEntry: false })?.size ?? 0
}

function open(options: TestDatabaseOptions = {}): CellDatabase {
  const database = openTestDatabase({ durability: 'relaxed', ...options })
  database.sql('CREATE TABLE t (a INTEGER PRIMARY KEY, b)')
  return database
}

function insertLong(database: CellDatabase): void {
  database.sql('INSERT INTO t (b) VALUES (randomblob(?))', [LONG])
}

function undoLong(database: CellDatabase): never {
  insertLong(database)
  throw new Error('undo')
}

/** What the files would be after a power loss now, read by SQLite. */
function afterLoss(database: CellDatabase): { rows: unknown; check: unknown } {
  const copy = path.join(tempDirectory(), 'cell.db')
  for (const suffix of ['', '-wal']) fs.copyFileSync(`${database.path}${suffix}`, `${copy}${suffix}`)
  const connection = new Database(copy)
  try {
    return {
      rows: connection.prepare('SELECT count(*), total(length(b)) FROM t').raw().get(),
      check: connection.pragma('integrity_check', { simple: true }),
    }
  } finally {
    connection.close()
  }
}

function otherProgram(database: CellDatabase): Database.Database {
  const connection = new Database(database.path)
  onTestFinished(() => void connection.close())
  return connection
}

describe('a long transaction leaves no long log behind (invariant 7)', () => {
  test.each(['full', 'relaxed'] as const)('one that was committed, %s', (durability) => {
    const database = open({ durability })
    insertLong(database)
    expect(logBytes(database)).toBe(0)
    expect(database.sql('SELECT length(b) AS n FROM t').rows).toEqual([{ n: LONG }])
  })

  test.each<[string, (database: CellDatabase) => void]>([
    [
      'a transaction that its caller rolls back',
      (database) => database.transaction(() => undoLong(database)),
    ],
    [
      'a statement that fails',
      (database) =>
        database.sql(
          'INSERT INTO t (b) SELECT randomblob(1000000) FROM n WHERE n < 30 OR abs(-9223372036854775808) > n',
        ),
    ],
  ])('%s, and what was committed before it stays', (_, fail) => {
    const database = open()
    database.sql('CREATE TABLE n (n)')
    database.sql(
      'WITH RECURSIVE c (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c WHERE n < 100) INSERT INTO n SELECT n FROM c',
    )
    expect(() => fail(database)).toThrow()
    expect(logBytes(database)).toBe(0)
    expect(afterLoss(database)).toEqual({ rows: [0, 0], check: 'ok' })
  })

  test('one whose process was killed, once the cell is opened again', () => {
    const killed = open()
    const database = killed.transaction(() => {
      insertLong(killed)
      const copy = path.join(tempDirectory(), 'cell.db')
      for (const suffix of ['', '-wal']) fs.copyFileSync(`${killed.path}${suffix}`, `${copy}${suffix}`)
      return openTestDatabase({ durability: 'relaxed', path: copy })
    })
    expect(logBytes(database)).toBe(0)
    expect(database.sql('SELECT count(*) AS n FROM t').rows).toEqual([{ n: 0 }])
  })

  test('where the log may tell whether a commit counts, it stays until its owner says so', () => {
    const database = open({ leavesLongLogs: true })
    insertLong(database)
    expect(logBytes(database)).toBeGreaterThan(LONG)
    database.shortenLog()
    expect(logBytes(database)).toBe(0)
  })
})

describe('other programs have the cell open', () => {
  test('one that reads keeps its state, and the log is cut after it', () => {
    const database = open()
    database.sql('INSERT INTO t (b) VALUES (1)')
    const other = otherProgram(database)
    other.exec('BEGIN')
    const rows = other.prepare('SELECT count(*) FROM t').pluck()
    expect(rows.get()).toBe(1)
    insertLong(database)
    expect(logBytes(database)).toBeGreaterThan(LONG)
    expect(rows.get()).toBe(1)
    other.exec('COMMIT')
    expect(rows.get()).toBe(2)
    insertLong(database)
    expect(logBytes(database)).toBe(0)
    expect(rows.get()).toBe(3)
    expect(other.pragma('integrity_check', { simple: true })).toBe('ok')
  })

  test('one that reads while a long transaction is rolled back: the log is cut after the next checkpoint', () => {
    const database = open({ checkpointBytes: 100_000 })
    const other = otherProgram(database)
    other.exec('BEGIN')
    other.prepare('SELECT count(*) FROM t').pluck().get()
    database.sql('INSERT INTO t (b) VALUES (2)')
    expect(() => database.transaction(() => undoLong(database))).toThrow('undo')
    expect(logBytes(database)).toBeGreaterThan(LONG / 2)
    other.exec('COMMIT')
    database.sql('INSERT INTO t (b) VALUES (zeroblob(200000))')
    expect(logBytes(database)).toBe(0)
  })
})

describe('a long log is cut, too', () => {
  test('once a statement has ended its own transaction', () => {
    const database = open()
    database.sql('CREATE UNIQUE INDEX u ON t (length(b))')
    expect(() =>
      database.transaction(() => {
        insertLong(database)
        database.sql('INSERT OR ROLLBACK INTO t (b) VALUES (randomblob(?))', [LONG])
      }),
    ).toThrow()
    expect(logBytes(database)).toBe(0)
  })

  test('once no fsync is expected any more, where that of a failed transaction was put off', () => {
    const database = open({ durability: 'full' })
    database.syncs.defer(() => expect(() => database.transaction(() => undoLong(database))).toThrow('undo'))
    expect(logBytes(database)).toBe(0)
  })
})
