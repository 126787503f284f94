import { beforeEach, describe, expect, test } from 'vitest'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'

/** Nothing but requests stores anything. */
const SHIPPED = {
  backups: { maxLagMs: 3_600_000, snapshotEveryMs: null, incrementalEveryMs: null, drillEveryMs: null },
}

const place = ScratchPlace.perTest()
let store: CellStore
beforeEach(async () => {
  store = await place.create(SHIPPED)
})

async function notesOfBranch({ id: cellId }: Cell): Promise<unknown[]> {
  return notes(await place.soon(store.createCell({ from: { cellId } })))
}

describe('A new cell with the present state of another one has all that this one has committed', () => {
  test('since a restore, although no version holds that yet', async () => {
    const cell = createLedger(store)
    addRow(cell, 'before')
    const { version } = await place.soon(store.backups.snapshot(cell.id))
    addRow(cell, 'replaced')
    await place.soon(store.backups.restore(cell.id, { version }))
    addRow(cell, 'after')
    expect(await notesOfBranch(cell)).toEqual(['before', 'after'])
  })

  test('also if it has no version at all', async () => {
    const cell = createLedger(store)
    addRow(cell, 'only here')
    expect(await notesOfBranch(cell)).toEqual(['only here'])
  })
})
