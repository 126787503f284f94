import path from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, onTestFinished, test } from 'vitest'
import { writeNewFile } from '../../src/base/files/durable-files.ts'
import { silentLog } from '../../src/base/log.ts'
import { DEFAULT_LIMITS } from '../../src/base/options/limits.ts'
import { CommitLog } from '../../src/commit-log/commit-log.ts'
import { CellDatabase } from '../../src/engine/cell-database.ts'
import { SharedCommits } from '../../src/engine/commits/shared-commits.ts'
import { databaseImage } from '../../src/engine/sqlite.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { codeOf, rejectedBy } from '../support/thrown.ts'

const QUARANTINED = 'cell_quarantined'

/** Cells that share a commit log. Their files are not looked at again: they are damaged. */
function openCells(count: number): CellDatabase[] {
  const directory = tempDirectory()
  const parts = { directory, owner: '1-1', fileBytesMax: 2 ** 20, clock: new FakeClock(), log: silentLog }
  const commits = new SharedCommits(new CommitLog(parts))
  return Array.from({ length: count }, (_, i) => {
    const file = path.join(directory, `${i}.db`)
    writeNewFile(file, databaseImage('CREATE TABLE t (a)'))
    const database = new CellDatabase(file, {
      durability: 'full',
      sqlPolicy: 'trusted',
      limits: DEFAULT_LIMITS,
      pageCacheBytes: 1_048_576,
      checkpointBytes: 4_194_304,
      shared: { commits, cellId: String(i) },
    })
    onTestFinished(() => void database.close())
    return database
  })
}

/** SQLite has thrown away what it knew of the schema, and can't read it again. */
function damageSchema(database: CellDatabase): void {
  const other = new Database(database.path)
  other.unsafeMode(true)
  other.pragma('writable_schema = ON')
  other.exec("UPDATE sqlite_schema SET sql = 'CREATE TABLE t (' WHERE name = 't'")
  other.pragma('schema_version = 99')
  other.close()
  expect(() => database.prepare('SELECT * FROM t').get()).toThrow('malformed database schema')
}

const change = (database: CellDatabase) => database.write(() => database.exec('DELETE FROM t'))

describe('a cell whose schema SQLite has to read before it takes another setting, and can not, is quarantined by', () => {
  test('a change whose fsync comes back', () => {
    const [database] = openCells(1) as [CellDatabase]
    database.syncs.skip(() => change(database))
    damageSchema(database)
    expect(codeOf(() => change(database))).toBe(QUARANTINED)
    expect(database.quarantined).toBeDefined()
  })

  test('a change whose fsync is left out', () => {
    const [database] = openCells(1) as [CellDatabase]
    damageSchema(database)
    expect(codeOf(() => database.syncs.skip(() => change(database)))).toBe(QUARANTINED)
  })

  test('commits of several cells in one turn, and those of the others stay', async () => {
    const [damaged, whole] = openCells(2) as [CellDatabase, CellDatabase]
    damageSchema(damaged)
    const commits = [damaged, whole].map((database) =>
      database.commit(() => database.sql('INSERT INTO t VALUES (1)')),
    )
    expect((await rejectedBy(commits[0] as Promise<unknown>)).code).toBe(QUARANTINED)
    await commits[1]
    expect(whole.sql('SELECT a FROM t').rows).toEqual([{ a: 1 }])
  })
})
