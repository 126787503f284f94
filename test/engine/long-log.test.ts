import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
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
    const cut = vi.spyOn(fs, 'ftruncateSync')
    onTestFinished(() => void cut.mockRestore())
    expect(() => fail(database)).toThrow()
    expect(cut).toHaveBeenCalled()
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

/** What a power loss would leave at each moment while a log is cut. */
function lossesWhileCut(database: CellDatabase): ReturnType<typeof afterLoss>[] {
  const found: ReturnType<typeof afterLoss>[] = []
  const { ftruncateSync, writeSync } = fs
  const look = () => void found.push(afterLoss(database))
  vi.spyOn(fs, 'writeSync').mockImplementation((...args) => {
    look()
    const written = (writeSync as (...args: unknown[]) => number)(...args)
    look()
    return written
  })
  vi.spyOn(fs, 'ftruncateSync').mockImplementation((fd, length) => {
    ftruncateSync(fd, length)
    look()
  })
  onTestFinished(() => void vi.restoreAllMocks())
  return found
}

test('a power loss at any moment while a log is cut finds everything that was committed (invariant 1)', () => {
  const database = open()
  database.sql('INSERT INTO t (b) VALUES (randomblob(1000))')
  const found = lossesWhileCut(database)
  // Pages of the first row come again later in the log: a part of the log would bring back their old content.
  database.transaction(() => {
    insertLong(database)
    database.sql('INSERT INTO t (b) VALUES (randomblob(2000))')
  })
  expect(found.length).toBeGreaterThan(4)
  const whole = { rows: [3, LONG + 3_000], check: 'ok' }
  for (const each of found) expect(each).toEqual(whole)
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

  test('one that comes while the log is cut is kept out, and reads and writes everything afterwards', () => {
    const database = open()
    const found = lossesWhileCut(database)
    const { closeSync } = fs
    let refusal: unknown
    const closed = vi.spyOn(fs, 'closeSync').mockImplementation((fd) => {
      closeSync(fd)
      // The header is gone, the file is short, and SQLite knows of neither.
      closed.mockRestore()
      const early = new Database(database.path, { timeout: 0 })
      try {
        early.exec('INSERT INTO t (b) VALUES (1)')
      } catch (error) {
        refusal = error
      }
      early.close()
    })
    insertLong(database)
    expect(String(refusal)).toContain('database is locked')
    expect(logBytes(database)).toBe(0)
    const other = otherProgram(database)
    other.exec('INSERT INTO t (b) VALUES (randomblob(5000))')
    found.push(afterLoss(database))
    expect(found.at(-1)).toEqual({ rows: [2, LONG + 5_000], check: 'ok' })
    expect(database.sql('SELECT count(*) AS n FROM t').rows).toEqual([{ n: 2 }])
    database.sql('INSERT INTO t (b) VALUES (1)')
    expect(other.prepare('SELECT count(*) FROM t').pluck().get()).toBe(3)
  })

  test('one that has it open when the log is to be cut: SQLite empties the log, and no part of it is ever alone', () => {
    const database = open()
    const other = otherProgram(database)
    expect(other.prepare('SELECT count(*) FROM t').pluck().get()).toBe(0)
    const cut = vi.spyOn(fs, 'ftruncateSync')
    onTestFinished(() => void cut.mockRestore())
    insertLong(database)
    expect(cut).not.toHaveBeenCalled()
    expect(logBytes(database)).toBe(0)
    expect(other.prepare('SELECT count(*) FROM t').pluck().get()).toBe(1)
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
