import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, test, vi } from 'vitest'
import type { CellDatabase } from '../../src/engine/cell-database.ts'
import { openFilesBelow } from '../support/open-files.ts'
import { openTestDatabase } from '../support/open-test-database.ts'
import { codeOf, rejectedBy } from '../support/thrown.ts'
import { commitsIn } from '../support/wal-commits.ts'

type Callback = (error: NodeJS.ErrnoException | null) => void

/** The fsyncs of logs that the process makes, each waiting to be told how it ends. */
function heldFsyncs(): { file: string; commits: number; end: Callback }[] {
  const held: { file: string; commits: number; end: Callback }[] = []
  const hold = (descriptor: number, callback: Callback) => {
    const file = fs.readlinkSync(`/proc/self/fd/${descriptor}`)
    held.push({ file, commits: commitsIn(file), end: callback })
  }
  vi.spyOn(fs, 'fsync').mockImplementation(hold as typeof fs.fsync)
  return held
}

function ioError(): NodeJS.ErrnoException {
  return Object.assign(new Error('EIO: i/o error, fsync'), { code: 'EIO' })
}

function synchronous(database: CellDatabase): unknown {
  return database.prepare('PRAGMA synchronous').pluck().get()
}

function openWithTable(): CellDatabase {
  const database = openTestDatabase()
  database.sql('CREATE TABLE t (a)')
  return database
}

/** One in quarantine leaves its log behind: SQLite takes it in, as it would after a crash. */
function closeWithLog(database: CellDatabase): void {
  database.close()
  expect(fs.statSync(`${database.path}-wal`).size).toBeGreaterThan(0)
  const connection = new Database(database.path)
  connection.prepare('SELECT count(*) FROM sqlite_schema').get()
  connection.close()
}

const insert = (database: CellDatabase, a: number) =>
  database.syncs.defer(() => database.transaction(() => database.sql('INSERT INTO t VALUES (?)', [a])))

