import { beforeEach, describe, expect, test } from 'vitest'
import type { Cell } from '../../../src/store/cell.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'

/** Nothing but requests stores anything. */
const SHIPPED = {
  backups: { maxLagMs: 3_600_000, snapshotEveryMs: null, incrementalEveryMs: null, drillEveryMs: null },
}

let place: ScratchPlace
let store: CellStore
beforeEach(async () => {
  place = new ScratchPlace()
  store = await place.create(SHIPPED)
})

/** Lets the time pass that a flush waits, but no lag. */
function soon<T>(work: Promise<T>): Promise<T> {
  return place.advanceUntil(work, 1_000)
}

async function notesOfBranch({ id: cellId }: Cell): Promise<unknown[]> {
  return notes(await soon(store.createCell({ from: { cellId } })))
}

describe('A new cell with the present state of another one has all that this one has committed', () => {
  test('since a restore, although no version holds that yet', async () => {
    const cell = createLedger(store)
    addRow(cell, 'before')
    const { version } = await soon(store.backups.snapshot(cell.id))
    addRow(cell, 'replaced')
    await soon(store.backups.restore(cell.id, { version }))
    addRow(cell, 'after')
    expect(await notesOfBranch(cell)).toEqual(['before', 'after'])
  })

  test('also if it has no version at all', async () => {
    const cell = createLedger(store)
    addRow(cell, 'only here')
    expect(await notesOfBranch(cell)).toEqual(['only here'])
  })
})
