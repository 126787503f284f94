import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { locksOn } from '../support/open-files.ts'
import { openTestCell, type TestStore } from '../support/open-test-store.ts'
import { tempDirectory } from '../support/temp-directory.ts'

async function openWithBackups() {
  const test = await openTestCell({ objectStore: `file://${path.join(tempDirectory(), 'objects')}` })
  test.cell.kv.put('k', 'v')
  return test
}

/** SQLite's locks on a cell's two files that carry any, and on the catalog's and the directory's. */
function locks({ directory }: TestStore, id: string): Record<string, string[]> {
  const paths = new StorePaths(directory)
  const { database, sharedMemory } = paths.cell(id)
  const files = {
    database,
    sharedMemory,
    catalog: paths.catalog,
    catalogMemory: `${paths.catalog}-shm`,
    lock: paths.lock,
  }
  return Object.fromEntries(Object.entries(files).map(([name, file]) => [name, locksOn(file)]))
}

describe('SQLite keeps its locks (invariant 4)', () => {
  test('an open cell holds one on its database and one on its shared memory', async () => {
    const test = await openWithBackups()
    const held = locks(test, test.cell.id)
    for (const [name, file] of Object.entries(held)) expect([name, file.length]).not.toEqual([name, 0])
  })

  /** What the store does beside SQLite while a cell is open. */
  const DEEDS: Record<string, (test: TestStore, id: string) => unknown> = {
    'its size is asked for': ({ store }, id) => store.openCell(id).sizeBytes,
    'it is listed and found': ({ store }, id) => [store.cells(), store.findCell(id), store.openCell(id)],
    'a snapshot is made': ({ store }, id) => store.backups.snapshot(id),
    'two snapshots and an incremental are made': async ({ store }, id) => {
      await store.backups.snapshot(id)
      store.openCell(id).kv.put('more', 'v')
      await store.backups.incremental(id)
      await store.backups.snapshot(id)
    },
    'its backups are listed': ({ store }, id) => store.backups.list(id),
    'the catalog is backed up': ({ store }) => {
      store.accounts.create()
      return store.core.catalogStored()
    },
    'another store wants the directory': ({ store, directory }) =>
      (store.constructor as typeof import('../../src/store/cell-store.ts').CellStore)
        .open(directory)
        .catch(() => {}),
    'a neighbour is made and deleted': ({ store }) => store.deleteCell(store.createCell().id),
    'its local data is asked for': ({ store }, id) => store.openCell(id).ensureLocal(),
    'it is checkpointed': ({ store }, id) => {
      for (let i = 0; i < 10; i++) store.openCell(id).kv.put('large', 'x'.repeat(1_000_000))
    },
  }
  test.each(Object.entries(DEEDS))('while %s', async (_what, deed) => {
    const test = await openWithBackups()
    const before = locks(test, test.cell.id)
    await deed(test, test.cell.id)
    test.cell.kv.get('k')
    // The system lists its locks in pieces: one list can lack a lock, or have one that is gone.
    await expect.poll(() => locks(test, test.cell.id)).toEqual(before)
  })

  test('after a restore they are on the new file', async () => {
    const test = await openWithBackups()
    const before = locks(test, test.cell.id)
    const { version } = await test.store.backups.snapshot(test.cell.id)
    test.cell.kv.put('k', 'w')
    await test.store.backups.restore(test.cell.id, { version })
    expect(test.cell.kv.get('k')).toBe('v')
    expect(locks(test, test.cell.id)).toEqual(before)
  })

  test('so a program that opens and closes the cell beside a snapshot deletes no log, and no commit is lost', async () => {
    const test = await openWithBackups()
    const { wal, database } = new StorePaths(test.directory).cell(test.cell.id)
    await test.store.backups.snapshot(test.cell.id)
    new Database(database).close()
    test.cell.kv.put('k', 'after')
    expect(fs.existsSync(wal)).toBe(true)
    const foreign = new Database(database)
    expect(foreign.prepare("SELECT value FROM _cell_kv WHERE key = 'k'").pluck().get()).toBe('after')
    foreign.close()
    expect(fs.statSync(wal).size).toBeGreaterThan(0)
  })
})

test('what closing a descriptor of a database does to its locks is what this suite can see', async () => {
  const { directory, cell } = await openTestCell()
  cell.kv.put('k', 'v')
  const { database } = new StorePaths(directory).cell(cell.id)
  expect(locksOn(database)).not.toEqual([])
  fs.closeSync(fs.openSync(database, 'r'))
  expect(locksOn(database)).toEqual([])
})
