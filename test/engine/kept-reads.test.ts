import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, onTestFinished, test } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import type { CellDatabase } from '../../src/engine/cell-database.ts'
import { ForeignProgram } from '../support/backup/foreign-program.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { openTestDatabase, type TestDatabaseOptions } from '../support/open-test-database.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { codeOf } from '../support/thrown.ts'

const READ = 'SELECT b FROM t WHERE a = 1'

function open(options: TestDatabaseOptions = {}): CellDatabase {
  const database = openTestDatabase(options)
  database.sql('CREATE TABLE t (a INTEGER PRIMARY KEY, b)')
  database.sql('INSERT INTO t VALUES (1, 0)')
  return database
}

function read(database: CellDatabase): unknown {
  return database.sql<{ b: unknown }>(READ).rows[0]?.b
}

/** As many reads as it takes until they share a transaction. */
function readMany(database: CellDatabase): void {
  for (let i = 0; i < 10; i++) read(database)
  expect(database.reads.isOpen).toBe(true)
}

/** A second connection in this process, as of another program. */
function second(file: string): Database.Database {
  const other = new Database(file, { timeout: 0 })
  onTestFinished(() => void other.close())
  return other
}

describe('reads of one run share a transaction', () => {
  test('and see one state', () => {
    const database = open()
    const other = second(database.path)
    readMany(database)
    other.exec('UPDATE t SET b = 1')
    expect(read(database)).toBe(0)
  })

  test('what a program reads after an await has all that another process had committed', async () => {
    const database = open()
    const other = await ForeignProgram.open(database.path)
    for (let i = 1; i <= 40; i++) {
      readMany(database)
      await other.exec(`UPDATE t SET b = ${i}`)
      expect(read(database)).toBe(i)
    }
    await other.close()
  })

  test.each(['a microtask', 'process.nextTick', 'setImmediate'])(
    'it has ended after the run: %s',
    async (what) => {
      const database = open()
      const other = second(database.path)
      readMany(database)
      other.exec('UPDATE t SET b = 1')
      await (what === 'a microtask'
        ? Promise.resolve()
        : new Promise<void>((go) => (what === 'setImmediate' ? setImmediate(go) : process.nextTick(go))))
      expect([database.reads.isOpen, read(database)]).toEqual([false, 1])
    },
  )

  test('a loop that never waits sees what another program commits after at most 128 reads', () => {
    const database = open()
    const other = second(database.path)
    readMany(database)
    other.exec('UPDATE t SET b = 1')
    let reads = 1
    while (read(database) === 0 && reads < 1_000) reads++
    expect(reads).toBeLessThanOrEqual(128)
  })

  test('a program that reads once a run has no transactions soon', async () => {
    const database = open()
    let opened = 0
    for (let i = 0; i < 1_000; i++) {
      read(database)
      if (database.reads.isOpen) opened++
      await Promise.resolve()
    }
    expect(opened).toBeLessThan(12)
    for (let i = 0; i < 300; i++) read(database)
    expect(database.reads.isOpen).toBe(true)
  })
})

