import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { StorePaths } from '../../src/base/store-paths.ts'
import type { CellDatabase } from '../../src/engine/cell-database.ts'
import type { Cell } from '../../src/store/cell.ts'
import { openTestDatabase } from '../support/open-test-database.ts'
import { openTestStore } from '../support/open-test-store.ts'

/** What a setting is, asked past the policy. */
function pragma(database: CellDatabase, name: string): unknown {
  return database.prepare(`PRAGMA ${name}`).pluck().get()
}

const FULL = 2
const NORMAL = 1

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

  test('a change that needs no fsync of its own leaves the setting as it was, also when it throws', () => {
    const database = openTestDatabase()
    expect(database.syncs.skip(() => pragma(database, 'synchronous'))).toBe(NORMAL)
    expect(() =>
      database.syncs.skip(() => {
        throw new Error('x')
      }),
    ).toThrow('x')
    expect(pragma(database, 'synchronous')).toBe(FULL)
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
