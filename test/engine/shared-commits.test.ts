import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { newCellId } from '../../src/base/files/store-paths.ts'
import { silentLog } from '../../src/base/log.ts'
import { CommitLog } from '../../src/commit-log/commit-log.ts'
import { redo } from '../../src/commit-log/redo.ts'
import type { CellDatabase } from '../../src/engine/cell-database.ts'
import type { Durability } from '../../src/engine/cell-settings.ts'
import { SharedCommits } from '../../src/engine/commits/shared-commits.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { openTestDatabase } from '../support/open-test-database.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { rejectedBy } from '../support/thrown.ts'

/** Cells that share a commit log, as in a store. */
async function openCells(count: number, durability: Durability = 'full') {
  const directory = path.join(tempDirectory(), 'commit-log')
  const parts = { directory, owner: '1-1', fileBytesMax: 2 ** 20, clock: new FakeClock(), log: silentLog }
  const commits = new SharedCommits(new CommitLog(parts))
  const cells = Array.from({ length: count }, () => {
    const cellId = newCellId()
    const database = openTestDatabase({ durability, shared: { commits, cellId } })
    database.sql('CREATE TABLE t (a)')
    return Object.assign(database, { cellId })
  })
  await commits.log.prepare()
  onTestFinished(async () => {
    for (const cell of cells) cell.close()
    await commits.log.close()
    expect(fs.readdirSync(directory)).toEqual([])
  })
  return { cells, commits, directory }
}

type Cells = Awaited<ReturnType<typeof openCells>>

/** Commits one row in each of the cells in one turn. */
async function insert(cells: readonly CellDatabase[], a: number): Promise<void> {
  await Promise.all(cells.map((cell) => cell.commit(() => cell.sql('INSERT INTO t VALUES (?)', [a]))))
}

const rowsOf = (database: CellDatabase) =>
  database.sql<{ a: number }>('SELECT a FROM t').rows.map(({ a }) => a)

/** The rows that a cell has after a power loss in which its WAL kept this many bytes, and all zeros after them. */
async function rowsAfterPowerLoss(
  { directory }: Cells,
  cell: CellDatabase & { cellId: string },
  kept: number,
  redone = true,
): Promise<unknown[]> {
  const folder = tempDirectory()
  const file = path.join(folder, 'cell.db')
  fs.copyFileSync(cell.path, file)
  const wal = fs.readFileSync(`${cell.path}-wal`)
  fs.writeFileSync(`${file}-wal`, wal.fill(0, kept))
  const walOf = (id: string) => (id === cell.cellId ? `${file}-wal` : path.join(folder, 'none'))
  if (redone) await redo({ directory, wal: walOf })
  const connection = new Database(file)
  try {
    expect(connection.pragma('integrity_check', { simple: true })).toBe('ok')
    return connection.prepare('SELECT a FROM t').pluck().all()
  } finally {
    connection.close()
  }
}

/** fsyncs of WALs by us, and fdatasyncs of the log, from here on. */
function countSyncs() {
  const log = vi.spyOn(fs, 'fdatasyncSync')
  const wals = vi.spyOn(fs, 'fsync')
  return () => ({ log: log.mock.calls.length, wals: wals.mock.calls.length })
}

const walSize = (cell: CellDatabase) => fs.statSync(`${cell.path}-wal`).size

