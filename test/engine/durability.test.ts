import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import type { CellDatabase } from '../../src/engine/cell-database.ts'
import { migrate } from '../../src/engine/migrations.ts'
import { runScript } from '../../src/engine/script.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import { openTestDatabase } from '../support/open-test-database.ts'
import { openTestStore } from '../support/open-test-store.ts'

/** What a setting is, asked past the policy. */
function pragma(database: CellDatabase, name: string): unknown {
  return database.prepare(`PRAGMA ${name}`).pluck().get()
}

const FULL = 2
const NORMAL = 1

/** Every way in which a change begins. */
const CHANGES: Record<string, (database: CellDatabase) => unknown> = {
  'a statement': (database) => database.sql('UPDATE t SET a = a + 5'),
  'one with RETURNING': (database) => database.sql('DELETE FROM t RETURNING a'),
  'a change of the schema': (database) => database.sql('CREATE TABLE u (a)'),
  'a PRAGMA that changes the file': (database) => database.sql('PRAGMA user_version = 7'),
  'a PRAGMA that changes it unseen': (database) => database.sql('PRAGMA optimize'),
  VACUUM: (database) => database.sql('VACUUM'),
  'a transaction': (database) => database.transaction(() => database.sql('DELETE FROM t')),
  'a group commit': (database) => database.commit(() => database.sql('DELETE FROM t')),
  'a group of several': (database) =>
    Promise.all([1, 2].map((a) => database.commit(() => database.sql('DELETE FROM t WHERE a = ?', [a])))),
  'a gathered group': (database) =>
    database.commitGroup([{ run: () => database.sql('DELETE FROM t'), settle: () => {} }]),
  "a change of the engine's own": (database) => database.write(() => database.exec('DELETE FROM t')),
  'a deletion of its own': (database) => database.writeDelete(() => database.exec('DELETE FROM t')),
  'a script': (database) => runScript(database, 'DELETE FROM t; VALUES (1)'),
  'a migration': (database) => migrate(() => database, [() => database.sql('DELETE FROM t')]),
}

