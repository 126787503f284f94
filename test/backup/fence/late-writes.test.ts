import { beforeEach, describe, expect, test } from 'vitest'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import type { StoreOptions } from '../../../src/store/settings/store-options.ts'
import { GatedStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'

const SLEPT_MS = 60_000
const HOUR_MS = 3_600_000

/** Two machines. */
const place = ScratchPlace.perTest()
let next: ScratchPlace
/** The node on the first one, which falls asleep. */
let late: CellStore
let gated: GatedStore
/** The node on the second one, which takes over. */
let store: CellStore
let backups: StoreOptions['backups']
beforeEach(() => {
  next = new ScratchPlace()
  gated = new GatedStore(place.folder())
})

const soon = <T>(work: Promise<T>): Promise<T> => next.advanceUntil(place.advanceUntil(work, 1_000), 1_000)

/** Another machine goes on from the object store, without anything of its own. */
async function takeOver(): Promise<void> {
  store = await next.open({ objectStore: place.folder(), takeOver: true, backups })
}

async function recovered({ id }: Cell): Promise<string[]> {
  await soon(store.openCell(id).ensureLocal())
  return notes(store.openCell(id))
}

/** How the time of a sleep passes on the first machine: the monotonic clock may stand still in a suspend. */
const sleeps = {
  held: () => place.clock.advance(SLEPT_MS),
  suspended: () => place.clock.sleep(SLEPT_MS),
}

/** The node sleeps once its object is stored, and before it looks at the fence. @returns wakes it */
async function sleepAfter(
  write: Promise<unknown>,
  sleep: keyof typeof sleeps = 'held',
): Promise<() => Promise<void>> {
  write.catch(() => {})
  await place.advanceUntil(gated.arrival(), 1_000)
  next.clock.advance(place.clock.now() - next.clock.now())
  return async () => {
    sleeps[sleep]()
    gated.open()
    await expect(soon(write)).rejects.toMatchObject({ code: 'taken_over' })
    await soon(late.close())
  }
}

describe('A node that sleeps after a PUT until another one has taken over removes nothing that the other one goes on from', () => {
  test.each([
    [null, 'held'],
    [HOUR_MS, 'held'],
    [HOUR_MS, 'suspended'],
  ] as const)(
    'a version: no loss of the next machine takes back what it served (invariant 14; with a lag of %s ms, %s)',
    async (maxLagMs, sleep) => {
      backups = { maxLagMs }
      late = await place.create({ objectStore: gated, backups })
      const cell = createLedger(late)
      addRow(cell, 'first')
      await soon(late.backups.snapshot(cell.id))
      place.clock.advance(1_000)
      addRow(cell, 'second')
      gated.gates = (call, key) => call === 'head' && key.startsWith('fence/')
      const wake = await sleepAfter(late.backups.incremental(cell.id), sleep)
      await takeOver()
      expect(await recovered(cell)).toEqual(['first', 'second'])
      await wake()
      await soon(store.close())
      next.loseData()
      await takeOver()
      expect(await recovered(cell)).toEqual(['first', 'second'])
    },
  )

  test('a log object: no cell is refused because the object is missing that the first one of the next node names (invariant 14)', async () => {
    backups = { maxLagMs: HOUR_MS, historyMs: 1_000 * 24 * HOUR_MS, prune: false }
    late = await place.create({ objectStore: gated, backups })
    const cells = [createLedger(late), createLedger(late), createLedger(late)] as const
    const [busy, idle, untouched] = cells
    for (const { id } of cells) await soon(late.backups.snapshot(id))
    place.clock.advance(1_000)
    for (const cell of [busy, idle]) addRow(cell, 'kept')
    await soon(late.backups.flush())
    place.clock.advance(1_000)
    addRow(busy, 'late')
    gated.gates = (call, key) => call === 'head' && key.startsWith('fence/')
    const wake = await sleepAfter(late.backups.flush())
    await takeOver()
    expect(await recovered(busy)).toEqual(['kept', 'late'])
    await soon(store.backups.snapshot(busy.id))
    next.clock.advance(1_000)
    addRow(store.openCell(busy.id), 'new')
    await soon(store.backups.flush())
    await wake()
    await soon(store.close())
    next.loseData()
    await takeOver()
    expect(await recovered(busy)).toEqual(['kept', 'late', 'new'])
    expect(await recovered(idle)).toEqual(['kept'])
    expect(await recovered(untouched)).toEqual([])
  })
})
