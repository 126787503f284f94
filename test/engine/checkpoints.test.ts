import fs from 'node:fs'
import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import type { CellDatabase } from '../../src/engine/cell-database.ts'
import type { WalState } from '../../src/engine/wal/checkpoints.ts'
import { openTestDatabase } from '../support/open-test-database.ts'
import { codeOf } from '../support/thrown.ts'

const FRAME_BYTES = 4_096 + 24
const CHECKPOINT_BYTES = 100 * FRAME_BYTES

function walBytes(database: CellDatabase): number {
  return fs.statSync(`${database.path}-wal`, { throwIfNoEntry: false })?.size ?? 0
}

/** What a test does to a cell again and again, each a commit of its own. */
const WRITERS: Record<string, (database: CellDatabase, i: number) => void> = {
  'tiny updates of one row': (database, i) => database.sql('UPDATE t SET b = ? WHERE a = 1', [i]),
  'inserts of small rows': (database, i) => database.sql('INSERT INTO t (b) VALUES (?)', [i]),
  'inserts with RETURNING': (database, i) => database.sql('INSERT INTO t (b) VALUES (?) RETURNING a', [i]),
  transactions: (database, i) =>
    database.transaction(() => database.sql('INSERT INTO t (b) VALUES (?)', [i])),
  'schema changes': (database, i) => database.sql(i % 2 === 0 ? 'CREATE TABLE u (a)' : 'DROP TABLE u'),
  'one row whose size no parameter shows': (database) =>
    database.sql('UPDATE t SET b = zeroblob(200000) WHERE a = 1'),
  'deletes that cascade': (database) => {
    database.sql('INSERT INTO p VALUES (1)')
    database.sql(
      'INSERT INTO c SELECT 1, zeroblob(2000) FROM (VALUES (1), (2), (3), (4), (5), (6), (7), (8))',
    )
    database.sql('DELETE FROM p')
  },
  'statements that rewrite an index': (database) => database.sql('REINDEX'),
}

describe('only the engine checkpoints, and the log stays bounded (invariant 7)', () => {
  test('SQLite does none by itself', () => {
    const database = openTestDatabase()
    expect(database.prepare('PRAGMA wal_autocheckpoint').pluck().get()).toBe(0)
  })

  test.each(Object.keys(WRITERS))('with %s', (name) => {
    const write = WRITERS[name] as (typeof WRITERS)[string]
    let checkpoints = 0
    const hooks = { afterCheckpoint: () => void checkpoints++ }
    const database = openTestDatabase({ checkpointBytes: CHECKPOINT_BYTES, durability: 'relaxed', hooks })
    database.sql('CREATE TABLE t (a INTEGER PRIMARY KEY, b)')
    database.sql('CREATE INDEX tb ON t (b)')
    database.sql('CREATE TABLE p (id INTEGER PRIMARY KEY)')
    database.sql('CREATE TABLE c (p REFERENCES p ON DELETE CASCADE, b)')
    database.sql('INSERT INTO t VALUES (1, randomblob(100000))')
    let largest = 0
    for (let i = 0; i < 600; i++) {
      write(database, i)
      largest = Math.max(largest, walBytes(database))
    }
    expect(checkpoints).toBeGreaterThan(2)
    // What one transaction can write lies on top of the bound: the look comes after it.
    expect(largest).toBeLessThan(2 * CHECKPOINT_BYTES + 200_000)
  })

  test('closing leaves no log behind, and nothing in it is lost', () => {
    const database = openTestDatabase()
    database.sql('CREATE TABLE t (a)')
    database.sql('INSERT INTO t VALUES (1)')
    database.close()
    expect(fs.existsSync(`${database.path}-wal`)).toBe(false)
    const file = new Database(database.path)
    expect(file.prepare('SELECT a FROM t').pluck().all()).toEqual([1])
    file.close()
  })
})

