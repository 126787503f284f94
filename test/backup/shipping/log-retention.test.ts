import fs from 'node:fs'
import path from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import type { BackupDestination } from '../../../src/backup/archiver/backup-destination.ts'
import { LogRetention, VersionCover } from '../../../src/backup/shipping/stored/log-retention.ts'
import { readLogManifest } from '../../../src/backup/shipping/stored/stored-log.ts'
import { Retention } from '../../../src/backup/versions/retention/retention.ts'
import { RetentionTable } from '../../../src/backup/versions/retention/retention-table.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { storedLogs } from '../../support/backup/stored-logs.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const HISTORY_MS = 7 * DAY_MS

/** The store's own rounds remove nothing: each test runs them itself. */
const options = { backups: { maxLagMs: HOUR_MS, historyMs: 1_000 * DAY_MS, prune: false } }

const place = ScratchPlace.perTest()
let store: CellStore
beforeEach(async () => {
  store = await place.create(options)
  return () => place.close(store)
})

/** Lets no more time pass than flushes and stamps need. */
const soon = <T>(work: Promise<T>): Promise<T> => place.advanceUntil(work, 100)
const keys = async () => (await storedLogs(place.folder())).map(({ key }) => key)
const flush = () => soon(store.backups.flush())

const plainHorizon = () => place.clock.now() - HISTORY_MS
/** As a store has it. */
const agedHorizon = () => (store.core.destination as BackupDestination).horizon.of(HISTORY_MS)

/** One round, as the archiver of the store would make it. */
async function round(horizon: () => number | undefined = plainHorizon): Promise<string[]> {
  const destination = store.core.destination as BackupDestination
  const { objectStore, storeId, index, clock, log } = destination
  const retention = new LogRetention({
    objectStore,
    horizon,
    readManifest: async (stored) => (await readLogManifest(objectStore, stored, storeId)).manifest,
    newCover: (horizon) => new VersionCover(index, horizon),
    isDeleted: async (id, committedAt) => store.core.isDeleted(id, committedAt),
    needsBase: async (id) => void (await store.backups.incremental(id)),
    clock,
    log,
  })
  return await retention.run()
}

/** A look at the versions of a cell, by the same history. */
async function prune(cellId: string): Promise<void> {
  const destination = store.core.destination as BackupDestination
  const table = new RetentionTable(store.core.state)
  const parts = { ...destination, table, historyMs: HISTORY_MS, settled: async () => {} }
  await new Retention(parts).prune(cellId)
}

const commits: { cell: Cell; time: number; rows: string[] }[] = []
beforeEach(() => void commits.splice(0))

/** A commit, shipped in an object of its own. */
async function ship(cell: Cell): Promise<void> {
  place.clock.advance(60_000)
  addRow(cell, `row ${commits.length}`)
  commits.push({ cell, time: place.clock.now(), rows: notes(cell) })
  await flush()
}

const version = (cell: Cell) => soon(store.backups.incremental(cell.id))

/** What the cell was, in a new cell. */
async function rowsAt({ id }: Cell, timestamp: number): Promise<string[]> {
  return notes(await soon(store.createCell({ from: { cellId: id, timestamp } })))
}

/** What is claimed can be restored, and what a restore finds is never an earlier state. @returns how many moments are claimed */
async function proveClaims(cell: Cell): Promise<number> {
  const { restorable } = await soon(store.backups.list(cell.id))
  let claimed = 0
  for (const { time } of commits.filter((each) => each.cell === cell)) {
    for (const timestamp of [time, time + 30_000]) {
      const isClaimed = restorable.some(({ from, to }) => from <= timestamp && timestamp <= to)
      const plan = await soon(store.backups.plan(cell.id, { timestamp })).catch(() => undefined)
      if (isClaimed) expect(plan).toBeDefined()
      // The commit itself, or a version of it; never an earlier state.
      if (plan !== undefined) expect(plan.timestamp).toBeGreaterThanOrEqual(time)
      if (isClaimed) claimed++
    }
  }
  return claimed
}

