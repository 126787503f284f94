import { describe, expect, test } from 'vitest'
import type { CellStore } from '../../../src/store/cell-store.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'

const HOUR_MS = 3_600_000
const SHIPPED = { backups: { maxLagMs: 10_000 } }

const place = ScratchPlace.perTest()

/** Lets no more time pass than flushes need: a backup of the schedule may run, and a restore waits half an hour for its turn. */
function soon<T>(work: Promise<T>): Promise<T> {
  return place.advanceUntil(work, 100)
}

function restore(store: CellStore, cellId: string, timestamp: number) {
  return soon(store.backups.restore(cellId, { timestamp }))
}

describe('A clock that was days ahead, and is corrected,', () => {
  test.each(['before anything is shipped', 'after what it has timed is shipped'])(
    '%s, hides no commit of another cell, and the cell whose commits are in the future is not said to be safe until then',
    async (when) => {
      const store = await place.create(SHIPPED)
      const [quiet, ahead] = [createLedger(store), createLedger(store)]
      for (const { id } of [quiet, ahead]) await place.advanceUntil(store.backups.snapshot(id))
      const AHEAD_MS = 72 * HOUR_MS
      place.clock.step(AHEAD_MS)
      addRow(ahead, 'in the future')
      if (when !== 'before anything is shipped') await place.advanceUntil(store.backups.flush())
      place.clock.step(-AHEAD_MS)
      place.clock.advance(HOUR_MS)
      addRow(ahead, 'still there')
      await place.advanceUntil(store.backups.flush())
      addRow(quiet, 'first')
      await place.advanceUntil(store.backups.flush())
      const time = place.clock.now()
      place.clock.advance(HOUR_MS)
      addRow(quiet, 'second')
      await place.advanceUntil(store.backups.flush())
      expect(store.backedUpTo(ahead.id)).toBeLessThanOrEqual(place.clock.now())
      expect(store.backedUpTo(quiet.id)).toBeLessThanOrEqual(place.clock.now())
      await restore(store, quiet.id, time)
      expect(notes(quiet)).toEqual(['first'])
      await place.close(store)
    },
  )
})

// Invariant 1: what was acknowledged and shipped is not silently missing in a restore.
test.each(['before the new cell is made', 'never'])(
  'A process whose clock was days ahead hides no later commit of another cell, if that time comes %s',
  async (when) => {
    let store = await place.create(SHIPPED)
    const [quiet, ahead] = [createLedger(store).id, createLedger(store).id]
    for (const id of [quiet, ahead]) await soon(store.backups.snapshot(id))
    await soon(store.close())
    const AHEAD_MS = 72 * HOUR_MS
    // No step of the clock that a process could see.
    place.clock.step(AHEAD_MS)
    store = await place.open(SHIPPED)
    addRow(store.openCell(ahead), 'in the future')
    await soon(store.backups.flush())
    await soon(store.close())
    place.clock.step(-AHEAD_MS)
    store = await place.open(SHIPPED)
    place.clock.advance(24 * HOUR_MS)
    addRow(store.openCell(quiet), 'first')
    await soon(store.backups.flush())
    place.clock.advance(12 * HOUR_MS)
    const timestamp = place.clock.now()
    place.clock.advance(when === 'never' ? 12 * HOUR_MS : 42 * HOUR_MS)
    addRow(store.openCell(ahead), 'more')
    await soon(store.backups.flush())
    const copy = await soon(store.createCell({ from: { cellId: quiet, timestamp } }))
    expect(notes(copy)).toEqual(['first'])
    await soon(store.close())
  },
)

/** A cell whose `last` state is to be replaced by its `first` one; both are stored. */
async function replaceable() {
  const store = await place.create(SHIPPED)
  const { id } = createLedger(store)
  await soon(store.backups.snapshot(id))
  const first = place.clock.now()
  place.clock.advance(2 * HOUR_MS)
  addRow(store.openCell(id), 'replaced')
  const last = place.clock.now()
  await soon(store.backups.flush())
  return { store, id, first, last }
}