describe('anything but a read ends it first', () => {
  const DEEDS: Record<string, (database: CellDatabase) => unknown> = {
    'a change': (database) => database.sql('UPDATE t SET b = 7'),
    'a change with RETURNING': (database) => database.sql('UPDATE t SET b = 7 RETURNING b'),
    'a change of the schema': (database) => database.sql('CREATE TABLE u (a)'),
    'a PRAGMA': (database) => database.sql('PRAGMA user_version'),
    "the engine's own statement": (database) => database.prepare('SELECT 1').get(),
    "the engine's own change": (database) => database.write(() => database.exec('UPDATE t SET b = 7')),
    'a deletion': (database) => database.writeDelete(() => database.exec('DELETE FROM t')),
    'a transaction': (database) => database.transaction(() => database.sql('UPDATE t SET b = 7')),
    'a transaction of reads': (database) => database.read(() => read(database)),
    'a group commit': (database) => {
      const settled = { isAtomic: true, run: () => database.sql('UPDATE t SET b = 7'), settle() {} }
      database.commitGroup([settled])
    },
    'commits without an fsync': (database) => database.syncs.skip(() => database.sql('UPDATE t SET b = 7')),
    'a hold': (database) => database.beginHold({ timeoutMs: 1_000, clock: new FakeClock() }).hold.rollback(),
    'foreign keys': (database) => database.enforceForeignKeys(false),
    'a look at the log': (database) => database.checkpoints.state(),
    'a look at the state': (database) => database.inTransaction,
    'a statement that fails': (database) =>
      codeOf(() => database.sql('SELECT abs(-9223372036854775807 - 1)')),
    'a checkpoint': (database) => database.checkpoints.run('TRUNCATE'),
  }

  test.each(Object.entries(DEEDS))('%s', (_what, deed) => {
    const database = open()
    const other = second(database.path)
    readMany(database)
    other.exec('UPDATE t SET b = b + 1')
    deed(database)
    expect([database.reads.isOpen, database.inTransaction]).toEqual([false, false])
    expect(read(database)).toEqual(other.prepare(READ).pluck().get())
    database.sql('INSERT INTO t VALUES (99, 0)')
    expect(other.prepare('SELECT count(*) FROM t WHERE a = 99').pluck().get()).toBe(1)
  })

  test('a change never fails for what another program has committed since the reads', () => {
    const database = open()
    const other = second(database.path)
    for (let i = 0; i < 50; i++) {
      readMany(database)
      other.exec('UPDATE t SET b = b + 1')
      database.sql('UPDATE t SET b = b + 1')
    }
    expect(read(database)).toBe(100)
  })

  test('a checkpoint of ours moves all, and cuts the log', () => {
    const database = open()
    readMany(database)
    expect(database.checkpoints.run('TRUNCATE')).toBe(true)
    expect(fs.statSync(`${database.path}-wal`).size).toBe(0)
  })

  test('a copy is whole', async () => {
    const database = open()
    readMany(database)
    const target = path.join(tempDirectory(), 'copy.db')
    const copied = database.copyTo(target)
    readMany(database)
    await copied
    expect(second(target).prepare(READ).pluck().get()).toBe(0)
  })

  test('a close moves all of the log', () => {
    const database = open()
    readMany(database)
    database.close()
    expect(fs.existsSync(`${database.path}-wal`)).toBe(false)
    expect(database.reads.isOpen).toBe(false)
  })
})

test('reads that never pause keep no log from beginning again (invariant 7)', async () => {
  const database = open({ checkpointBytes: 100_000 })
  let largest = 0
  for (let i = 0; i < 400; i++) {
    for (let j = 0; j < 20; j++) read(database)
    database.sql('UPDATE t SET b = randomblob(2000)')
    for (let j = 0; j < 20; j++) read(database)
    largest = Math.max(largest, fs.statSync(`${database.path}-wal`).size)
  }
  expect(largest).toBeLessThan(300_000)
})

test("another program's checkpoint waits no longer than for the end of the run", async () => {
  const database = open()
  const other = await ForeignProgram.open(database.path)
  readMany(database)
  await other.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  expect(fs.statSync(`${database.path}-wal`).size).toBe(0)
  await other.close()
})

test('damage that a read finds ends it: the cell is quarantined, and nothing more is read or written', () => {
  const before = open()
  before.sql('CREATE TABLE u AS SELECT 1 AS a, zeroblob(100) AS b')
  const root = before.prepare("SELECT rootpage FROM sqlite_schema WHERE name = 'u'").pluck().get() as number
  const damaged = path.join(tempDirectory(), 'damaged.db')
  before.checkpoints.run('TRUNCATE')
  const bytes = fs.readFileSync(before.path)
  bytes.fill(0xff, (root - 1) * 4_096, root * 4_096)
  fs.writeFileSync(damaged, bytes)
  const connection = openTestDatabase({ path: damaged })
  readMany(connection)
  expect(codeOf(() => connection.sql('SELECT * FROM u'))).toBe('cell_quarantined')
  expect(connection.reads.isOpen).toBe(false)
  expect(codeOf(() => read(connection))).toBe('cell_quarantined')
  connection.close()
  for (const suffix of ['-wal', '-shm']) fs.rmSync(damaged + suffix, { force: true })
  expect(fs.readFileSync(damaged).equals(bytes)).toBe(true)
})

