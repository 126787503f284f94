import { randomUUID } from 'node:crypto'
import path from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import type { UnshippedLog } from '../../../src/backup/changes/log/cell-log.ts'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import { type CellLog, joinLog } from '../../../src/backup/shipping/cell-pieces.ts'
import { completeTo, type LogManifest } from '../../../src/backup/shipping/log/log-manifest.ts'
import { makeLogObject } from '../../../src/backup/shipping/log/log-object.ts'
import { LogIndex } from '../../../src/backup/shipping/stored/log-index.ts'
import { logKey } from '../../../src/backup/versions/object-keys.ts'
import { WalCell } from '../../support/backup/wal-cell.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

const DAY_MS = 86_400_000

let folder: string
let clock: FakeClock
let cell: WalCell
let other: WalCell
let store: FileObjectStore
let storeId: string
let previous: { key: string; sha256: string } | null
beforeEach(() => {
  folder = tempDirectory('cellstore-pieces')
  clock = new FakeClock()
  cell = new WalCell(folder, clock)
  other = new WalCell(folder, clock)
  store = new FileObjectStore({ root: path.join(folder, 'objects') })
  storeId = randomUUID()
  previous = null
  return () => {
    cell.close()
    other.close()
  }
})

/** Stores the next log object. */
async function put(epoch: number, number: number, log: UnshippedLog, completeTo?: number): Promise<string> {
  const order = {
    store_id: storeId,
    epoch,
    number,
    previous,
    logs: [log],
    completeTo,
    now: clock.now(),
  }
  const { object } = await makeLogObject(order, { directory: path.join(folder, 'spool') })
  if (object === undefined) throw new Error('Nothing was made.')
  await store.put(object.manifest.key, object.body)
  previous = { key: object.manifest.key, sha256: object.sha256 }
  await object.dispose()
  return previous.key
}

/** All that the cell has committed, as if it had been committed just now. */
function unshipped(of: WalCell): UnshippedLog {
  clock.advance(1)
  const log = of.unshipped() as UnshippedLog
  return {
    ...log,
    pieces: log.pieces.map((piece) => ({ ...piece, commits: [[piece.to, clock.now()]] })),
  }
}

/**
 * What is collected for a moment between two versions.
 *
 * @param after the last object that was stored before the second one was cut, as far as its node knew
 */
async function collect({ pieces: [piece] }: UnshippedLog, after: string | null): Promise<CellLog> {
  const { cellId, history } = cell
  const through = { sequence: 1, frames: piece?.to as number, after }
  const until = clock.now() + 1_000
  return await joinLog(
    new LogIndex(store, storeId, () => 9),
    { cellId, history, sequence: 0, after: null },
    { until, through },
  )
}

describe('What a cell committed between two versions', () => {
  test('ends with the log object in which the second version ends', async () => {
    const log = unshipped(cell)
    const last = await put(1, 1, log)
    for (let number = 2; number <= 20; number++) await put(1, number, unshipped(other))
    const { wals, objects } = await collect(log, last)
    expect(wals.map(({ frames }) => frames)).toEqual([log.pieces[0]?.to])
    expect(objects).toBe(1)
  })

  test.each([1, 15])(
    'has what replaced a commit that a power loss took after it was shipped, %i objects after the second version',
    async (objectsAfter) => {
      const lost = unshipped(cell)
      const last = await put(1, 1, lost)
      // The next node has the same frames with another commit.
      for (let number = 1; number < objectsAfter; number++) await put(2, number, unshipped(other))
      const replacing = unshipped(cell)
      const key = await put(2, objectsAfter, replacing)
      const { wals } = await collect(lost, last)
      expect(wals.flatMap(({ commits }) => commits)).toEqual(replacing.pieces[0]?.commits)
      expect(wals.flatMap(({ pieces }) => pieces.map(({ ref }) => ref.key))).toEqual([key])
    },
  )

  test('has that too where the second version is of a node that has just started, which knows of no object (invariant 1)', async () => {
    for (let number = 1; number <= 20; number++) await put(1, number, unshipped(other))
    const lost = unshipped(cell)
    await put(1, 21, lost)
    for (let number = 1; number <= 20; number++) await put(2, number, unshipped(other))
    const replacing = unshipped(cell)
    const key = await put(2, 21, replacing)
    const { wals } = await collect(lost, null)
    expect(wals.flatMap(({ commits }) => commits)).toEqual(replacing.pieces[0]?.commits)
    expect(wals.flatMap(({ pieces }) => pieces.map(({ ref }) => ref.key))).toEqual([key])
  })

  test('is not looked for beyond sixteen objects after the second version', async () => {
    const log = unshipped(cell)
    const last = await put(1, 1, log)
    for (let number = 1; number <= 40; number++) await put(2, number, unshipped(other))
    expect((await collect(log, last)).objects).toBe(17)
    expect(last).toBe(logKey({ epoch: 1, number: 1 }))
  })
})

describe('What a quiet cell committed up to a time', () => {
  const until = () => clock.now() + 1_000
  const collectUpTo = (time: number) => {
    const { cellId, history } = cell
    const index = new LogIndex(store, storeId, () => 9)
    return joinLog(index, { cellId, history, sequence: 0, after: null }, { until: time })
  }

  test('is all known once a later object is complete; those after it are not read', async () => {
    const time = until()
    clock.advance(2 * DAY_MS)
    await put(1, 1, unshipped(other), clock.now())
    for (let number = 2; number <= 5; number++) await put(1, number, unshipped(other))
    expect(await collectUpTo(time)).toMatchObject({ objects: 1 })
  })

  test('is found although an object was made while the clock was days ahead', async () => {
    const ahead = 3 * DAY_MS
    clock.step(ahead)
    await put(1, 1, unshipped(other), clock.now())
    clock.step(-ahead)
    const log = unshipped(cell)
    await put(2, 1, log, clock.now())
    const { wals, completeTo } = await collectUpTo(until())
    expect(wals.map(({ frames }) => frames)).toEqual([log.pieces[0]?.to])
    // What the right clock has said last.
    expect(completeTo).toBe(clock.now())
  })

  test('is found once the time has come at which an earlier epoch took itself for complete', async () => {
    const ahead = 3 * DAY_MS
    clock.step(ahead)
    await put(1, 1, unshipped(other), clock.now())
    clock.step(-ahead)
    const log = unshipped(cell)
    await put(2, 1, log, clock.now())
    const time = until()
    clock.advance(2 * ahead)
    await put(2, 2, unshipped(other), clock.now())
    await put(3, 1, unshipped(other), clock.now())
    await put(3, 2, unshipped(other), clock.now())
    const { wals, objects } = await collectUpTo(time)
    expect(wals.map(({ frames }) => frames)).toEqual([log.pieces[0]?.to])
    // The first one that a right clock has completed is believed.
    expect(objects).toBe(3)
  })

  test("is not said to be complete by the times of another cell's commits", () => {
    const to = clock.now() + 3 * DAY_MS
    const created_at = new Date(clock.now()).toISOString()
    const manifest = { complete: true, to, created_at } as LogManifest
    expect(completeTo(manifest)).toBeUndefined()
    expect(completeTo({ ...manifest, to: clock.now() })).toBe(clock.now())
    expect(completeTo({ ...manifest, complete_to: clock.now() })).toBe(clock.now())
    expect(completeTo({ ...manifest, complete: false })).toBeUndefined()
  })
})