test('log objects stay as long as the history says, and then until versions hold what is in them', async () => {
  const cell = createLedger(store)
  await version(cell)
  await ship(cell)
  await ship(cell)
  await version(cell)
  await ship(cell)
  const all = await keys()
  expect(await round()).toEqual([])
  place.clock.advance(HISTORY_MS + HOUR_MS)
  // The last commit is in no version: the first two go, the third is the newest object.
  expect(await round()).toEqual(all.slice(0, -1))
  expect(await round()).toEqual([])
  await ship(cell)
  expect(await keys()).toHaveLength(2)
  // It makes the version that is missing, but moments of the history need the object until that is old.
  expect(await round()).toEqual([])
  await soon(store.backups.restore(cell.id, { timestamp: commits[2]?.time as number }))
  expect(notes(store.openCell(cell.id))).toEqual(commits[2]?.rows)
})

test('each moment within the history can be restored after a round, and nothing that is claimed is lost', async () => {
  const cell = createLedger(store)
  const other = createLedger(store)
  for (const each of [cell, other]) await version(each)
  for (let day = 0; day < 10; day++) {
    for (let i = 0; i < 2; i++) {
      await ship(cell)
      if (i === 1) await ship(other)
      place.clock.advance(11 * HOUR_MS)
    }
    if (day % 3 === 1) await version(cell)
    if (day % 4 === 3) await version(other)
  }
  const before = await keys()
  const removed = await round()
  expect(removed.length).toBeGreaterThan(0)
  expect(removed).toEqual(before.slice(0, removed.length))
  const horizon = place.clock.now() - HISTORY_MS
  for (const each of [cell, other]) {
    expect(await proveClaims(each)).toBeGreaterThan(0)
    for (const { time } of commits.filter((commit) => commit.cell === each && commit.time > horizon)) {
      const plan = await soon(store.backups.plan(each.id, { timestamp: time }))
      expect(plan).toMatchObject({ timestamp: time })
    }
  }
  const oldest = commits.filter((each) => each.cell === cell && each.time > horizon).slice(0, 3)
  for (const { time, rows } of oldest) {
    await soon(store.backups.restore(cell.id, { timestamp: time }))
    expect(notes(store.openCell(cell.id))).toEqual(rows)
  }
})

test('a cell that is deleted, purged, or has lost its versions does not hold up others', async () => {
  const [kept, deleted, purged, bare] = [0, 1, 2, 3].map(() => createLedger(store)) as [
    Cell,
    Cell,
    Cell,
    Cell,
  ]
  for (const each of [kept, deleted, purged, bare]) await version(each)
  for (const each of [kept, deleted, purged, bare]) await ship(each)
  await version(kept)
  const all = await keys()
  store.deleteCell(deleted.id)
  store.deleteCell(purged.id)
  await soon(store.purgeCell(purged.id))
  for await (const { key } of place.folder().list(`snapshots/${bare.id}/`)) await place.folder().delete(key)
  place.clock.advance(HISTORY_MS + HOUR_MS)
  await ship(kept)
  expect(await round()).toEqual(all)
  const { backups } = await soon(store.backups.list(bare.id))
  expect(backups).toHaveLength(1)
  await soon(store.backups.restore(deleted.id))
})

test('a cell that was deleted and forgotten does not hold up others, and no catalog need know it', async () => {
  const [kept, deleted] = [createLedger(store), createLedger(store)]
  for (const each of [kept, deleted]) await version(each)
  for (const each of [deleted, kept]) await ship(each)
  await version(kept)
  const all = await keys()
  store.deleteCell(deleted.id)
  await soon(store.close())
  // As the catalog does once an account has deleted more cells than it may have.
  place.forgetCell(deleted.id)
  store = await place.open(options)
  place.clock.advance(HISTORY_MS + HOUR_MS)
  await ship(store.openCell(kept.id))
  expect(await round()).toEqual(all)
})

