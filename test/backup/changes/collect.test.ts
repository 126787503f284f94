import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { expect, onTestFinished, test, vi } from 'vitest'
import { ChangeTracker } from '../../../src/backup/changes/change-tracker.ts'
import type { LogPosition, ShippedPlace, UnshippedLog } from '../../../src/backup/changes/log/cell-log.ts'
import { LogCollector } from '../../../src/backup/changes/log/log-collector.ts'
import { silentLog } from '../../../src/base/log.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { digestOf, digestOfFile } from '../../support/backup/database-digest.ts'
import { ForeignProgram } from '../../support/backup/foreign-program.ts'
import { addRow, createLedger, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { recover, ShippedLogs } from '../../support/backup/shipped-logs.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

const place = ScratchPlace.perTest()

/** The store's own shipper looks once at the start, and then not before the test is over. */
const shipped = { backups: { maxLagMs: 3_600_000 } }
const ALL = { cellsMax: 1_000, bytesMax: 1_000_000_000 }

function collectorOf(store: CellStore): LogCollector {
  const { trackers } = store.core.destination as NonNullable<typeof store.core.destination>
  const accountOf = (id: string) => store.core.findCell(id)?.accountId ?? ''
  return new LogCollector(trackers, accountOf, store.clock, silentLog)
}

function endOf({ cellId, history, pieces }: UnshippedLog): ShippedPlace {
  const { sequence, to } = pieces.at(-1) as UnshippedLog['pieces'][number]
  return { cellId, history, sequence, frames: to }
}

function historyOf(store: CellStore, cell: Cell) {
  const history = store.core.destination?.progress.find(cell.id).history
  if (!history) throw new Error('The cell has no history.')
  return history
}

/** The database file of an open cell as it is now, with its log applied. */
function imageOf(cell: Cell): string {
  const { database, wal } = place.paths.cell(cell.id)
  const file = path.join(tempDirectory('image'), 'cell.db')
  for (const [from, to] of [
    [database, file],
    [wal, `${file}-wal`],
  ] as const)
    if (fs.existsSync(from)) execFileSync('cp', [from, to])
  recover(file)
  return file
}

async function versionOf(store: CellStore, cell: Cell): Promise<{ image: string; position: LogPosition }> {
  const { trackers } = store.core.destination as NonNullable<typeof store.core.destination>
  await store.backups.incremental(cell.id)
  const { id, newest, at } =
    trackers.use(cell.id, ({ progress }) => progress.history) ?? historyOf(store, cell)
  return { image: imageOf(cell), position: { history: id, sequence: newest, frames: 0, at } }
}

test('what a cell commits after its first backup is collected, with the times of its commits', async () => {
  const store = await place.create(shipped)
  const collector = collectorOf(store)
  const cell = createLedger(store)
  addRow(cell, 'in the base')
  expect(await collector.collect(ALL)).toMatchObject({ logs: [], isAll: true, withoutHistory: [cell.id] })
  // In each tick, a process with many of them names those alone that somebody asks for.
  const asked = { withoutHistory: [], withoutHistoryCount: 1 }
  expect(await collector.collect({ ...ALL, historyOf: ['another'] })).toMatchObject(asked)
  const { image, position } = await versionOf(store, cell)
  expect((await collector.collect(ALL)).logs).toEqual([])
  // What follows a version is later.
  place.clock.advance(1)
  const stored = new ShippedLogs()
  const states: [time: number, digest: string][] = []
  for (let i = 0; i < 6; i++) {
    place.clock.advance(i % 2)
    addRow(cell, `row ${i}`)
    states.push([place.clock.now(), digestOf(cell)])
  }
  const collected = await collector.collect(ALL)
  expect(collected).toMatchObject({ isAll: true, withoutHistory: [], asOf: place.clock.now() })
  const [log] = collected.logs as [UnshippedLog]
  expect(log.pieces.map(({ commits }) => commits.map(([, time]) => time - position.at))).toEqual([
    [1, 2, 3, 4],
  ])
  stored.store(log)
  for (const [time] of states) {
    const newest = states.filter(([at]) => at <= time).at(-1)
    expect(digestOfFile(stored.restore(image, position, time))).toBe(newest?.[1])
  }
  collector.shipped([endOf(log)])
  expect(await collector.collect(ALL)).toMatchObject({ logs: [], isAll: true })
  addRow(cell, 'after it')
  const [next] = (await collector.collect(ALL)).logs as [UnshippedLog]
  expect(next.pieces[0]?.from).toBe(log.pieces[0]?.to)
})

test('what follows a version is later than it, also if another program has moved the log before it (invariant 10)', async () => {
  const store = await place.create(shipped)
  const collector = collectorOf(store)
  const cell = createLedger(store)
  await versionOf(store, cell)
  for (let i = 0; i < 6; i++) {
    place.clock.advance(1)
    addRow(cell, `row ${i}`)
  }
  const program = await ForeignProgram.open(place.paths.cell(cell.id).database)
  await program.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  await program.close()
  const { position } = await versionOf(store, cell)
  addRow(cell, 'after the version')
  const { pieces } = (await collector.collect(ALL)).logs[0] as UnshippedLog
  expect(pieces.flatMap(({ commits }) => commits.map(([, time]) => time))).toEqual([position.at + 1])
})

test('a closed cell with segments is collected without being opened, and its times are known', async () => {
  const store = await place.create({ ...shipped, openCellsMax: 1 })
  const collector = collectorOf(store)
  const cell = createLedger(store)
  const { image, position } = await versionOf(store, cell)
  addRow(cell, 'first')
  const first = digestOf(cell)
  place.clock.advance(5)
  addRow(cell, 'second')
  const second = digestOf(cell)
  place.clock.advance(1_000)
  store.createCell().sql('PRAGMA user_version')
  expect(fs.existsSync(place.paths.cell(cell.id).wal)).toBe(false)
  const stored = new ShippedLogs()
  const [log] = (await collector.collect(ALL)).logs as [UnshippedLog]
  stored.store(log)
  expect(digestOfFile(stored.restore(image, position, position.at + 4))).toBe(first)
  expect(digestOfFile(stored.restore(image, position, position.at + 5))).toBe(second)
  collector.shipped([endOf(log)])
  expect(fs.existsSync(place.paths.cell(cell.id).segments)).toBe(true)
  await collector.collect(ALL)
  expect(historyOf(store, cell)).toMatchObject({ sequence: log.pieces.at(-1)?.sequence })
})

test('a cell that another process takes over during a collection is left to that process (invariant 2)', async () => {
  const store = await place.create({ ...shipped, openCellsMax: 1 })
  const { trackers } = store.core.destination as NonNullable<typeof store.core.destination>
  const collector = collectorOf(store)
  const cells = Array.from({ length: 20 }, () => createLedger(store))
  for (const cell of cells) {
    await versionOf(store, cell)
    addRow(cell, 'not shipped')
  }
  const closed = cells.slice(0, -1).map(({ id }) => id)
  const moved = [...trackers.unshipped].filter((id) => closed.includes(id)).at(-1) as string
  const collection = collector.collect({ ...ALL, awaited: closed })
  trackers.letGo(moved)
  const { logs, complete } = await collection
  expect(logs.map(({ cellId }) => cellId)).not.toContain(moved)
  expect([...complete].sort()).toEqual(closed.filter((id) => id !== moved).sort())
  expect(logs).toHaveLength(cells.length - 1)
})

test('accounts take turns: the backlog of one account, in however many cells, delays the others by one look', async () => {
  const store = await place.create(shipped)
  const [many, few] = [store.accounts.create().id, store.accounts.create().id]
  const ledger = async (accountId: string) => {
    const cell = createLedger(store, { accountId })
    await store.backups.incremental(cell.id)
    return cell
  }
  const backlog = [await ledger(many), await ledger(many), await ledger(many), await ledger(many)]
  const others = [await ledger(few), await ledger(few)]
  const collector = collectorOf(store)
  for (const cell of [...backlog, ...others]) addRow(cell, 'more than a look has room for', 100_000)
  const looks: string[][] = []
  for (let isAll = false; !isAll; ) {
    const look = await collector.collect({ cellsMax: 1_000, bytesMax: 50_000 })
    collector.shipped(look.logs.map(endOf))
    looks.push(look.logs.map(({ cellId }) => store.core.findCell(cellId)?.accountId as string))
    isAll = look.isAll
  }
  expect(looks.slice(0, 6)).toEqual([[many], [few], [many], [few], [many], [many]])
})

test('of an account, those cells come first of which nothing was stored for longest, also when all are told of each time', async () => {
  const store = await place.create(shipped)
  const cells = [createLedger(store), createLedger(store), createLedger(store)]
  for (const cell of cells) await store.backups.incremental(cell.id)
  const collector = collectorOf(store)
  const stored: (string | undefined)[] = []
  for (let round = 0; round < 4; round++) {
    for (const cell of cells) addRow(cell, 'while an object is stored')
    const { logs } = await collector.collect(ALL)
    expect(logs).toHaveLength(3)
    // The object has room for one of them.
    collector.shipped(logs.slice(0, 1).map(endOf))
    stored.push(logs[0]?.cellId)
  }
  expect(new Set(stored.slice(0, 3)).size).toBe(3)
  expect(stored[3]).toBe(stored[0])
})

/** Cells of which something was collected, and those whose rows say that it is stored. */
async function collectedCells(count: number) {
  const store = await place.create(shipped)
  const cells = Array.from({ length: count }, () => createLedger(store))
  for (const cell of cells) await store.backups.incremental(cell.id)
  const collector = collectorOf(store)
  place.clock.advance(1)
  for (const cell of cells) addRow(cell, 'to be shipped')
  const { logs } = await collector.collect(ALL)
  const saved = () => cells.filter((cell) => historyOf(store, cell).frames > 0)
  return { store, cells, collector, places: logs.map(endOf), saved }
}

test('what is stored is not collected again, and its row says so before the next turn: a process that is killed then ships nothing twice', async () => {
  const { collector, places, saved } = await collectedCells(20)
  collector.shipped(places)
  expect(saved()).toHaveLength(20)
  expect((await collector.collect(ALL)).logs).toEqual([])
})

test('segments of which all is stored are removed a few cells at a time, and all of them in the end', async () => {
  const { collector, places } = await collectedCells(20)
  const removals: number[] = []
  let removed = 0
  const { removeShipped } = ChangeTracker.prototype
  vi.spyOn(ChangeTracker.prototype, 'removeShipped').mockImplementation(function (this: ChangeTracker) {
    removed++
    removeShipped.call(this)
  })
  onTestFinished(() => void vi.restoreAllMocks())
  collector.shipped(places)
  for (let turn = 0; turn < 20; turn++) {
    await new Promise((resolve) => setImmediate(resolve))
    removals.push(removed)
    removed = 0
  }
  expect(Math.max(...removals)).toBeLessThanOrEqual(4)
  expect(removals.reduce((sum, each) => sum + each)).toBe(20)
})
