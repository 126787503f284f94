import { setImmediate } from 'node:timers/promises'
import { beforeEach, describe, expect, test } from 'vitest'
import type { CellStore } from '../../../src/store/cell-store.ts'
import { type Call, FailingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { rejectedBy } from '../../support/thrown.ts'

const SHIPPED = { maxLagMs: 10_000 }
const MINUTE_MS = 60_000
const ROWS = ['one', 'two']

const place = ScratchPlace.perTest()
let failing: FailingStore
beforeEach(() => {
  failing = new FailingStore(place.folder())
  failing.afterTheFact = true
  failing.forGood = true
})

/** Time passes, and what it starts runs. */
async function pass(ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 1_000) {
    place.clock.advance(1_000)
    for (let turn = 0; turn < 100; turn++) await setImmediate()
  }
}

/** A cell with a row in its first version, and a second one that is stored as well. */
async function storedCell(backups: { maxLagMs?: number }) {
  const store = await place.create({ objectStore: failing, backups })
  const cell = createLedger(store)
  addRow(cell, 'one')
  const { version } = await place.soon(store.backups.snapshot(cell.id))
  place.clock.advance(MINUTE_MS)
  addRow(cell, 'two')
  if (backups.maxLagMs === undefined) await place.soon(store.backups.incremental(cell.id))
  else await place.soon(store.backups.flush())
  const last = (await store.backups.latest(cell.id))?.version
  return { store, id: cell.id, version, last }
}

/** Time passes until the cell has a version after this one, which nobody has asked for. */
async function untilNewer(store: CellStore, id: string, version: string | undefined): Promise<void> {
  const isNewer = async () => {
    while ((await store.backups.latest(id))?.version === version) await setImmediate()
  }
  await place.advanceUntil(isNewer(), MINUTE_MS)
}

const ofMark = (_: Call, key: string) => key.includes('/restored-')

/** The machine is lost while nothing more can be stored. @returns what comes back of the cell */
async function afterLoss(store: CellStore, id: string): Promise<string[]> {
  failing.failFromHere(1)
  await place.close(store)
  failing.failAt = 0
  place.loseData()
  const again = await place.open({ objectStore: failing })
  await place.soon(again.openCell(id).ensureLocal())
  const rows = notes(again.openCell(id))
  await place.close(again)
  return rows
}

// Promise 3: the mark would be obeyed after a total loss, and hide what was said to be stored.
describe('A restore that is refused although its mark is stored', () => {
  test.each([{}, SHIPPED])(
    'leaves the cell as it was also after a total loss, once the object store answers again, with %o',
    async (backups) => {
      const { store, id, version, last } = await storedCell(backups)
      failing.failFromHere(1, ofMark)
      await rejectedBy(place.soon(store.backups.restore(id, { version })))
      // Neither the mark can be removed, nor a version be stored.
      failing.failFromHere(1)
      await pass(2 * MINUTE_MS)
      expect(notes(store.openCell(id))).toEqual(ROWS)
      failing.failAt = 0
      await untilNewer(store, id, last)
      expect(await afterLoss(store, id)).toEqual(ROWS)
    },
  )

  test('does so if marks can never be removed', async () => {
    const { store, id, version, last } = await storedCell(SHIPPED)
    failing.failFromHere(1, ofMark)
    await rejectedBy(place.soon(store.backups.restore(id, { version })))
    await untilNewer(store, id, last)
    expect(await afterLoss(store, id)).toEqual(ROWS)
  })

  test('does so if its mark arrives after its removal', async () => {
    const { store, id, version, last } = await storedCell({})
    const kept = failing.inner.delete
    // The PUT is still on its way when the object store answers that there is nothing to remove.
    failing.inner.delete = async () => {}
    failing.failFromHere(1, (call, key) => call === 'put' && ofMark(call, key))
    await rejectedBy(place.soon(store.backups.restore(id, { version })))
    failing.inner.delete = kept
    await untilNewer(store, id, last)
    expect(await afterLoss(store, id)).toEqual(ROWS)
  })

  test('does so if the store is closed once the object store answers again', async () => {
    const { store, id, version } = await storedCell(SHIPPED)
    failing.failFromHere(1, ofMark)
    await rejectedBy(place.soon(store.backups.restore(id, { version })))
    failing.failAt = 0
    await place.close(store)
    expect(await afterLoss(await place.open({ objectStore: failing }), id)).toEqual(ROWS)
  })
})

test.each([
  ['while its mark is stored', ofMark],
  ['before that', (call: Call, key: string) => call === 'list' && key === 'log/'],
] as const)(
  'A cell whose restore is refused after its history has ended, %s, is shipped again',
  async (_when, fails) => {
    const { store, id, version, last } = await storedCell(SHIPPED)
    failing.afterTheFact = false
    failing.failFromHere(1, fails)
    await rejectedBy(place.soon(store.backups.restore(id, { version })))
    failing.failAt = 0
    await untilNewer(store, id, last)
    addRow(store.openCell(id), 'three')
    expect((await place.soon(store.backups.flush())).withoutHistory).toEqual([])
    expect(await afterLoss(store, id)).toEqual([...ROWS, 'three'])
  },
)
