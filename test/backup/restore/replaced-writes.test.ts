import { beforeEach, describe, expect, test, vi } from 'vitest'
import type { CellStore } from '../../../src/store/cell-store.ts'
import { CellsInProcess } from '../../../src/store/cells-in-process.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'

const SHIPPED = { backups: { maxLagMs: 3_600_000 } }

let place: ScratchPlace
beforeEach(() => {
  place = new ScratchPlace()
})

function soon<T>(work: Promise<T>): Promise<T> {
  return place.advanceUntil(work, 1_000)
}

/** Runs right before each switch. */
function beforeInstall(run: () => Promise<void>): void {
  const { install } = CellsInProcess.prototype
  vi.spyOn(CellsInProcess.prototype, 'install').mockImplementation(async function (
    this: CellsInProcess,
    ...args
  ) {
    await run()
    await install.apply(this, args)
  })
}

/** Opens the store on another machine, and brings the cell back. */
async function afterTotalLoss(
  store: CellStore,
  id: string,
  objectStore = place.folder(),
): Promise<CellStore> {
  await place.advanceUntil(store.close())
  place.loseData()
  const again = await soon(place.open({ ...SHIPPED, objectStore }))
  await soon(again.openCell(id).ensureLocal())
  return again
}

describe('What is committed right before the switch of a restore', () => {
  test('stays replaced after a total loss, and at each later time, also if the cell is restored to its last state', async () => {
    const store = await place.create(SHIPPED)
    const cell = createLedger(store)
    addRow(cell, 'kept')
    await soon(store.backups.snapshot(cell.id))
    beforeInstall(async () => {
      addRow(cell, 'replaced')
      await soon(store.backups.flush())
    })
    await soon(store.backups.restore(cell.id))
    vi.restoreAllMocks()
    expect(notes(cell)).toEqual(['kept'])
    place.clock.advance(1_000)
    await soon(store.backups.restore(cell.id, { timestamp: place.clock.now() }))
    expect(notes(cell)).toEqual(['kept'])
    const again = await afterTotalLoss(store, cell.id)
    expect(notes(again.openCell(cell.id))).toEqual(['kept'])
    await place.advanceUntil(again.close())
  })
})
