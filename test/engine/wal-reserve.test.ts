import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import type { CellDatabase } from '../../src/engine/cell-database.ts'
import { PAGE_BYTES } from '../../src/engine/cell-settings.ts'
import { FRAME_BYTES, walBytes } from '../../src/engine/wal/wal-file.ts'
import { openTestDatabase, type TestDatabaseOptions } from '../support/open-test-database.ts'
import { tempDirectory } from '../support/temp-directory.ts'

function openWithTable(options?: TestDatabaseOptions): CellDatabase {
  const database = openTestDatabase(options)
  database.sql('CREATE TABLE t (a INTEGER PRIMARY KEY)')
  return database
}

function commit(database: CellDatabase, times: number): void {
  for (let i = 0; i < times; i++) database.sql('INSERT INTO t DEFAULT VALUES')
}

/** Bytes of the log, and behind it. */
function lengths(database: CellDatabase): { used: number; reserve: number } {
  const used = walBytes(database.checkpoints.frames(), PAGE_BYTES)
  return { used, reserve: fs.statSync(`${database.path}-wal`).size - used }
}

const count = (connection: Database.Database) => connection.prepare('SELECT count(*) FROM t').pluck().get()

describe('a log that grows has zeros behind it, which no reader takes for a commit', () => {
  test('as many as it has itself, and at most 1 MiB', () => {
    const database = openWithTable()
    for (let commits = 0; commits < 900; commits += 50) {
      commit(database, 50)
      const { used, reserve } = lengths(database)
      expect(reserve).toBeGreaterThan(0)
      expect(reserve).toBeLessThanOrEqual(Math.min(2 * used, 1_048_576))
    }
  })

  test('a copy of both files has every commit: as after a power loss, and as a backup is read by hand', () => {
    const database = openWithTable()
    commit(database, 100)
    expect(lengths(database).reserve).toBeGreaterThan(0)
    const copy = path.join(tempDirectory(), 'copy.db')
    for (const suffix of ['', '-wal']) fs.copyFileSync(database.path + suffix, copy + suffix)
    const connection = new Database(copy)
    expect(count(connection)).toBe(100)
    expect(connection.pragma('integrity_check', { simple: true })).toBe('ok')
    connection.close()
  })

  test('what another program commits to the cell stays, before a reserve and after it', () => {
    const database = openWithTable()
    const other = new Database(database.path)
    const insert = other.prepare('INSERT INTO t DEFAULT VALUES')
    for (let i = 0; i < 400; i++) {
      insert.run()
      commit(database, 1)
      insert.run()
    }
    expect(count(other)).toBe(1_200)
    expect(other.pragma('integrity_check', { simple: true })).toBe('ok')
    other.close()
  })

  test('a log that another program cuts between the look and the zeros begins with zeros, and loses nothing', () => {
    const database = openWithTable()
    const other = new Database(database.path)
    const { fstatSync } = fs
    let cuts = 0
    const look = vi.spyOn(fs, 'fstatSync').mockImplementation(((fd: number) => {
      const before = fstatSync(fd)
      other.pragma('wal_checkpoint(TRUNCATE)')
      cuts++
      return before
    }) as typeof fstatSync)
    let hadNoHeader = 0
    for (let i = 0; i < 100; i++) {
      const cutsBefore = cuts
      commit(database, 1)
      if (cuts === cutsBefore) continue
      const log = fs.readFileSync(`${database.path}-wal`)
      if (log.length > 0 && log.every((byte) => byte === 0)) hadNoHeader++
      expect(count(other)).toBe(i + 1)
    }
    look.mockRestore()
    expect(hadNoHeader).toBeGreaterThan(0)
    expect(count(other)).toBe(100)
    expect(other.pragma('integrity_check', { simple: true })).toBe('ok')
    other.close()
  })

  test('a log that was cut and grows again gets them again', () => {
    const database = openWithTable()
    commit(database, 100)
    expect(database.checkpoints.run('TRUNCATE')).toBe(true)
    expect(fs.statSync(`${database.path}-wal`).size).toBe(0)
    commit(database, 100)
    expect(lengths(database).reserve).toBeGreaterThan(0)
  })
})

test('where logs are moved early, as in the tests of faults, they get them early', () => {
  const database = openWithTable({ checkpointBytes: 65_536 })
  commit(database, 5)
  expect(lengths(database).reserve).toBeGreaterThan(0)
})

describe('there is no reserve where it would not help', () => {
  test('in a cell that changes little', () => {
    const database = openWithTable()
    commit(database, 10)
    expect(lengths(database).reserve).toBe(0)
  })

  test('in a relaxed cell, and for commits whose fsync is left out', () => {
    const relaxed = openWithTable({ durability: 'relaxed' })
    commit(relaxed, 100)
    expect(lengths(relaxed).reserve).toBe(0)
    const deferred = openWithTable()
    deferred.syncs.defer(() => commit(deferred, 100))
    expect(lengths(deferred).reserve).toBe(0)
  })

  test('once the log is as long as it gets, and overwrites itself', () => {
    const database = openWithTable({ checkpointBytes: 200_000 })
    const write = vi.spyOn(fs, 'writeSync')
    onTestFinished(() => void write.mockRestore())
    commit(database, 60)
    const before = write.mock.calls.length
    expect(before).toBeGreaterThan(0)
    commit(database, 300)
    expect(write.mock.calls.length).toBe(before)
    // One commit may pass the bound.
    expect(fs.statSync(`${database.path}-wal`).size).toBeLessThan(200_000 + 3 * FRAME_BYTES)
  })
})

describe('a disk that refuses the zeros', () => {
  /** Makes 100 commits on a full disk. @returns how often it was asked */
  function commitOnFullDisk(database: CellDatabase): number {
    const write = vi.spyOn(fs, 'writeSync').mockImplementation(() => {
      throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' })
    })
    commit(database, 100)
    const asked = write.mock.calls.length
    write.mockRestore()
    return asked
  }

  test('does not refuse the commits, and is asked once', () => {
    const database = openWithTable()
    expect(commitOnFullDisk(database)).toBe(1)
    expect(database.sql('SELECT count(*) AS n FROM t').rows).toEqual([{ n: 100 }])
  })

  test.each(['PASSIVE', 'TRUNCATE'] as const)(
    'is asked again for a log that has begun again (%s)',
    (mode) => {
      const database = openWithTable()
      commitOnFullDisk(database)
      commit(database, 10)
      expect(lengths(database).reserve).toBe(0)
      expect(database.checkpoints.run(mode)).toBe(true)
      commit(database, 150)
      expect(lengths(database).reserve).toBeGreaterThan(0)
    },
  )
})
