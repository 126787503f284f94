import { beforeEach, describe, expect, test } from 'vitest'
import type { GetOptions, ObjectContent } from '../../../src/backup/object-store/object-store.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { RecordingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, ScratchPlace } from '../../support/backup/scratch-store.ts'

/** Flushes alone ship: the longest lag is over after all tests. */
const shipped = { backups: { maxLagMs: 3_600_000 } }

/** Of each manifest's object from its beginning, and of an object's end. */
const HEAD_BYTES = 16_384
const TAIL_BYTES = 65_536

/** Counts what is read of log objects, too. */
class ReadingStore extends RecordingStore {
  logBytes = 0
  largestRead = 0

  override async get(key: string, options?: GetOptions): Promise<ObjectContent | undefined> {
    const content = await super.get(key, options)
    if (content !== undefined && key.startsWith('log/')) {
      this.logBytes += content.size
      this.largestRead = Math.max(this.largestRead, content.size)
    }
    return content
  }

  override forget(): void {
    super.forget()
    this.logBytes = 0
    this.largestRead = 0
  }

  ofLog(call: 'get' | 'head' | 'list'): number {
    return this.calls.filter((each) => each.call === call && each.key.startsWith('log/')).length
  }
}

const place = ScratchPlace.perTest()
let recording: ReadingStore
let store: CellStore
beforeEach(async () => {
  recording = new ReadingStore(place.folder())
  store = await place.create({ objectStore: recording, ...shipped })
  return () => place.soon(store.close())
})

async function ship(cell: Cell, bytes: number): Promise<number> {
  place.clock.advance(1_000)
  addRow(store.openCell(cell.id), 'row', bytes)
  const now = place.clock.now()
  await place.soon(store.backups.flush())
  return now
}

/** Of a node that knows nothing of the log yet. */
async function restart(): Promise<void> {
  await place.soon(store.close())
  store = await place.open({ objectStore: recording, ...shipped })
}

async function counted(work: () => Promise<unknown>) {
  recording.forget()
  await place.soon(work())
  const { logBytes, largestRead } = recording
  const [gets, heads, lists] = (['get', 'head', 'list'] as const).map((call) => recording.ofLog(call))
  return { gets, heads, lists, logBytes, largestRead }
}

describe('Of the log,', () => {
  test('a plan asks for each manifest, and for the ends of the objects that have the cell; a restore for the bytes, too; nothing is read twice', async () => {
    const cell = createLedger(store)
    const other = createLedger(store)
    for (const { id } of [cell, other]) await place.soon(store.backups.snapshot(id))
    let [timestamp, own, objects] = [0, 0, 0]
    for (const n of [4, 8]) {
      for (let i = 0; i < n; i++) timestamp = await ship(cell, 500_000)
      for (let i = 0; i < n; i++) await ship(other, 500_000)
      own += n
      objects += 2 * n
      const plan = () => store.backups.plan(cell.id, { timestamp })
      const restore = () => store.createCell({ from: { cellId: cell.id, timestamp } })
      await restart()
      const planned = await counted(plan)
      expect(planned).toMatchObject({ gets: objects + own, lists: 1 })
      expect(planned.heads).toBeLessThanOrEqual(3)
      expect(planned.largestRead).toBe(TAIL_BYTES)
      expect(planned.logBytes).toBe(objects * HEAD_BYTES + own * TAIL_BYTES)
      expect(await counted(plan)).toMatchObject({ gets: 0, lists: 1 })
      expect(await counted(restore)).toMatchObject({ gets: own, lists: 1 })
      await restart()
      const restored = await counted(restore)
      expect(restored).toMatchObject({ gets: objects + 2 * own, lists: 1 })
      expect(restored.logBytes - planned.logBytes).toBeLessThan(own * 520_000)
    }
  })
})
