import { beforeEach, describe, expect, test } from 'vitest'
import type { BackupDestination } from '../../../src/backup/archiver/backup-destination.ts'
import type { ObjectStore } from '../../../src/backup/object-store/object-store.ts'
import { findTarget } from '../../../src/backup/restore/target/find-target.ts'
import { CellLogs } from '../../../src/backup/shipping/stored/cell-logs.ts'
import { LogIndex } from '../../../src/backup/shipping/stored/log-index.ts'
import { LogRetention, VersionCover } from '../../../src/backup/shipping/stored/log-retention.ts'
import { readLogManifest } from '../../../src/backup/shipping/stored/stored-log.ts'
import { CellError } from '../../../src/errors.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { LaggingStore, PassingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { storedLogs } from '../../support/backup/stored-logs.ts'
import { KeptLog } from '../../support/kept-log.ts'

const DAY_MS = 86_400_000
/** Flushes alone ship: the longest lag is over after all tests. */
const shipped = { backups: { maxLagMs: 3_600_000 } }

const place = ScratchPlace.perTest()
let store: CellStore
let commits: { cellId: string; time: number }[]
beforeEach(async () => {
  store = await place.create(shipped)
  commits = []
  return () => place.soon(store.close())
})

const flush = () => place.soon(store.backups.flush())
const keys = async () => (await storedLogs(place.folder())).map(({ key }) => key)

async function ship(cell: Cell): Promise<void> {
  place.clock.advance(1_000)
  addRow(store.openCell(cell.id), `row ${commits.length}`)
  commits.push({ cellId: cell.id, time: place.clock.now() })
  await flush()
}

/** A new epoch. */
async function restart(): Promise<void> {
  await place.soon(store.close())
  store = await place.open(shipped)
}

/** What a node finds, of which this is the view of the log: the time of a cell's state; or why it refuses. */
async function found(log: LogIndex, cellId: string, timestamp?: number): Promise<number | CellError> {
  const { index } = store.core.destination as BackupDestination
  const record = store.findCell(cellId)
  const parts = { index, logs: new CellLogs(log), isStored: () => true, recordOf: async () => record }
  const wanted = { record, isLocal: false, timestamp, recovers: timestamp === undefined }
  try {
    return (await findTarget(parts, cellId, wanted)).target.time
  } catch (error) {
    if (error instanceof CellError) return error
    throw error
  }
}

/** Of a node that has listed nothing before. */
function newView(objects: ObjectStore): LogIndex {
  const { storeId, epoch } = { storeId: store.id, epoch: store.core.guard?.epoch }
  return new LogIndex(objects, storeId, () => epoch)
}

/** Removes nothing. */
class KeepingStore extends PassingStore {
  override async delete(): Promise<void> {}
}

/** A round of retention, with a history of a day. */
async function round(objectStore: ObjectStore): Promise<string[]> {
  const { index } = store.core.destination as BackupDestination
  const { id, clock } = store
  const retention = new LogRetention({
    objectStore,
    horizon: () => clock.now() - DAY_MS,
    readManifest: async (stored) => (await readLogManifest(objectStore, stored, id)).manifest,
    newCover: (horizon) => new VersionCover(index, horizon),
    isDeleted: async () => false,
    needsBase: async () => {},
    clock,
    log: new KeptLog(),
  })
  return await retention.run()
}

/** Lists that may lag: each object alone, all from one on, all up to one, every second. */
function* lags(all: readonly string[]): Generator<readonly string[]> {
  for (const [i, key] of all.entries()) {
    yield [key]
    yield all.slice(i)
    yield all.slice(0, i + 1)
    yield all.filter((_, j) => j !== i)
  }
  for (const odd of [0, 1]) yield all.filter((_, i) => i % 2 === odd)
}

describe('If the listing lacks log objects that are stored,', () => {
  test('each moment, and the last state of a lost cell, is what it is with a whole listing', async () => {
    const busy = createLedger(store)
    const idle = createLedger(store)
    await ship(idle)
    for (const { id } of [busy, idle]) await place.soon(store.backups.snapshot(id))
    await ship(idle)
    for (const restarts of [1, 2, 0]) {
      for (let i = 0; i < 2; i++) await ship(busy)
      for (let i = 0; i < restarts; i++) await restart()
    }
    const all = await keys()
    expect(new Set(all.map((key) => key.slice(0, -11))).size).toBe(3)
    const lagging = new LaggingStore(place.folder())
    const asked = commits.flatMap(({ cellId, time }) => [[cellId, time] as const, [cellId] as const])
    const whole = await Promise.all(asked.map((each) => found(newView(lagging), each[0], each[1])))
    for (const hidden of lags(all)) {
      lagging.hide(hidden)
      const view = newView(lagging)
      for (const [i, [cellId, time]] of asked.entries())
        expect(await found(view, cellId, time), `${time} without ${hidden}`).toEqual(whole[i])
    }
  })

  test('retention removes none that is after one that stays', async () => {
    const cell = createLedger(store)
    await place.soon(store.backups.snapshot(cell.id))
    for (const restarts of [1, 2, 0]) {
      for (let i = 0; i < 2; i++) await ship(cell)
      for (let i = 0; i < restarts; i++) await restart()
    }
    await place.soon(store.backups.incremental(cell.id))
    place.clock.advance(2 * DAY_MS)
    await ship(cell)
    const all = await keys()
    const lagging = new LaggingStore(place.folder())
    const kept = new KeepingStore(lagging)
    const seen = new Set<number>()
    for (const hidden of [[], ...lags(all)]) {
      lagging.hide(hidden)
      const removed = await round(kept)
      expect(removed, `without ${hidden}`).toEqual(all.slice(0, removed.length))
      seen.add(removed.length)
    }
    expect(seen.has(0) && seen.has(all.length - 1)).toBe(true)
  })
})