test('a cell that an older catalog does not know keeps what it has shipped, until it is restored', async () => {
  const known = createLedger(store)
  await version(known)
  await soon(store.core.catalogStored())
  const catalogs = path.join(place.objects, 'snapshots', store.id)
  const older = path.join(place.root, 'older')
  fs.cpSync(catalogs, older, { recursive: true })
  const unknown = createLedger(store)
  await version(unknown)
  for (const each of [known, unknown]) await ship(each)
  const { time, rows } = commits[1] as (typeof commits)[number]
  await soon(store.close())
  place.loseData()
  fs.rmSync(catalogs, { recursive: true })
  fs.cpSync(older, catalogs, { recursive: true })
  store = await place.open(options)
  await soon(store.openCell(known.id).ensureLocal())
  await version(store.openCell(known.id))
  const all = await keys()
  place.clock.advance(HISTORY_MS + HOUR_MS)
  await ship(store.openCell(known.id))
  expect(await round()).toEqual(all.slice(0, -1))
  place.clock.advance(HISTORY_MS + HOUR_MS)
  expect(await round()).toEqual([])
  await soon(store.backups.restore(unknown.id, { timestamp: time }))
  expect(notes(store.openCell(unknown.id))).toEqual(rows)
  // It gets a version, which holds what is in the objects once it is old.
  expect(await round()).toEqual([])
  place.clock.advance(HISTORY_MS + HOUR_MS)
  await ship(store.openCell(known.id))
  expect(await round()).toContain(all.at(-1))
})

test('a cell that has been idle since its newest version comes back after a loss, although all objects after that are gone', async () => {
  const idle = createLedger(store)
  const busy = createLedger(store)
  await ship(idle)
  await version(idle)
  for (let day = 0; day < 20; day++) {
    place.clock.advance(DAY_MS)
    await ship(busy)
    await version(busy)
  }
  expect((await round()).length).toBeGreaterThan(5)
  await proveClaims(idle)
  await place.close(store)
  place.loseData()
  store = await place.open({ backups: { maxLagMs: HOUR_MS } })
  for (const each of [idle, busy]) {
    await soon(store.backups.ensureLocal(each.id))
    const rows = commits.findLast(({ cell }) => cell === each)?.rows
    expect(notes(store.openCell(each.id))).toEqual(rows)
  }
})

test('a version that the log relies on stays: each moment of the history can be restored, also of a cell that was idle all that time', async () => {
  const idle = createLedger(store)
  const busy = createLedger(store)
  for (const each of [idle, busy]) await soon(store.backups.snapshot(each.id))
  for (let hour = 0; hour < 5; hour++) {
    await ship(idle)
    await version(idle)
    place.clock.advance(HOUR_MS)
  }
  const rows = notes(idle)
  const rounds = async () => {
    await ship(busy)
    await version(busy)
    await soon(round())
    for (const { id } of [idle, busy]) await soon(prune(id))
  }
  place.clock.advance(8 * DAY_MS)
  await rounds()
  await ship(idle)
  await soon(store.backups.snapshot(idle.id))
  await soon(store.backups.snapshot(idle.id))
  for (let look = 0; look < 2; look++) {
    await rounds()
    const horizon = place.clock.now() - HISTORY_MS
    for (const day of [0, 3]) expect(await rowsAt(idle, horizon + day * DAY_MS)).toEqual(rows)
    place.clock.advance(DAY_MS + HOUR_MS)
  }
})

test('a start with a clock that is days ahead erases no moments', async () => {
  const cell = createLedger(store)
  await version(cell)
  for (let day = 0; day < 4; day++) {
    await ship(cell)
    await round(agedHorizon)
    place.clock.advance(DAY_MS)
  }
  await version(cell)
  const all = await keys()
  await place.close(store)
  place.clock.step(9 * DAY_MS)
  store = await place.open({ backups: { maxLagMs: HOUR_MS, historyMs: 1_000 * DAY_MS } })
  const again = store.openCell(cell.id)
  await ship(again)
  expect(await round(agedHorizon)).toEqual([])
  // A day later it is believed.
  for (let look = 0; look < 2; look++) {
    place.clock.advance(DAY_MS)
    expect(await round(agedHorizon)).toEqual(look === 0 ? [] : all)
  }
})

test('a cell whose times are far ahead of the clock holds up no others', async () => {
  const [ahead, other] = [createLedger(store), createLedger(store)]
  for (const each of [ahead, other]) await version(each)
  place.clock.step(30 * DAY_MS)
  addRow(ahead, 'in the future')
  place.clock.step(-30 * DAY_MS)
  await flush()
  for (const each of [ahead, other]) await ship(each)
  for (const each of [ahead, other]) await version(each)
  const all = await keys()
  place.clock.advance(HISTORY_MS + DAY_MS + HOUR_MS)
  await ship(other)
  expect(await round()).toEqual(all)
})
