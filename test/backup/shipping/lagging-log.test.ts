import { beforeEach, describe, expect, test } from 'vitest'
import type { BackupDestination } from '../../../src/backup/archiver/backup-destination.ts'
import type { ObjectStore } from '../../../src/backup/object-store/object-store.ts'
import { findTarget } from '../../../src/backup/restore/find-target.ts'
import { LogIndex } from '../../../src/backup/shipping/log-index.ts'
import { CellError } from '../../../src/errors.ts'
import type { Cell } from '../../../src/store/cell.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import { LaggingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { storedLogs } from '../../support/backup/stored-logs.ts'

/** Flushes alone ship: the longest lag is over after all tests. */
const shipped = { backups: { maxLagMs: 3_600_000 } }

let place: ScratchPlace
let store: CellStore
let commits: { cellId: string; time: number }[]
beforeEach(async () => {
  place = new ScratchPlace()
  store = await place.create(shipped)
  commits = []
  return () => soon(store.close())
})

function soon<T>(work: Promise<T>): Promise<T> {
  return place.advanceUntil(work, 1_000)
}

const flush = () => soon(store.backups.flush())
const keys = async () => (await storedLogs(place.folder())).map(({ key }) => key)

async function ship(cell: Cell): Promise<void> {
  place.clock.advance(1_000)
  addRow(store.openCell(cell.id), `row ${commits.length}`)
  commits.push({ cellId: cell.id, time: place.clock.now() })
  await flush()
}

/** A new epoch. */
async function restart(): Promise<void> {
  await soon(store.close())
  store = await place.open(shipped)
}

/** What a node finds, of which this is the view of the log: the time of a cell's state; or why it refuses. */
async function found(log: LogIndex, cellId: string, timestamp?: number): Promise<number | CellError> {
  const { index } = store.core.destination as BackupDestination
  const parts = { index, log }
  const record = store.findCell(cellId)
  const wanted = { record, timestamp, recovers: timestamp === undefined }
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
    for (const { id } of [busy, idle]) await soon(store.backups.snapshot(id))
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
})
