import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test, vi } from 'vitest'
import type { CellPaths } from '../../src/base/files/store-paths.ts'
import { readLog } from '../../src/commit-log/log-format.ts'
import type { CellStore } from '../../src/store/cell-store.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import { KeptLog } from '../support/kept-log.ts'
import { openTestStore, type TestStore } from '../support/open-test-store.ts'
import { outOfReach } from '../support/out-of-reach.ts'
import { StoreDirectory } from '../support/store-directory.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { codeOf, thrownBy } from '../support/thrown.ts'

let next = 0

/** Writes to the cells in one turn, until all of it was in the commit log. @returns the number that each has as `n` now */
async function write(...cells: Cell[]): Promise<string> {
  const sync = vi.spyOn(fs, 'fdatasyncSync')
  const before = sync.mock.calls.length
  while (sync.mock.calls.length === before) {
    next++
    await Promise.all(cells.map((cell) => cell.commit(() => cell.kv.put('n', String(next)))))
  }
  return String(next)
}

/** What a power loss leaves if each WAL lost all that was logged, whatever the file system has stored of it. */
function powerLoss(from: string): StoreDirectory {
  const directory = StoreDirectory.ofTest(path.join(tempDirectory(), 'data'))
  const { path: to, paths } = directory
  directory.mayHaveLogs = true
  fs.cpSync(from, to, { recursive: true })
  const records = logsOf(directory).flatMap((file) => readLog(fs.readFileSync(file)).records)
  for (const [cellId, own] of Map.groupBy(records, (record) => record.cellId)) {
    const { wal } = paths.cell(cellId)
    if (!fs.existsSync(wal)) continue
    const salts = fs.readFileSync(wal).subarray(16, 24)
    const offsets = own.filter((record) => record.salts.equals(salts)).map(({ offset }) => offset)
    if (offsets.length > 0) fs.truncateSync(wal, Math.max(32, Math.min(...offsets)))
  }
  return directory
}

async function openStore(options: { objectStore?: string } = {}): Promise<TestStore & { a: Cell; b: Cell }> {
  const test = await openTestStore(options)
  return Object.assign(test, { a: test.store.createCell(), b: test.store.createCell() })
}

const nOf = (store: CellStore, { id }: Cell) => store.openCell(id).kv.get('n')

const logsOf = ({ paths }: StoreDirectory) =>
  fs.readdirSync(paths.commitLogs).map((name) => path.join(paths.commitLogs, name))

/** Flips a bit in the logs, at the place that `find` names. */
function damage(directory: StoreDirectory, find: (file: Buffer) => number): void {
  for (const file of logsOf(directory)) {
    const bytes = fs.readFileSync(file)
    const at = find(bytes)
    bytes[at] = (bytes[at] as number) ^ 1
    fs.writeFileSync(file, bytes)
  }
}

/** What a power loss leaves after two turns of writes if damage in the log hides whom it concerns. */
async function lossThatHidesWhom(directory: string, ...cells: Cell[]): Promise<StoreDirectory> {
  for (let turn = 0; turn < 2; turn++) await write(...cells)
  const lost = powerLoss(directory)
  damage(lost, () => 512 + 20)
  return lost
}

/** Where the bytes of a cell's last record but one stand in a log. */
function inRecordOf({ id }: Cell, file: Buffer): number {
  const own = readLog(file).records.filter(({ cellId }) => cellId === id)
  const bytes = own.at(-2)?.bytes as Buffer
  return bytes.byteOffset - file.byteOffset + bytes.length - 100
}

