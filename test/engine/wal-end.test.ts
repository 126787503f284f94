import Database from 'better-sqlite3'
import { describe, expect, test, vi } from 'vitest'
import type { CellDatabase } from '../../src/engine/cell-database.ts'
import { openTestDatabase } from '../support/open-test-database.ts'

function openWithRows(rows: number): CellDatabase {
  const database = openTestDatabase()
  database.sql('CREATE TABLE t (a)')
  for (let i = 0; i < rows; i++) insert(database)
  return database
}

function insert(database: CellDatabase): void {
  database.sql('INSERT INTO t VALUES (zeroblob(5000))')
}

/** As SQLite counts. */
function frames(database: CellDatabase): number {
  return database.checkpoints.state().frames
}

describe('where the WAL ends is what SQLite says', () => {
  test('after a commit of this process, without a question to SQLite', () => {
    const database = openWithRows(3)
    const expected = frames(database)
    const count = vi.spyOn(database.checkpoints, 'state')
    expect(database.walEnd().frames).toBe(expected)
    expect(count).not.toHaveBeenCalled()
  })

  /** What another program does with the file. */
  const OTHERS: Record<string, (other: Database.Database) => void> = {
    'it commits': (other) => void other.exec('INSERT INTO t VALUES (1)'),
    'it commits after a checkpoint that begins the WAL again': (other) => {
      other.pragma('wal_checkpoint(TRUNCATE)')
      other.exec('INSERT INTO t VALUES (1)')
    },
    'it begins the WAL again, with more frames than before': (other) => {
      other.pragma('wal_checkpoint(RESTART)')
      for (let i = 0; i < 20; i++) other.exec('INSERT INTO t VALUES (zeroblob(5000))')
    },
    'it begins the WAL again in the old file': (other) => {
      other.pragma('wal_checkpoint(RESTART)')
      other.exec('INSERT INTO t VALUES (1)')
    },
    'it empties the WAL': (other) => void other.pragma('wal_checkpoint(TRUNCATE)'),
    'it leaves frames that it has rolled back': (other) => {
      other.pragma('cache_size = 1')
      other.exec("BEGIN; INSERT INTO t SELECT zeroblob(9000) FROM json_each('[1,2,3,4,5,6,7,8]'); ROLLBACK")
    },
  }

  test.each(Object.keys(OTHERS))('also if another program has used the cell since: %s', (name) => {
    const database = openWithRows(3)
    const other = new Database(database.path)
    OTHERS[name]?.(other)
    expect(database.walEnd().frames).toBe(frames(database))
    other.exec('INSERT INTO t VALUES (2)')
    insert(database)
    expect(database.walEnd().frames).toBe(frames(database))
    other.close()
  })
})