describe.runIf(process.platform === 'linux')('a log that is fsynced after its commits (invariant 1)', () => {
  test('waits for no fsync if nothing was committed after all, so that those who watch hear of the next commit at once', () => {
    const database = openWithTable()
    const told: unknown[] = []
    database.record((changes) => told.push(changes))
    const failing = { run: () => database.sql('INSERT INTO missing VALUES (1)'), settle: () => {} }
    const events = { beforeCommit: () => {}, committed: () => {}, isFull: () => false }
    expect(database.prepareGroup([failing], events)).toBeUndefined()
    database.syncs.defer(() => database.commitGroup([failing], events))
    expect([database.syncs.pending, database.busy]).toEqual([false, false])
    database.sql('INSERT INTO t VALUES (1)')
    expect(told).toEqual([{ keys: [], tables: ['t'] }])
  })

  test('is so before anything counts as on disk, with every commit that came before', async () => {
    const fsyncs = heldFsyncs()
    const database = openWithTable()
    const level = database.syncs.defer(() => synchronous(database))
    for (let a = 0; a < 3; a++) insert(database, a)
    expect([level, database.transaction(() => synchronous(database))]).toEqual([1, 2])
    expect(fsyncs).toEqual([])
    let isOnDisk = false
    const synced = database.syncs.sync().then(() => {
      isOnDisk = true
    })
    expect(fsyncs).toMatchObject([{ file: `${database.path}-wal`, commits: 4 }])
    await new Promise(setImmediate)
    expect(isOnDisk).toBe(false)
    fsyncs[0]?.end(null)
    await synced
  })

  test('is fsynced once more for what is committed while an fsync runs, and resolves only after both', async () => {
    const fsyncs = heldFsyncs()
    const database = openWithTable()
    insert(database, 1)
    const order: string[] = []
    const first = database.syncs.sync().then(() => order.push('first'))
    insert(database, 2)
    const second = database.syncs.sync().then(() => order.push('second'))
    const third = database.syncs.sync().then(() => order.push('third'))
    expect(fsyncs.map(({ commits }) => commits)).toEqual([2, 3])
    fsyncs[1]?.end(null)
    await new Promise(setImmediate)
    expect(order).toEqual([])
    fsyncs[0]?.end(null)
    await Promise.all([first, second, third])
    expect(order).toEqual(['first', 'second', 'third'])
  })

  test('keeps the cell open until it is on disk, and leaves no descriptor open', async () => {
    const fsyncs = heldFsyncs()
    const database = openWithTable()
    insert(database, 1)
    expect(database.busy).toBe(true)
    const synced = database.syncs.sync()
    expect(database.busy).toBe(true)
    fsyncs[0]?.end(null)
    await synced
    expect(database.busy).toBe(false)
    database.close()
    expect(openFilesBelow(path.dirname(database.path))).toEqual([])
  })

  test('is fsynced when the cell is closed first, and those that wait are answered', async () => {
    const database = openWithTable()
    insert(database, 1)
    const fsync = vi.spyOn(fs, 'fsyncSync')
    database.close()
    expect(fsync).toHaveBeenCalledTimes(1)
    await database.syncs.sync()
  })

  test('costs no fsync where nothing was committed, nor in a relaxed cell', async () => {
    const fsyncs = heldFsyncs()
    const database = openWithTable()
    await database.syncs.sync()
    const relaxed = openTestDatabase({ durability: 'relaxed' })
    relaxed.syncs.defer(() => relaxed.sql('CREATE TABLE t (a)'))
    await relaxed.syncs.sync()
    expect(fsyncs).toEqual([])
  })

  test('inside a transaction waits for its COMMIT, which is fsynced by SQLite', async () => {
    const fsyncs = heldFsyncs()
    const database = openWithTable()
    database.transaction(() => expect(database.syncs.defer(() => synchronous(database))).toBe(2))
    await database.syncs.sync()
    expect(fsyncs).toEqual([])
  })

  test('that can not be opened is fsynced by SQLite, in the COMMIT', async () => {
    const fsyncs = heldFsyncs()
    const database = openWithTable()
    vi.spyOn(fs, 'openSync').mockImplementationOnce(() => {
      throw Object.assign(new Error('EMFILE'), { code: 'EMFILE' })
    })
    expect(database.syncs.defer(() => synchronous(database))).toBe(2)
    expect(database.busy).toBe(false)
    await database.syncs.sync()
    expect(fsyncs).toEqual([])
  })
})

describe('an fsync of the log that fails', () => {
  test('ends all use of the cell: nothing that waits is acknowledged, and no later fsync makes up for it', async () => {
    const fsyncs = heldFsyncs()
    const failures: unknown[] = []
    const database = openTestDatabase({ hooks: { failed: (error) => void failures.push(error) } })
    database.sql('CREATE TABLE t (a)')
    insert(database, 1)
    const first = database.syncs.sync()
    insert(database, 2)
    const second = database.syncs.sync()
    fsyncs[1]?.end(null)
    fsyncs[0]?.end(ioError())
    for (const synced of [first, second, database.syncs.sync()])
      expect(await rejectedBy(synced)).toMatchObject({ code: 'cell_quarantined' })
    expect(codeOf(() => insert(database, 3))).toBe('cell_quarantined')
    expect(codeOf(() => database.sql('SELECT 1'))).toBe('cell_quarantined')
    expect(failures).toMatchObject([{ code: 'cell_quarantined', cause: { code: 'EIO' } }])
    expect(fsyncs).toHaveLength(2)
    closeWithLog(database)
  })

  test('at a close is reported to those that wait, and to the log', async () => {
    const failures: unknown[] = []
    const database = openTestDatabase({ hooks: { failed: (error) => void failures.push(error) } })
    database.sql('CREATE TABLE t (a)')
    insert(database, 1)
    vi.spyOn(fs, 'fsyncSync').mockImplementationOnce(() => {
      throw ioError()
    })
    database.close()
    expect(await rejectedBy(database.syncs.sync())).toMatchObject({ code: 'cell_quarantined' })
    expect(failures).toMatchObject([{ code: 'cell_quarantined' }])
    closeWithLog(database)
  })
})
