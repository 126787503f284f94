import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { writeNewFile } from '../../src/base/files/durable-files.ts'
import { CellPaths } from '../../src/base/files/store-paths.ts'
import { checkClosedCell } from '../../src/engine/files/quarantine-check.ts'
import { ReservedSchema } from '../../src/engine/reserved-schema.ts'
import { closeLeavingLog, openConnection } from '../../src/engine/sqlite.ts'
import { cutWal } from '../../src/engine/wal/wal-file.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { rejectedBy } from '../support/thrown.ts'
import { commitsIn } from '../support/wal-commits.ts'

const ROWS = 50

/** A cell that was closed with its log beside it, each row a commit of its own, and how many frames that makes. */
function closedWithLog() {
  const paths = new CellPaths(tempDirectory())
  writeNewFile(paths.database, new ReservedSchema('CREATE TABLE t (a INTEGER PRIMARY KEY, b);').image())
  const connection = openConnection(paths.database)
  connection.pragma('wal_autocheckpoint = 0')
  const frames: number[] = []
  for (let i = 0; i < ROWS; i++) {
    connection.exec('INSERT INTO t (b) VALUES (randomblob(2000))')
    frames.push((connection.pragma('wal_checkpoint(NOOP)') as { log: number }[])[0]?.log ?? 0)
  }
  expect(closeLeavingLog(connection)).toBe(true)
  return { paths, frames }
}

function rowsOf({ database }: CellPaths): number {
  const connection = new Database(database, { readonly: true })
  try {
    return connection.prepare('SELECT count(*) FROM t').pluck().get() as number
  } finally {
    connection.close()
  }
}

/** Moves the log into the database, and removes it. */
function checkpoint({ database }: CellPaths): void {
  const connection = new Database(database)
  connection.pragma('wal_checkpoint(TRUNCATE)')
  connection.close()
}

const check = (paths: CellPaths, frames?: number) => checkClosedCell({ paths, frames, isCurrent: () => true })

describe('a connection that is closed without a checkpoint', () => {
  test('leaves the database file as it was and the log with every commit', () => {
    const { paths } = closedWithLog()
    expect(commitsIn(paths.wal)).toBe(ROWS)
    expect(fs.statSync(paths.database).size).toBe(3 * 4_096)
    expect(rowsOf(paths)).toBe(ROWS)
  })

  test('stays open where its file can not be opened once more', () => {
    const { paths } = closedWithLog()
    const connection = openConnection(paths.database)
    expect(connection.prepare('SELECT count(*) FROM t').pluck().get()).toBe(ROWS)
    fs.renameSync(paths.database, `${paths.database}.away`)
    expect([closeLeavingLog(connection), connection.open]).toEqual([false, true])
    connection.close()
  })
})

describe('the check of a closed cell', () => {
  test('passes one that is whole, and changes no byte of it', async () => {
    const { paths, frames } = closedWithLog()
    const before = [paths.database, paths.wal].map((file) => fs.readFileSync(file))
    await check(paths, frames.at(-1))
    expect([paths.database, paths.wal].map((file) => fs.readFileSync(file))).toEqual(before)
    expect(rowsOf(paths)).toBe(ROWS)
  })

  test('passes one without a log', async () => {
    const { paths } = closedWithLog()
    checkpoint(paths)
    expect(fs.existsSync(paths.wal)).toBe(false)
    await check(paths, 0)
    expect(rowsOf(paths)).toBe(ROWS)
  })

  test('finds commits that the log has lost', async () => {
    const { paths, frames } = closedWithLog()
    const handle = fs.openSync(paths.wal, 'r+')
    fs.writeSync(handle, Buffer.alloc(100, 0xa5), 0, 100, Math.floor(fs.fstatSync(handle).size / 2))
    fs.closeSync(handle)
    expect(await rejectedBy(check(paths, frames.at(-1)))).toMatchObject({ details: { reason: 'damaged' } })
  })

  test('finds damaged pages', async () => {
    const { paths } = closedWithLog()
    checkpoint(paths)
    const handle = fs.openSync(paths.database, 'r+')
    for (let page = 3; page < 20; page++)
      fs.writeSync(handle, Buffer.alloc(4_096, 0xa5), 0, 4_096, page * 4_096)
    fs.closeSync(handle)
    await expect(check(paths)).rejects.toMatchObject({ details: { reason: 'damaged' } })
  })

  test.each([
    [
      'a search index over an endless view',
      `CREATE VIEW v AS WITH RECURSIVE r (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT i AS rowid, 'a' AS x FROM r;
       CREATE VIRTUAL TABLE f USING fts4(content="v", x);`,
    ],
    [
      'a generated column that never ends',
      `CREATE TABLE g (n); INSERT INTO g VALUES (1);
       ALTER TABLE g ADD COLUMN m TEXT AS (instr(hex(zeroblob(20000000 + (n IS NULL))), hex(zeroblob(10000000)) || '1'));`,
    ],
  ])(
    'runs nothing that the schema computes, such as %s, and finds damaged pages in spite of it',
    async (_, schema) => {
      const { paths } = closedWithLog()
      const connection = new Database(paths.database)
      connection.exec(schema)
      connection.close()
      await check(paths, 0)
      const handle = fs.openSync(paths.database, 'r+')
      for (let page = 3; page < 20; page++)
        fs.writeSync(handle, Buffer.alloc(4_096, 0xa5), 0, 4_096, page * 4_096)
      fs.closeSync(handle)
      await expect(check(paths)).rejects.toMatchObject({ code: 'SQLITE_CORRUPT' })
    },
  )

  const WIDE = Array.from({ length: 65 }, (_, i) => `c${i} INT NOT NULL DEFAULT 1`).join(', ')
  test.each([
    ['a generated column', 'CREATE TABLE g (n, m AS (n + 1))'],
    ['so many columns that their values are not looked at', `CREATE TABLE g (n, ${WIDE})`],
  ])('finds a damaged page of a table with %s', async (_, table) => {
    const { paths } = closedWithLog()
    const connection = new Database(paths.database)
    connection.exec(`${table}; INSERT INTO g (n) SELECT randomblob(2000) FROM t`)
    const pages = connection.pragma('page_count', { simple: true }) as number
    connection.close()
    await check(paths, 0)
    const handle = fs.openSync(paths.database, 'r+')
    fs.writeSync(handle, Buffer.alloc(4_096, 0xa5), 0, 4_096, (pages - 2) * 4_096)
    fs.closeSync(handle)
    await expect(check(paths)).rejects.toMatchObject({ code: 'SQLITE_CORRUPT' })
  })

  test('leaves files alone that have become somebody else’s', async () => {
    const { paths } = closedWithLog()
    fs.rmSync(paths.database)
    await checkClosedCell({ paths, frames: 1, isCurrent: () => false })
  })
})

test('what lies behind the last commit that was acknowledged is cut off the log', () => {
  const { paths, frames } = closedWithLog()
  cutWal(paths.wal, frames[29] as number)
  expect([commitsIn(paths.wal), rowsOf(paths)]).toEqual([30, 30])
  // Nothing to cut, and nothing that is a log.
  cutWal(paths.wal, 1_000)
  expect(rowsOf(paths)).toBe(30)
  const short = path.join(paths.directory, 'short')
  fs.writeFileSync(short, 'short')
  cutWal(short, 0)
  expect(fs.readFileSync(short, 'utf8')).toBe('short')
})