describe('the commit log of a store (invariant 1)', () => {
  test('brings back what WALs lost, once, and is gone after the start', async () => {
    const { directory, a, b } = await openStore()
    await write(a, b)
    const n = await write(a, b)
    const lost = powerLoss(directory)
    const store = await lost.open()
    expect([nOf(store, a), nOf(store, b)]).toEqual([n, n])
    expect(logsOf(lost)).toEqual([])
  })

  test('is empty after a proper close', async () => {
    const { directory, store, a, b } = await openStore()
    await write(a, b)
    await store.close()
    expect(fs.readdirSync(path.join(directory, 'commit-log'))).toEqual([])
  })

  test('keeps nobody from the next start: after a redo that was cut off, the next one does all of it', async () => {
    const { directory, a, b } = await openStore()
    const n = await write(a, b)
    const lost = powerLoss(directory)
    vi.spyOn(fs, 'rmSync').mockImplementation((file) => {
      if (String(file).endsWith('.log')) throw new Error('cut off')
    })
    await expect(lost.open()).rejects.toThrow('cut off')
    vi.restoreAllMocks()
    const store = await lost.open()
    expect([nOf(store, a), nOf(store, b)]).toEqual([n, n])
  })

  test('fails the start if it can not be read: nothing serves without its commits', async () => {
    const { directory, a, b } = await openStore()
    await write(a, b)
    const lost = powerLoss(directory)
    const [file] = logsOf(lost) as [string]
    fs.renameSync(file, `${file}.kept`)
    fs.mkdirSync(file)
    await expect(lost.open()).rejects.toThrow(/EISDIR/)
    fs.rmdirSync(file)
    fs.renameSync(`${file}.kept`, file)
    expect(nOf(await lost.open(), a)).toBe(String(next))
  })

  test('stays while the disk of the cells is not mounted', async () => {
    const { directory, a, b } = await openStore()
    const n = await write(a, b)
    const lost = powerLoss(directory)
    fs.renameSync(lost.paths.cells, `${lost.paths.cells}-not-mounted`)
    await expect(lost.open()).rejects.toMatchObject({ code: 'cells_missing' })
    fs.rmSync(lost.paths.cells, { recursive: true, force: true })
    fs.renameSync(`${lost.paths.cells}-not-mounted`, lost.paths.cells)
    const store = await lost.open()
    expect([nOf(store, a), nOf(store, b)]).toEqual([n, n])
  })

  test('holds nothing over a cell that was restored, whenever the power fails after the restore', async () => {
    const objectStore = `file://${tempDirectory()}`
    const { directory, store, a, b } = await openStore({ objectStore })
    await write(a, b)
    a.kv.put('of', 'the backup')
    const { version } = await store.backups.snapshot(a.id)
    a.kv.put('of', 'the old history')
    const n = await write(a, b)
    await store.backups.restore(a.id, { version })
    const restored = await powerLoss(directory).open({ objectStore, takeOver: true })
    expect([restored.openCell(a.id).kv.get('of'), nOf(restored, b)]).toEqual(['the backup', n])
    await write(store.openCell(a.id), b)
    const later = await powerLoss(directory).open({ objectStore, takeOver: true })
    expect([later.openCell(a.id).kv.get('of'), nOf(later, a)]).toEqual(['the backup', String(next)])
  })

  test('does not bring back a deleted cell', async () => {
    const { directory, store, a, b } = await openStore()
    const n = await write(a, b)
    store.deleteCell(a.id)
    const lost = powerLoss(directory)
    const opened = await lost.open()
    expect(nOf(opened, b)).toBe(n)
    expect(codeOf(() => opened.openCell(a.id))).toBe('cell_not_found')
    expect(fs.existsSync(lost.paths.cell(a.id).directory)).toBe(false)
  })

  test('with damage in an acknowledged record closes the cell that it names, and no other', async () => {
    const { directory, a, b } = await openStore()
    for (let i = 0; i < 3; i++) await write(a, b)
    const lost = powerLoss(directory)
    damage(lost, (file) => inRecordOf(a, file))
    const store = await lost.open()
    expect(nOf(store, b)).toBe(String(next))
    expect(codeOf(() => nOf(store, a))).toBe('cell_quarantined')
    await expect.poll(() => store.openCell(a.id).quarantine?.reason).toBe('damaged')
  })

  test('with damage costs nothing where the WAL has kept the commits: after a kill, for example', async () => {
    const { directory, a, b } = await openStore()
    for (let i = 0; i < 3; i++) await write(a, b)
    const killed = StoreDirectory.ofTest(path.join(tempDirectory(), 'data'))
    killed.mayHaveLogs = true
    fs.cpSync(directory, killed.path, { recursive: true })
    damage(killed, (file) => inRecordOf(a, file))
    const store = await killed.open()
    expect(codeOf(() => nOf(store, a))).toBe('cell_quarantined')
    await expect.poll(() => nOf(store, a)).toBe(String(next))
  })

  test('with damage that hides whom it concerns closes each cell with changes in its WAL', async () => {
    const { directory, store, a, b } = await openStore()
    const closed = store.createCell()
    const lost = await lossThatHidesWhom(directory, a, b)
    const opened = await lost.open()
    for (const cell of [a, b]) {
      expect(codeOf(() => nOf(opened, cell))).toBe('cell_quarantined')
      await expect.poll(() => opened.openCell(cell.id).quarantine?.reason).toBe('damaged')
    }
    expect(nOf(opened, closed)).toBeUndefined()
  })

  test('with such damage closes an unreadable one of them too, whose commits no later start can bring back', async () => {
    const { directory, a, b } = await openStore()
    const lost = await lossThatHidesWhom(directory, a, b)
    const back = outOfReach(lost.paths.cell(a.id).directory)
    for (let start = 0; start < 2; start++) {
      const store = await lost.open()
      expect(store.openCell(a.id).quarantine?.reason).toBe('io_error')
      await store.close()
    }
    back()
    const store = await lost.open()
    expect(codeOf(() => nOf(store, a))).toBe('cell_quarantined')
    await expect.poll(() => store.openCell(a.id).quarantine?.reason).toBe('damaged')
    expect(logsOf(lost)).toEqual([])
  })

  test('with such damage closes an unreadable cell without a WAL only until it can be read', async () => {
    const { directory, store, a, b } = await openStore()
    const closed = store.createCell()
    const lost = await lossThatHidesWhom(directory, a, b)
    const back = outOfReach(lost.paths.cell(closed.id).directory)
    const opened = await lost.open()
    expect(opened.openCell(closed.id).quarantine?.reason).toBe('io_error')
    await opened.close()
    back()
    expect(nOf(await lost.open(), closed)).toBeUndefined()
    expect(logsOf(lost)).toEqual([])
  })

  test('with such damage closes them next to folders that are not of cells: a file system has a lost+found', async () => {
    const { directory, a, b } = await openStore()
    const lost = await lossThatHidesWhom(directory, a, b)
    const folder = path.join(lost.paths.cells, 'lost+found')
    fs.mkdirSync(folder)
    outOfReach(folder)
    const store = await lost.open()
    for (const cell of [a, b]) expect(codeOf(() => nOf(store, cell))).toBe('cell_quarantined')
  })

  test.for([
    ['write-ahead log', (paths: CellPaths) => paths.wal],
    ['folder', (paths: CellPaths) => paths.directory],
  ] as const)(
    'that meets an unreadable %s keeps the commits of that cell, and all others start',
    async ([, file]) => {
      const { directory, a, b } = await openStore()
      await write(a, b)
      const n = await write(a, b)
      const lost = powerLoss(directory)
      const back = outOfReach(file(lost.paths.cell(a.id)))
      for (let start = 0; start < 2; start++) {
        const log = new KeptLog()
        const store = await lost.open({ log })
        expect(nOf(store, b)).toBe(n)
        expect(log.errors).toMatchObject([{ cellId: a.id, err: { code: 'ELOOP' } }])
        await store.close()
      }
      back()
      const store = await lost.open()
      expect([nOf(store, a), nOf(store, b)]).toEqual([n, n])
      expect(fs.readdirSync(lost.paths.commitLogs)).toEqual([])
    },
  )

  test('serves no cell without its commits, also if its write-ahead log can be read again before the next start', async () => {
    const { directory, a, b } = await openStore()
    await write(a, b)
    const n = await write(a, b)
    const lost = powerLoss(directory)
    const back = outOfReach(lost.paths.cell(a.id).directory)
    const store = await lost.open()
    back()
    expect(thrownBy(() => nOf(store, a))).toMatchObject({
      code: 'cell_quarantined',
      details: { reason: 'io_error' },
    })
    expect(store.openCell(a.id).quarantine).toMatchObject({ reason: 'io_error' })
    const census = await store.core.census.take()
    expect(census.quarantined).toMatchObject([{ cellId: a.id, reason: 'io_error' }])
    await store.close()
    expect(nOf(await lost.open(), a)).toBe(n)
  })

  test('does not bring commits back over a restored cell, although they could not be redone before', async () => {
    const objectStore = `file://${tempDirectory()}`
    const { directory, store, a, b } = await openStore({ objectStore })
    a.kv.put('of', 'the backup')
    const { version } = await store.backups.snapshot(a.id)
    await write(a, b)
    a.kv.put('of', 'the old history')
    await write(a, b)
    const lost = powerLoss(directory)
    const back = outOfReach(lost.paths.cell(a.id).directory)
    const opened = await lost.open({ objectStore, takeOver: true })
    back()
    await opened.backups.restore(a.id, { version })
    expect(opened.openCell(a.id).kv.get('of')).toBe('the backup')
    opened.openCell(a.id).kv.put('of', 'the new history')
    await opened.close()
    const again = await lost.open({ objectStore })
    expect(again.openCell(a.id).kv.get('of')).toBe('the new history')
  })

  test('fails the start if the disk has no room for its commits: no cell is to blame', async () => {
    const { directory, a, b } = await openStore()
    const n = await write(a, b)
    const lost = powerLoss(directory)
    const refuse = vi.spyOn(fs, 'writeSync').mockImplementation(() => {
      throw Object.assign(new Error('ENOSPC'), { code: 'ENOSPC', syscall: 'write' })
    })
    await expect(lost.open()).rejects.toMatchObject({ code: 'disk_full' })
    refuse.mockRestore()
    const store = await lost.open()
    expect([nOf(store, a), nOf(store, b)]).toEqual([n, n])
  })
})
