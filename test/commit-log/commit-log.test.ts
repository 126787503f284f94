import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import { newCellId } from '../../src/base/files/store-paths.ts'
import { silentLog } from '../../src/base/log.ts'
import { CommitLog } from '../../src/commit-log/commit-log.ts'
import { LogFile } from '../../src/commit-log/log-file.ts'
import { readLog } from '../../src/commit-log/log-format.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { openFilesBelow } from '../support/open-files.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { turnsUntil } from '../support/turns.ts'

const FILE_BYTES = 65_536
const MIB = 1_048_576

async function openLog(fileBytesMax = FILE_BYTES) {
  const directory = path.join(tempDirectory(), 'commit-log')
  const parts = { directory, owner: '1-1', fileBytesMax, clock: new FakeClock(), log: silentLog }
  const log = new CommitLog(parts)
  await log.prepare()
  const files = () => fs.readdirSync(directory).map((name) => path.join(directory, name))
  const records = () => files().flatMap((file) => readLog(fs.readFileSync(file)).records)
  return { log, directory, files, records }
}

/** A cell whose fsync the test ends. */
class TestCell {
  readonly cellId = newCellId()
  readonly syncs: { resolve(): void; reject(error: unknown): void }[] = []

  syncWal(): Promise<void> {
    return new Promise((resolve, reject) => this.syncs.push({ resolve, reject }))
  }

  record(length = 20_000, fill = 1) {
    return {
      cellId: this.cellId,
      cell: this,
      salts: Buffer.alloc(8),
      offset: 32,
      bytes: Buffer.alloc(length, fill),
    }
  }
}

/** Appends until the file in use is another one. @returns how many batches the first one took */
async function fill(log: CommitLog, cell: TestCell): Promise<number> {
  let batches = 0
  while (cell.syncs.length === 0) {
    if (log.append([cell.record()])) batches++
    await new Promise(setImmediate)
  }
  return batches
}

const failing = (error: string) => () => {
  throw Object.assign(new Error(error), { code: error })
}