describe('the hooks', () => {
  test('hear of each log before it is moved, with its frames, and afterwards', () => {
    const heard: (string | WalState)[] = []
    const database = openTestDatabase({
      hooks: {
        beforeCheckpoint: (_, wal) => void heard.push(wal),
        afterCheckpoint: () => void heard.push('after'),
      },
    })
    expect(database.checkpoints.run()).toBe(true)
    expect(heard).toEqual([])
    database.sql('CREATE TABLE t (a)')
    const { frames } = database.checkpoints.state()
    expect(frames).toBeGreaterThan(0)
    expect(database.checkpoints.run('TRUNCATE')).toBe(true)
    expect(heard).toEqual([{ frames, checkpointed: 0 }, 'after'])
    expect(database.checkpoints.state()).toEqual({ frames: 0, checkpointed: 0 })
  })

  test('hear of the first change since the cell was marked clean, and of no other', () => {
    let changes = 0
    const database = openTestDatabase({ hooks: { changed: () => void changes++ } })
    database.sql('CREATE TABLE t (a)')
    database.sql('INSERT INTO t VALUES (1)')
    expect({ changes, dirty: database.dirty }).toEqual({ changes: 1, dirty: true })
    database.dirty = false
    database.sql('SELECT * FROM t')
    expect(() => database.sql('INSERT INTO t SELECT nothing')).toThrow()
    expect(() =>
      database.transaction(() => {
        database.sql('INSERT INTO t VALUES (2)')
        throw new Error('undo')
      }),
    ).toThrow('undo')
    expect({ changes, dirty: database.dirty }).toEqual({ changes: 1, dirty: false })
    database.transaction(() => database.sql('INSERT INTO t VALUES (3)'))
    expect({ changes, dirty: database.dirty }).toEqual({ changes: 2, dirty: true })
  })

  test('that fail after a commit do not make the commit look failed', () => {
    const failures: unknown[] = []
    const database = openTestDatabase({
      checkpointBytes: FRAME_BYTES,
      hooks: {
        changed: () => {
          throw new Error('changed')
        },
        beforeCheckpoint: () => {
          throw new Error('beforeCheckpoint')
        },
        failed: (error) => void failures.push((error as Error).message),
      },
    })
    database.sql('CREATE TABLE t (a)')
    database.transaction(() => database.sql('INSERT INTO t VALUES (1)'))
    expect(database.sql('SELECT * FROM t').rows).toEqual([{ a: 1 }])
    expect(new Set(failures)).toEqual(new Set(['changed', 'beforeCheckpoint']))
  })
})

test('the descriptor for reading the file beside SQLite is closed after SQLite’s own', () => {
  const database = openTestDatabase()
  database.sql('CREATE TABLE t (a)')
  const descriptor = database.checkpoints.readDescriptor()
  expect(database.checkpoints.readDescriptor()).toBe(descriptor)
  expect(fs.fstatSync(descriptor).ino).toBe(fs.statSync(database.path).ino)
  database.close()
  expect(() => fs.fstatSync(descriptor)).toThrow('EBADF')
})

describe('with a foreign reader in the way', () => {
  test('checkpoints are tried again only when the log has grown, and the log is kept for each only once', () => {
    let tries = 0
    const database = openTestDatabase({
      checkpointBytes: CHECKPOINT_BYTES,
      durability: 'relaxed',
      hooks: { beforeCheckpoint: () => void tries++ },
    })
    database.sql('CREATE TABLE t (a)')
    const reader = new Database(database.path, { readonly: true })
    reader.exec('BEGIN')
    reader.prepare('SELECT * FROM t').all()
    for (let i = 0; i < 1_000; i++) database.sql('INSERT INTO t VALUES (randomblob(3000))')
    const logs = database.checkpoints.state().frames / 100
    expect(tries).toBeGreaterThan(1)
    expect(tries).toBeLessThanOrEqual(logs + 1)
    reader.exec('COMMIT')
    reader.close()
    for (let i = 0; i < 200; i++) database.sql('INSERT INTO t VALUES (randomblob(3000))')
    expect(walBytes(database)).toBeLessThan(3 * CHECKPOINT_BYTES)
  })
})

