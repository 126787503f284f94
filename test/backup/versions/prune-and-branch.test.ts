import { expect, test } from 'vitest'
import type { GetOptions, ObjectContent } from '../../../src/backup/object-store/object-store.ts'
import { PassingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { rejectedBy } from '../../support/thrown.ts'

/** Nothing but requests stores anything. */
const SHIPPED = { backups: { maxLagMs: 3_600_000 } }

/** Removes some objects before the first read of one of them, as a prune does right after a listing. */
class RemovingStore extends PassingStore {
  going: string[] = []

  override async get(key: string, options?: GetOptions): Promise<ObjectContent | undefined> {
    if (this.going.includes(key)) for (const each of this.going.splice(0)) await this.inner.delete(each)
    return super.get(key, options)
  }
}

/** A shipped cell with two versions, and a commit after each. */
async function shippedCell() {
  const place = new ScratchPlace()
  const objectStore = new RemovingStore(place.folder())
  const store = await place.create({ objectStore, ...SHIPPED })
  const soon = <T>(work: Promise<T>) => place.advanceUntil(work, 1_000)
  const cell = createLedger(store)
  const versions: string[] = []
  for (const note of ['first', 'second']) {
    versions.push((await soon(store.backups.snapshot(cell.id))).version)
    place.clock.advance(1_000)
    addRow(cell, note)
    await soon(store.backups.flush())
  }
  const timestamp = place.clock.now()
  const make = () => soon(store.createCell({ from: { cellId: cell.id, timestamp } }))
  return { store, clock: place.clock, cell, objectStore, versions, make, close: () => soon(store.close()) }
}

test('A new cell gets the state of a moment if the version that was chosen for it is removed meanwhile, and another one has it', async () => {
  const { objectStore, versions, make, close } = await shippedCell()
  objectStore.going = versions.slice(1)
  expect(notes(await make())).toEqual(['first', 'second'])
  await close()
})

test('If none has it any more, there is no new cell', async () => {
  const { store, clock, cell, objectStore, versions, make, close } = await shippedCell()
  // Otherwise the file itself still has that moment.
  clock.advance(1_000)
  addRow(cell, 'third')
  objectStore.going = [...versions]
  expect((await rejectedBy(make())).code).toBe('backup_not_found')
  expect(store.cells().cells).toHaveLength(1)
  await close()
})