describe('commits of several cells in one turn (invariant 1)', () => {
  test('are on disk with one fdatasync of the log, and come back whatever their WALs have kept', async () => {
    const opened = await openCells(3)
    const { cells } = opened
    const syncs = countSyncs()
    for (const a of [1, 2]) await insert(cells, a)
    expect(syncs()).toEqual({ log: 2, wals: 0 })
    for (const cell of cells) {
      expect(rowsOf(cell)).toEqual([1, 2])
      for (let kept = 32; kept < walSize(cell); kept += 512)
        expect(await rowsAfterPowerLoss(opened, cell, kept), `${kept} bytes`).toEqual([1, 2])
      expect(await rowsAfterPowerLoss(opened, cell, walSize(cell) - 512, false)).toEqual([1])
    }
  })

  test('hold what was committed before without an fsync, and go on after commits with one of their own', async () => {
    const opened = await openCells(2)
    const { cells } = opened
    const [cell] = cells as [Cells['cells'][number]]
    await insert(cells, 1)
    cell.syncs.skip(() => cell.sql('INSERT INTO t VALUES (2)'))
    await insert(cells, 3)
    cell.sql('INSERT INTO t VALUES (4)')
    await insert(cells, 5)
    expect(await rowsAfterPowerLoss(opened, cell, 32)).toEqual([1, 2, 3, 4, 5])
  })

  test('begin at the start of the WAL again after a checkpoint', async () => {
    const opened = await openCells(2)
    const { cells } = opened
    for (const a of [1, 2, 3]) await insert(cells, a)
    for (const mode of ['PASSIVE', 'TRUNCATE'] as const) {
      for (const cell of cells) cell.checkpoints.run(mode)
      await insert(cells, mode === 'PASSIVE' ? 4 : 5)
    }
    for (const cell of cells) expect(await rowsAfterPowerLoss(opened, cell, 32)).toEqual([1, 2, 3, 4, 5])
  })

  test.each(['PASSIVE', 'RESTART', 'TRUNCATE'])(
    'hold everything if another program makes a %s checkpoint, and writes',
    async (mode) => {
      const opened = await openCells(2)
      const { cells } = opened
      const [cell] = cells as [Cells['cells'][number]]
      await insert(cells, 1)
      const other = new Database(cell.path)
      other.pragma('synchronous = NORMAL')
      other.pragma(`wal_checkpoint(${mode})`)
      other.exec('INSERT INTO t VALUES (2)')
      await insert(cells, 3)
      other.exec('INSERT INTO t VALUES (4)')
      await insert(cells, 5)
      expect(await rowsAfterPowerLoss(opened, cell, 32)).toEqual([1, 2, 3, 4, 5])
      other.close()
    },
  )

  test('that are long have their WAL fsynced, and the next ones are logged after them', async () => {
    const opened = await openCells(3)
    const { cells } = opened
    const [long] = cells as [Cells['cells'][number]]
    const syncs = countSyncs()
    const insertMuch = long.commit(() => long.sql("INSERT INTO t VALUES (zeroblob(1000000)), ('x')"))
    await Promise.all([insertMuch, insert(cells.slice(1), 1)])
    expect(syncs()).toEqual({ log: 1, wals: 1 })
    const safe = walSize(long)
    await insert(cells, 2)
    expect(syncs()).toEqual({ log: 2, wals: 1 })
    expect(await rowsAfterPowerLoss(opened, long, safe)).toHaveLength(3)
  })

  test('of one cell alone are fsynced in the COMMIT, and those of relaxed cells not at all', async () => {
    const { cells } = await openCells(2)
    const { cells: relaxed } = await openCells(2, 'relaxed')
    const syncs = countSyncs()
    await insert(cells.slice(1), 1)
    await insert(relaxed, 1)
    expect(syncs()).toEqual({ log: 0, wals: 0 })
  })

  test('show no failure of a neighbour, in the cell or another one', async () => {
    const { cells } = await openCells(2)
    const [a, b] = cells as unknown as [CellDatabase, CellDatabase]
    const work = () => {
      b.sql('INSERT INTO t VALUES (7)')
      throw new Error('mine')
    }
    const refused = rejectedBy(a.commit(() => a.sql('INSERT INTO missing VALUES (1)')))
    const thrown = b.commit(work).catch((error) => error)
    await insert(cells, 1)
    expect(await refused).toMatchObject({ code: 'sql_error' })
    expect(await thrown).toMatchObject({ message: 'mine' })
    expect([rowsOf(a), rowsOf(b)]).toEqual([[1], [1]])
  })

  test('are made at once by a close in the same turn', async () => {
    const { cells } = await openCells(2)
    const inserted = insert(cells, 1)
    cells[0]?.close()
    await inserted
    expect(rowsOf(cells[1] as CellDatabase)).toEqual([1])
  })
})

describe('a log that fails', () => {
  const ioError = () => {
    throw Object.assign(new Error('EIO'), { code: 'EIO' })
  }

  test.each(['writeSync', 'fdatasyncSync'] as const)(
    'in a %s has each WAL fsynced before anything is acknowledged',
    async (call) => {
      const opened = await openCells(2)
      const { cells } = opened
      const fsync = vi.spyOn(fs, 'fsync')
      vi.spyOn(fs, call).mockImplementationOnce(ioError)
      await insert(cells, 1)
      expect(fsync).toHaveBeenCalledTimes(2)
      await insert(cells, 2)
      expect(fsync).toHaveBeenCalledTimes(4)
      expect(rowsOf(cells[0] as CellDatabase)).toEqual([1, 2])
    },
  )

  test('and a WAL that can not be fsynced either quarantine the cell: its commit is not acknowledged', async () => {
    const { cells, commits, directory } = await openCells(3)
    const [bad, good] = cells as unknown as Cells['cells']
    await insert(cells, 1)
    vi.spyOn(fs, 'fdatasyncSync').mockImplementationOnce(ioError)
    const fsync = fs.fsync
    vi.spyOn(fs, 'fsync').mockImplementation(((fd: number, done: (error: Error | null) => void) =>
      fs.readlinkSync(`/proc/self/fd/${fd}`).startsWith(String(bad?.path))
        ? done(new Error('EIO'))
        : fsync(fd, done)) as typeof fs.fsync)
    const outcomes = await Promise.allSettled(cells.map((cell) => insert([cell], 2)))
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled'])
    expect(bad?.quarantined).toMatchObject({ details: { reason: 'io_error' } })
    expect(rowsOf(good as CellDatabase)).toEqual([1, 2])
    // Its first commit may be on disk only in the log, which stays for the next start.
    bad?.close()
    expect(commits.log.names(bad?.cellId ?? '')).toBe(true)
    vi.restoreAllMocks()
    commits.log.settled(bad?.cellId ?? '')
    expect(fs.readdirSync(directory)).not.toEqual([])
    new Database(bad?.path ?? '').exec('PRAGMA wal_checkpoint').close()
  })
})