test('a foreign reader that never ends can not make the log grow for ever: changes are refused, and go on when it is done', async () => {
  const walBytesMax = 3 * CHECKPOINT_BYTES
  const database = openTestDatabase({
    checkpointBytes: CHECKPOINT_BYTES,
    durability: 'relaxed',
    limits: { walBytesMax },
  })
  database.sql('CREATE TABLE t (a)')
  const reader = new Database(database.path, { readonly: true })
  reader.exec('BEGIN')
  reader.prepare('SELECT * FROM t').all()
  const insert = () => database.sql('INSERT INTO t VALUES (randomblob(3000))').changes
  const outcomes = Array.from({ length: 600 }, () => {
    try {
      return insert()
    } catch (error) {
      return error
    }
  })
  const refused = outcomes.filter((outcome) => outcome !== 1)
  expect(refused[0]).toMatchObject({ code: 'busy', details: { limit: walBytesMax } })
  expect(walBytes(database)).toBeLessThan(walBytesMax + 10 * FRAME_BYTES)
  const changes: (() => unknown)[] = [
    () => database.sql('DELETE FROM t RETURNING a'),
    () => database.transaction(() => 1),
    () => database.write(() => 1),
  ]
  expect(changes.map(codeOf)).toEqual(changes.map(() => 'busy'))
  await expect(database.commit(() => 1)).rejects.toMatchObject({ code: 'busy' })
  expect(database.sql('SELECT count(*) AS n FROM t').rows).toEqual([{ n: 600 - refused.length }])
  reader.exec('COMMIT')
  reader.close()
  let tries = 0
  for (; tries < 40; tries++) {
    try {
      insert()
      break
    } catch {}
  }
  expect(tries).toBeLessThan(33)
  expect(insert()).toBe(1)
  expect(walBytes(database)).toBeLessThan(CHECKPOINT_BYTES)
})

test('a transaction makes the log no longer than the cell, however often it changes the same pages', () => {
  const limits = { cellBytesMax: 2_097_152 }
  const database = openTestDatabase({ durability: 'relaxed', limits, pageCacheBytes: 65_536 })
  database.sql('CREATE TABLE t (a INTEGER PRIMARY KEY, b)')
  database.transaction(() => {
    for (let i = 0; i < 300; i++) database.sql('INSERT INTO t (b) VALUES (randomblob(3000))')
    for (let i = 0; i < 10; i++) database.sql('UPDATE t SET b = randomblob(3000)')
    expect(walBytes(database)).toBeLessThan(limits.cellBytesMax * 1.01)
  })
})

test('no checkpoint is made inside a transaction', () => {
  const database = openTestDatabase()
  database.transaction(() => {
    database.sql('CREATE TABLE t (a)')
    expect(database.checkpoints.run()).toBe(false)
  })
  expect(database.checkpoints.run()).toBe(true)
})

test('closing twice is closing once', () => {
  const database = openTestDatabase()
  database.close()
  database.close()
  expect(codeOf(() => database.sql('SELECT 1'))).toBe('store_closed')
})

test('a cell whose files are about to be removed is closed as it is: no checkpoint, and nothing that was committed is lost', () => {
  let checkpoints = 0
  const database = openTestDatabase({ hooks: { beforeCheckpoint: () => void checkpoints++ } })
  database.sql('CREATE TABLE t (a)')
  const file = fs.readFileSync(database.path)
  database.close({ leavesLog: true })
  expect(checkpoints).toBe(0)
  expect(fs.readFileSync(database.path)).toEqual(file)
  expect(walBytes(database)).toBeGreaterThan(0)
  const again = new Database(database.path)
  expect(again.prepare('SELECT count(*) FROM t').pluck().get()).toBe(0)
  again.close()
})