describe('the commit log of a process', () => {
  test('has a batch on disk when it says so', async () => {
    const { log, records } = await openLog()
    const sync = vi.spyOn(fs, 'fdatasyncSync')
    const [a, b] = [new TestCell(), new TestCell()]
    expect(log.append([a.record(), b.record()])).toBe(true)
    expect(sync).toHaveBeenCalledTimes(1)
    expect(records().map(({ cellId }) => cellId)).toEqual([a.cellId, b.cellId])
    expect([log.names(a.cellId), log.names(newCellId())]).toEqual([true, false])
  })

  test('takes nothing before its first file is whole, nor what is longer than a file', async () => {
    const { log } = await openLog()
    expect(log.append([new TestCell().record(FILE_BYTES)])).toBe(false)
    const parts = {
      directory: tempDirectory(),
      owner: '2-2',
      fileBytesMax: FILE_BYTES,
      clock: new FakeClock(),
    }
    const other = new CommitLog({ ...parts, log: silentLog })
    expect(other.append([new TestCell().record()])).toBe(false)
    await other.idle()
    expect(other.append([new TestCell().record()])).toBe(true)
    await other.close()
  })

  test('uses a file again only once each WAL that it names was fsynced', async () => {
    const { log, files, records } = await openLog()
    const [a, b] = [new TestCell(), new TestCell()]
    log.append([b.record(100, 7)])
    await fill(log, a)
    expect(files()).toHaveLength(2)
    // The second file becomes full too: there is no other, and the first one is still needed.
    while (log.append([a.record()]));
    expect(records().some(({ cellId }) => cellId === b.cellId)).toBe(true)
    a.syncs[0]?.resolve()
    await new Promise(setImmediate)
    expect(records().some(({ cellId }) => cellId === b.cellId)).toBe(true)
    b.syncs[0]?.resolve()
    await turnsUntil(() => !records().some(({ cellId }) => cellId === b.cellId), 'the first file is free')
    await turnsUntil(() => log.append([a.record()]), 'it is used again')
  })

  test('keeps a file whose WALs can not be fsynced, and at most four', async () => {
    const { log, files, records } = await openLog()
    const cells: TestCell[] = []
    for (let i = 0; i < 200; i++) {
      const cell = new TestCell()
      cell.syncWal = () => Promise.reject(new Error('EIO'))
      if (log.append([cell.record()])) cells.push(cell)
      await log.idle()
    }
    expect(files()).toHaveLength(4)
    expect(records().map(({ cellId }) => cellId)).toEqual(
      expect.arrayContaining(cells.map(({ cellId }) => cellId)),
    )
    expect(log.append([new TestCell().record()])).toBe(false)
    for (const { cellId } of cells) log.settled(cellId)
    await log.idle()
    expect(log.append([new TestCell().record()])).toBe(true)
    expect(files()).toHaveLength(2)
  })

  test.each(['writeSync', 'fdatasyncSync'] as const)(
    'takes nothing more after a failed %s, and keeps its files',
    async (call) => {
      const { log, files, records } = await openLog()
      const cell = new TestCell()
      log.append([cell.record()])
      vi.spyOn(fs, call).mockImplementationOnce(failing('EIO'))
      expect(log.append([cell.record()])).toBe(false)
      expect(log.append([cell.record()])).toBe(false)
      await log.close()
      expect(files()).toHaveLength(1)
      expect(records()[0]?.cellId).toBe(cell.cellId)
    },
  )

  test('keeps no file that could not be made empty: no WAL needs it, and each would take its room until the next start', async () => {
    const { log, files } = await openLog()
    const cells: TestCell[] = []
    vi.spyOn(LogFile.prototype, 'renew').mockImplementation(function (this: LogFile) {
      // Those that are made are empty.
      return this.room < this.size / 2 ? Promise.reject(new Error('ENOSPC')) : Promise.resolve()
    })
    for (let i = 0; i < 40; i++) {
      const cell = new TestCell()
      cell.syncWal = async () => {}
      if (log.append([cell.record()])) cells.push(cell)
      await log.idle()
    }
    expect(cells.length).toBeGreaterThan(20)
    expect(files().length).toBeLessThanOrEqual(2)
    for (const { cellId } of cells) log.settled(cellId)
    await log.close()
    expect(files()).toEqual([])
  })

  test('makes no file where it would take most of the room that is left on the disk: others need that', async () => {
    const { bsize } = fs.statfsSync('/tmp')
    const directory = path.join(tempDirectory(), 'commit-log')
    const parts = { directory, owner: '1-1', fileBytesMax: MIB, clock: new FakeClock(), log: silentLog }
    const disk = vi.spyOn(fs, 'statfsSync')
    const fill = (free: number) => disk.mockReturnValue({ bavail: free / bsize, bsize } as fs.StatsFs)
    fill(1.5 * MIB)
    const log = new CommitLog(parts)
    await log.prepare()
    expect(fs.readdirSync(directory)).toEqual([])
    expect(log.append([new TestCell().record()])).toBe(false)
    fill(200 * MIB)
    for (let groups = 0; !log.append([new TestCell().record()]); groups++) {
      expect(groups).toBeLessThan(5_000)
      await log.idle()
    }
    await log.close()
  })

  test('without room on the disk says so, and tries again later', async () => {
    const directory = path.join(tempDirectory(), 'commit-log')
    const parts = {
      directory,
      owner: '1-1',
      fileBytesMax: FILE_BYTES,
      clock: new FakeClock(),
      log: silentLog,
    }
    const log = new CommitLog(parts)
    const open = vi.spyOn(fs, 'openSync').mockImplementation(failing('ENOSPC'))
    await log.prepare()
    open.mockRestore()
    let groups = 0
    for (; !log.append([new TestCell().record()]); groups++) await log.idle()
    expect(groups).toBeGreaterThan(100)
    await log.close()
  })

  test('has longer files where many cells share it', async () => {
    const { log, files } = await openLog(64 * MIB)
    const cells = Array.from({ length: 200 }, () => {
      const cell = new TestCell()
      cell.syncWal = async () => {}
      return cell
    })
    for (let i = 0; i < 8; i++) {
      log.append(cells.map((cell) => cell.record(10_000)))
      await log.idle()
    }
    expect(Math.max(...files().map((file) => fs.statSync(file).size))).toBe(16 * MIB)
  })

  test('makes the second file for as many cells as the first one names so far: else each would fsync its WAL after a commit or two', async () => {
    const { log, files } = await openLog(64 * MIB)
    // Half of the first file, which has room for a few commits of each.
    log.append(Array.from({ length: 220 }, () => new TestCell().record(10_000)))
    await log.idle()
    expect(files().map((file) => fs.statSync(file).size)).toEqual([4 * MIB, 16 * MIB])
  })

  test('removes its files at its end if no WAL needs them, and leaves no descriptor open', async () => {
    const { log, directory } = await openLog()
    const [a, b] = [new TestCell(), new TestCell()]
    log.append([a.record(), b.record()])
    log.settled(a.cellId)
    log.settled(b.cellId)
    await log.close()
    expect(fs.readdirSync(directory)).toEqual([])
    expect(openFilesBelow(directory)).toEqual([])
    expect(log.append([a.record()])).toBe(false)
  })
})