describe('acknowledged means fsynced (invariant 1)', () => {
  test.each([
    ['full', FULL],
    ['relaxed', NORMAL],
  ] as const)('a %s cell is in WAL mode with synchronous at %i', (durability, level) => {
    const database = openTestDatabase({ durability })
    expect(pragma(database, 'synchronous')).toBe(level)
    expect(pragma(database, 'journal_mode')).toBe('wal')
  })

  test('it is full unless relaxed is asked for: by the store, or by the cell against the store', async () => {
    const level = (cell: Cell) => cell.sql('PRAGMA synchronous').rows[0]
    const full = await openTestStore()
    expect(level(full.store.createCell())).toEqual({ synchronous: FULL })
    expect(level(full.store.createCell({ durability: 'relaxed' }))).toEqual({ synchronous: NORMAL })
    const relaxed = await openTestStore({ durability: 'relaxed' })
    expect(level(relaxed.store.createCell())).toEqual({ synchronous: NORMAL })
    const cell = relaxed.store.createCell({ durability: 'full' })
    expect(level(cell)).toEqual({ synchronous: FULL })
    // The catalog says which it is, so it survives a restart.
    const reopened = await relaxed.reopen()
    expect(level(reopened.openCell(cell.id))).toEqual({ synchronous: FULL })
  })

  test('a change that needs no fsync of its own has none, and ends that also when it throws', () => {
    const database = openTestDatabase()
    expect(database.syncs.skip(() => database.transaction(() => pragma(database, 'synchronous')))).toBe(
      NORMAL,
    )
    expect(() =>
      database.syncs.skip(() => {
        throw new Error('x')
      }),
    ).toThrow('x')
    expect(database.transaction(() => pragma(database, 'synchronous'))).toBe(FULL)
  })

  test.each(Object.keys(CHANGES))('after a commit without an fsync, %s has one again', async (name) => {
    const database = openTestDatabase()
    database.sql('CREATE TABLE t (a INTEGER PRIMARY KEY)')
    database.sql('INSERT INTO t VALUES (1)')
    database.syncs.skip(() => database.sql('INSERT INTO t VALUES (2)'))
    database.syncs.defer(() =>
      // One inside the other: the end of the inner one is not the end of both.
      database.syncs.skip(() => {}),
    )
    expect(pragma(database, 'synchronous')).toBe(NORMAL)
    await CHANGES[name]?.(database)
    expect(pragma(database, 'synchronous')).toBe(FULL)
    database.syncs.defer(() => {
      database.syncs.skip(() => {})
      database.sql('INSERT INTO t VALUES (3)')
      expect(pragma(database, 'synchronous')).toBe(NORMAL)
    })
  })

  test('one that is prepared beside others has none, and the next one has', async () => {
    const database = openTestDatabase()
    const level = () => pragma(database, 'synchronous')
    const work = { run: level, settle: () => {} }
    const prepared = database.prepareGroup([work], {
      beforeCommit: () => {},
      committed: () => {},
      isFull: () => false,
    })
    expect(level()).toBe(NORMAL)
    prepared?.commit()
    await database.commit(() => expect(level()).toBe(FULL))
    await database.syncs.sync()
  })

  test.each([
    'synchronous = OFF',
    'main.synchronous = 0',
    '"synchronous"(0)',
    'journal_mode = DELETE',
    'wal_autocheckpoint = 1',
    'locking_mode = EXCLUSIVE',
    'max_page_count = 9999999',
    'wal_checkpoint(TRUNCATE)',
    'journal_size_limit = 0',
  ])('PRAGMA %s is refused also where SQL is trusted, by itself and behind EXPLAIN', (setting) => {
    const database = openTestDatabase({ sqlPolicy: 'trusted' })
    for (const sql of [`PRAGMA ${setting}`, `EXPLAIN PRAGMA ${setting}`, `/**/ pragma ${setting}`]) {
      expect(() => database.sql(sql)).toThrow(expect.objectContaining({ code: 'statement_not_allowed' }))
    }
    expect(pragma(database, 'synchronous')).toBe(FULL)
  })
})

test('foreign keys are enforced, and the schema is not trusted with functions', () => {
  const database = openTestDatabase()
  expect(pragma(database, 'foreign_keys')).toBe(1)
  expect(pragma(database, 'trusted_schema')).toBe(0)
})

test('the page cache is bounded per cell', () => {
  expect(pragma(openTestDatabase({ pageCacheBytes: 262_144 }), 'cache_size')).toBe(-256)
})

test('no wait for a lock blocks the event loop: a foreign writer makes a change fail at once (invariant 3)', async () => {
  const { store, directory } = await openTestStore()
  const cell = store.createCell()
  cell.kv.put('k', 'v')
  const foreign = new Database(new StorePaths(directory).cell(cell.id).database)
  foreign.exec('BEGIN IMMEDIATE')
  expect(cell.sql('PRAGMA busy_timeout').rows).toEqual([{ timeout: 0 }])
  expect(() => cell.kv.put('k', 'w')).toThrow(expect.objectContaining({ code: 'busy' }))
  expect(() => cell.sql('CREATE TABLE t (a)')).toThrow(expect.objectContaining({ code: 'busy' }))
  expect(() => cell.transaction(() => 1)).toThrow(expect.objectContaining({ code: 'busy' }))
  await expect(cell.commit(() => cell.kv.put('k', 'w'))).rejects.toMatchObject({ code: 'busy' })
  await expect(Promise.all([1, 2].map(() => cell.commit(() => 1)))).rejects.toMatchObject({ code: 'busy' })
  expect(cell.kv.get('k')).toBe('v')
  foreign.exec('ROLLBACK')
  foreign.close()
  cell.kv.put('k', 'w')
  expect(cell.kv.get('k')).toBe('w')
})
