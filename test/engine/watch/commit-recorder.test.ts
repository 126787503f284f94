import fs from 'node:fs'
import { expect, test, vi } from 'vitest'
import { CellDatabase } from '../../../src/engine/cell-database.ts'
import type { CommitChanges } from '../../../src/engine/watch/commit-recorder.ts'
import { openTestDatabase } from '../../support/open-test-database.ts'

function watched(): { database: CellDatabase; told: (readonly string[] | null)[] } {
  const database = openTestDatabase()
  database.sql('CREATE TABLE a (x)')
  database.sql('CREATE TABLE b (x)')
  const told: (readonly string[] | null)[] = []
  database.record(({ tables }: CommitChanges) => void told.push(tables))
  return { database, told }
}

test('a commit that is fsynced later is told once that fsync has ended, and before its caller goes on', async () => {
  const { database, told } = watched()
  database.syncs.defer(() => database.sql('INSERT INTO a VALUES (1)'))
  database.syncs.defer(() => database.sql('INSERT INTO b VALUES (1)'))
  expect(told).toEqual([])
  const synced = database.syncs.sync()
  expect(told).toEqual([])
  await synced
  expect(told).toEqual([['a'], ['b']])
})

test('a commit that comes while an fsync runs waits for its own, and order stays', async () => {
  const { database, told } = watched()
  database.syncs.defer(() => database.sql('INSERT INTO a VALUES (1)'))
  const first = database.syncs.sync()
  database.syncs.defer(() => database.sql('INSERT INTO b VALUES (1)'))
  await first
  expect(told).toEqual([['a']])
  await database.syncs.sync()
  expect(told).toEqual([['a'], ['b']])
})

test('a commit with an fsync of its own is told after those that wait for theirs', async () => {
  const { database, told } = watched()
  database.syncs.defer(() => database.sql('INSERT INTO a VALUES (1)'))
  const first = database.syncs.sync()
  database.sql('INSERT INTO b VALUES (1)')
  expect(told).toEqual([])
  await first
  expect(told).toEqual([['a'], ['b']])
})

test('what was committed when an fsync failed is not told', async () => {
  const { database, told } = watched()
  database.syncs.defer(() => database.sql('INSERT INTO a VALUES (1)'))
  const failing = vi
    .spyOn(fs, 'fsync')
    .mockImplementation((_fd, done) => done(new Error('EIO') as NodeJS.ErrnoException))
  await expect(database.syncs.sync()).rejects.toMatchObject({ code: 'cell_quarantined' })
  database.close()
  expect(told).toEqual([])
  failing.mockRestore()
  // It has left its log for a check.
  new CellDatabase(database.path, database.settings).close()
})

test('closing a cell tells of what it has fsynced', () => {
  const { database, told } = watched()
  database.syncs.defer(() => database.sql('INSERT INTO a VALUES (1)'))
  database.close()
  expect(told).toEqual([['a']])
})

test('a watch that begins inside a transaction does not know what came before, and says so', () => {
  const { database, told } = watched()
  const record = (changes: CommitChanges) => void told.push(changes.tables)
  database.record(undefined)
  database.transaction(() => {
    database.sql('INSERT INTO a VALUES (1)')
    database.record(record)
    database.sql('INSERT INTO b VALUES (1)')
  })
  database.sql('INSERT INTO b VALUES (1)')
  expect(told).toEqual([null, ['b']])
})

test('what OR FAIL leaves behind is told with the statement that failed', () => {
  const { database, told } = watched()
  database.sql('CREATE UNIQUE INDEX one ON a (x)')
  told.length = 0
  expect(() => database.sql('INSERT OR FAIL INTO a VALUES (1), (2), (1)')).toThrow()
  expect(told).toEqual([['a']])
  expect(() => database.sql('INSERT INTO a VALUES (3), (4), (3)')).toThrow()
  expect(told).toEqual([['a']])
})

test('a statement that changes no row makes no event', () => {
  const { database, told } = watched()
  database.sql('UPDATE a SET x = 1')
  database.sql('DELETE FROM a WHERE x = ?', [1])
  expect(told).toEqual([])
})

test('what a savepoint undid is not told, and what came before and after it is', () => {
  const { database, told } = watched()
  database.sql('CREATE TABLE c (x)')
  told.length = 0
  const insert = (table: string) => database.sql(`INSERT INTO ${table} VALUES (1)`)
  database.transaction(() => {
    insert('a')
    expect(() =>
      database.transaction(() => {
        insert('b')
        throw new Error('undone')
      }),
    ).toThrow('undone')
    insert('c')
  })
  expect(told).toEqual([['a', 'c']])
})

test('the tables of a statement are found again when a setting or a trigger changes what it does', () => {
  const { database, told } = watched()
  database.exec(`
    CREATE TABLE parents (id INTEGER PRIMARY KEY);
    CREATE TABLE children (parent REFERENCES parents ON DELETE CASCADE);
  `)
  const deletion = () => {
    database.sql('INSERT OR IGNORE INTO parents VALUES (1)')
    told.length = 0
    database.sql('DELETE FROM parents WHERE id = ?', [1])
    return told[0]
  }
  database.sql('PRAGMA foreign_keys = OFF')
  expect(deletion()).toEqual(['parents'])
  database.sql('PRAGMA foreign_keys = ON')
  expect(deletion()).toEqual(['parents', 'children'])
  database.sql('CREATE TRIGGER t AFTER DELETE ON parents BEGIN INSERT INTO a VALUES (1); END')
  expect(new Set(deletion())).toEqual(new Set(['parents', 'children', 'a']))
  expect(() =>
    database.transaction(() => {
      database.sql('DROP TRIGGER t')
      expect(deletion()).toEqual(undefined)
      throw new Error('undone')
    }),
  ).toThrow('undone')
  expect(new Set(deletion())).toEqual(new Set(['parents', 'children', 'a']))
})
