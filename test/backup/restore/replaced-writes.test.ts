import { describe, expect, test, vi } from 'vitest'
import { CellError } from '../../../src/errors.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import { CellsInProcess } from '../../../src/store/open/cells-in-process.ts'
import { FailingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { rejectedBy } from '../../support/thrown.ts'

const SHIPPED = { backups: { maxLagMs: 3_600_000 } }

const place = ScratchPlace.perTest()

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
async function afterTotalLoss(store: CellStore, id: string): Promise<CellStore> {
  await place.close(store)
  place.loseData()
  const again = await place.soon(place.open(SHIPPED))
  await place.soon(again.openCell(id).ensureLocal())
  return again
}

describe('What is committed right before the switch of a restore', () => {
  test('stays replaced after a total loss, and at each later time, also if the cell is restored to its last state', async () => {
    const store = await place.create(SHIPPED)
    const cell = createLedger(store)
    addRow(cell, 'kept')
    await place.soon(store.backups.snapshot(cell.id))
    beforeInstall(async () => {
      addRow(cell, 'replaced')
      await place.soon(store.backups.flush())
    })
    await place.soon(store.backups.restore(cell.id))
    vi.restoreAllMocks()
    expect(notes(cell)).toEqual(['kept'])
    place.clock.advance(1_000)
    await place.soon(store.backups.restore(cell.id, { timestamp: place.clock.now() }))
    expect(notes(cell)).toEqual(['kept'])
    const again = await afterTotalLoss(store, cell.id)
    expect(notes(again.openCell(cell.id))).toEqual(['kept'])
    await place.close(again)
  })
})

describe('What is committed while a restore of an unchanged cell is at work', () => {
  test.each(['while the cell is as the restore left it', 'once it has changed'])(
    'is in no version: its moment is refused, and no other state is taken for it, %s',
    async (when) => {
      const store = await place.create(SHIPPED)
      const cell = createLedger(store)
      addRow(cell, 'kept')
      await place.soon(store.backups.snapshot(cell.id))
      place.clock.advance(1_000)
      let timestamp = 0
      beforeInstall(async () => {
        addRow(cell, 'replaced')
        timestamp = place.clock.now()
        place.clock.advance(1_000)
      })
      await place.soon(store.backups.restore(cell.id))
      vi.restoreAllMocks()
      if (when === 'once it has changed') {
        addRow(cell, 'new')
        await place.soon(store.backups.incremental(cell.id))
      }
      const from = { cellId: cell.id, timestamp }
      const error = await rejectedBy(place.soon(store.createCell({ from })))
      expect(error).toMatchObject({ code: 'backup_not_found' })
      await place.close(store)
    },
  )
})

describe('A restore that fails after its mark is stored', () => {
  /** A cell with a version, a commit that is shipped after it, and one that is not yet. */
  async function changedCell(objectStore: FailingStore) {
    const store = await place.create({ ...SHIPPED, objectStore })
    const cell = createLedger(store)
    const { version } = await place.soon(store.backups.snapshot(cell.id))
    addRow(cell, 'one')
    await place.soon(store.backups.flush())
    addRow(cell, 'two')
    return { store, cell, version }
  }

  test.each<[string, (failing: FailingStore, abort: AbortController) => void]>([
    ['in the switch', () => beforeInstall(() => Promise.reject(new Error('the disk is full')))],
    [
      'because its caller gave up',
      (_, abort) =>
        beforeInstall(async () => {
          abort.abort(new CellError('busy', 'It was given up.'))
          abort.signal.throwIfAborted()
        }),
    ],
    [
      'because the answer to its mark was lost',
      (failing) => {
        failing.afterTheFact = true
        failing.failFromHere(1, (call, key) => call === 'put' && key.includes('restored-'))
      },
    ],
  ])('%s: a total loss brings back the cell as it was', async (_, prepare) => {
    const failing = new FailingStore(place.folder())
    const { store, cell, version } = await changedCell(failing)
    const abort = new AbortController()
    prepare(failing, abort)
    await rejectedBy(place.soon(store.backups.restore(cell.id, { version, signal: abort.signal })))
    vi.restoreAllMocks()
    expect(notes(cell)).toEqual(['one', 'two'])
    const again = await afterTotalLoss(store, cell.id)
    expect(notes(again.openCell(cell.id))).toEqual(['one', 'two'])
    await place.close(again)
  })

  test('because its cell was deleted: what comes back of the cell is its last state', async () => {
    const failing = new FailingStore(place.folder())
    const { store, cell, version } = await changedCell(failing)
    // As over HTTP, where a deletion stores the cell's last state.
    await place.soon(store.backups.incremental(cell.id))
    beforeInstall(async () => store.deleteCell(cell.id))
    const restored = await rejectedBy(place.soon(store.backups.restore(cell.id, { version })))
    expect(restored.code).toBe('cell_not_found')
    vi.restoreAllMocks()
    const copy = await place.soon(store.createCell({ from: { cellId: cell.id } }))
    expect(notes(copy)).toEqual(['one', 'two'])
    await place.close(store)
  })

  test('keeps the mark of the restore before it', async () => {
    const failing = new FailingStore(place.folder())
    const { store, cell, version } = await changedCell(failing)
    const { replacedAt } = await place.soon(store.backups.restore(cell.id, { version }))
    beforeInstall(() => Promise.reject(new Error('the disk is full')))
    const timestamp = replacedAt as number
    await rejectedBy(place.soon(store.backups.restore(cell.id, { timestamp })))
    vi.restoreAllMocks()
    const again = await afterTotalLoss(store, cell.id)
    expect(notes(again.openCell(cell.id))).toEqual([])
    await place.close(again)
  })
})