describe('of a cell', () => {
  test('an entry is gone the moment it expires, also between two reads of one run (invariant 11)', async () => {
    const { cell, clock } = await openTestCell()
    cell.kv.put('k', 'v', { ttlMs: 1_000 })
    for (let i = 0; i < 20; i++) expect(cell.kv.get('k')).toBe('v')
    clock.advance(1_000)
    expect([cell.kv.get('k'), cell.kv.entry('k')]).toEqual([undefined, undefined])
  })

  test('a change is read at once', async () => {
    const { cell } = await openTestCell()
    const { kv } = cell
    for (let i = 0; i < 100; i++) {
      for (let j = 0; j < 20; j++) kv.get('k')
      kv.put('k', String(i))
      expect([kv.get('k'), kv.entry('k')?.value]).toEqual([String(i), String(i)])
    }
    for (let j = 0; j < 20; j++) kv.get('k')
    const committed = cell.commit(() => kv.put('k', 'group'))
    for (let j = 0; j < 20; j++) kv.get('k')
    await committed
    expect(kv.get('k')).toBe('group')
  })

  test('a restore, a deletion and a close in the midst of reads', async () => {
    const directory = path.join(tempDirectory(), 'objects')
    const { cell, store, directory: data } = await openTestCell({ objectStore: `file://${directory}` })
    const { kv } = cell
    kv.put('k', 'v')
    const { version } = await store.backups.snapshot(cell.id)
    kv.put('k', 'w')
    for (let i = 0; i < 20; i++) kv.get('k')
    const restored = store.backups.restore(cell.id, { version })
    for (let i = 0; i < 20; i++) kv.get('k')
    await restored
    expect(kv.get('k')).toBe('v')
    const other = store.createCell()
    other.kv.put('k', 'v')
    for (let i = 0; i < 20; i++) other.kv.get('k')
    const deleted = store.deleteCell(other.id)
    await deleted
    expect(codeOf(() => other.kv.get('k'))).toBe('cell_not_found')
    for (let i = 0; i < 20; i++) kv.get('k')
    await store.close()
    expect(fs.existsSync(`${new StorePaths(data).cell(cell.id).database}-wal`)).toBe(false)
  })

  test("beside a hold others read what is committed, and after its end the hold's changes", async () => {
    const { cell } = await openTestCell()
    const { kv } = cell
    kv.put('k', 'before')
    for (let i = 0; i < 20; i++) kv.get('k')
    await cell.hold(async (tx) => {
      tx.kv.put('k', 'after')
      for (let i = 0; i < 20; i++) expect([kv.get('k'), tx.kv.get('k')]).toEqual(['before', 'after'])
      await Promise.resolve()
      for (let i = 0; i < 20; i++) expect([kv.get('k'), tx.kv.get('k')]).toEqual(['before', 'after'])
    })
    expect(kv.get('k')).toBe('after')
  })

  test("a function of the owner's that changes the cell within a query is refused as ever", async () => {
    const changes = { poke: (): null => null }
    const { cell } = await openTestCell({ functions: { poke: () => changes.poke() } })
    changes.poke = () => {
      cell.kv.put('k', 'v')
      return null
    }
    const poke = () => codeOf(() => cell.sql('SELECT poke()', [], { policy: 'trusted' }))
    const apart = poke()
    for (let i = 0; i < 20; i++) cell.kv.get('k')
    expect(poke()).toBe(apart)
    cell.kv.put('k', 'w')
    expect(cell.kv.get('k')).toBe('w')
  })
})