describe('A clock that is set back', () => {
  test('hides no commit of a cell that was quiet until then', async () => {
    const store = await place.create(SHIPPED)
    const [quiet, busy] = [createLedger(store), createLedger(store)]
    for (const { id } of [quiet, busy]) await soon(store.backups.snapshot(id))
    place.clock.advance(2 * HOUR_MS)
    addRow(busy, 'before')
    const before = place.clock.now()
    await soon(store.backups.flush())
    place.clock.step(before - HOUR_MS - place.clock.now())
    addRow(quiet, 'after')
    const time = place.clock.now()
    place.clock.advance(1_000)
    await soon(store.backups.flush())
    addRow(quiet, 'later')
    await soon(store.backups.flush())
    await restore(store, quiet.id, time + 500)
    expect(notes(quiet)).toEqual(['after'])
    await soon(store.close())
  })

  test.each(['in place', 'after the loss of the machine'])(
    'after a restore %s, does not hide the state that was replaced',
    async (how) => {
      const { id, first, last, ...before } = await replaceable()
      let { store } = before
      if (how !== 'in place') {
        await soon(store.close())
        place.loseData()
        store = await place.open(SHIPPED)
      }
      await restore(store, id, first)
      place.clock.step(last - HOUR_MS - place.clock.now())
      addRow(store.openCell(id), 'instead')
      await soon(store.backups.snapshot(id))
      addRow(store.openCell(id), 'and more')
      await soon(store.backups.flush())
      await restore(store, id, last)
      expect(notes(store.openCell(id))).toEqual(['replaced'])
      await soon(store.close())
    },
  )

  test('after a restore and the loss of the machine, does not hide the state that was replaced', async () => {
    const { id, first, last, ...before } = await replaceable()
    let { store } = before
    await restore(store, id, first)
    await soon(store.close())
    place.loseData()
    place.clock.step(last - HOUR_MS - place.clock.now())
    store = await place.open(SHIPPED)
    await soon(store.openCell(id).ensureLocal())
    expect(notes(store.openCell(id))).toEqual([])
    addRow(store.openCell(id), 'instead')
    await soon(store.backups.snapshot(id))
    await restore(store, id, last)
    expect(notes(store.openCell(id))).toEqual(['replaced'])
    await soon(store.close())
  })

  test('after a restore, makes no later commit one from before it', async () => {
    const { store, id, first, last } = await replaceable()
    place.clock.advance(2 * HOUR_MS)
    await restore(store, id, first)
    place.clock.step(last + HOUR_MS - place.clock.now())
    addRow(store.openCell(id), 'instead')
    await soon(store.backups.snapshot(id))
    // At this time the cell was the one that the restore replaced.
    const refused = restore(store, id, last + 1.5 * HOUR_MS)
    await expect(refused).rejects.toMatchObject({ details: { restorableTo: last } })
    await restore(store, id, last)
    expect(notes(store.openCell(id))).toEqual(['replaced'])
    await soon(store.close())
  })
})

describe('A cell that no version has yet', () => {
  test.each(['closed', 'opened by another process'])(
    'and that is %s before the clock is set back has none of before its last commit',
    async (how) => {
      const options = { ...SHIPPED, openCellsMax: 1 }
      let store = await place.create(options)
      const [{ id }, other] = [createLedger(store), createLedger(store)]
      place.clock.advance(2 * HOUR_MS)
      addRow(store.openCell(id), 'first')
      const first = place.clock.now()
      if (how === 'closed') notes(other)
      else {
        await soon(store.close())
        store = await place.open(options)
      }
      place.clock.step(-HOUR_MS)
      addRow(store.openCell(id), 'second')
      await soon(store.backups.snapshot(id))
      const { restorable } = await store.backups.list(id)
      expect(restorable[0]?.from).toBeGreaterThanOrEqual(first)
      await soon(store.close())
    },
  )
})

describe('Log objects that went for their age', () => {
  test('take the moments with them: they are refused, not offered, and never answered with an older state', async () => {
    const store = await place.create({ backups: { maxLagMs: 10_000, historyMs: HOUR_MS } })
    const [cell, other] = [createLedger(store), createLedger(store)]
    for (const { id } of [cell, other]) await soon(store.backups.snapshot(id))
    place.clock.advance(60_000)
    addRow(cell, 'old')
    const time = place.clock.now()
    await soon(store.backups.flush())
    place.clock.advance(60_000)
    await soon(store.backups.incremental(cell.id))
    const second = place.clock.now()
    for (let i = 0; i < 6; i++) {
      place.clock.advance(12 * HOUR_MS)
      addRow(other, 'busy')
      await soon(store.backups.flush())
      await soon(store.backups.incremental(other.id))
    }
    const { restorable } = await store.backups.list(cell.id)
    expect(restorable.some(({ from, to }) => from <= time && time <= to)).toBe(false)
    await restore(store, cell.id, second + HOUR_MS)
    expect(notes(cell)).toEqual(['old'])
    const refused = restore(store, cell.id, time + 1)
    await expect(refused).rejects.toMatchObject({ details: { restorableTo: expect.any(Number) } })
    expect(notes(cell)).toEqual(['old'])
    const { restorableTo } = await refused.catch((error) => error.details)
    await restore(store, cell.id, restorableTo)
    expect(notes(cell)).toEqual([])
    await soon(store.close())
  })
})
