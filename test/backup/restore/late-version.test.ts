import { expect, test } from 'vitest'
import {
  bufferBody,
  type ObjectBody,
  type TransferOptions,
} from '../../../src/backup/object-store/object-store.ts'
import { CellError } from '../../../src/errors.ts'
import { PassingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { rejectedBy } from '../../support/thrown.ts'

/** A bucket that carries out the PUT of a version only after its caller has given up. */
class LateStore extends PassingStore {
  isLate = false
  #late: (() => Promise<void>)[] = []

  override async put(key: string, body: ObjectBody, options?: TransferOptions): Promise<void> {
    if (!this.isLate || !key.includes('/backup-')) return super.put(key, body, options)
    const bytes = await body.read(0, body.size)
    this.#late.push(() => this.inner.put(key, bufferBody(Buffer.from(bytes))))
    throw new CellError('object_store_unavailable', 'The object store did not finish (injected).')
  }

  async arrive(): Promise<void> {
    for (const put of this.#late.splice(0)) await put()
  }
}

const place = ScratchPlace.perTest()

// Promise 3: the restore has answered.
test('A version that is stored long after its backup has failed does not replace what was restored meanwhile', async () => {
  const objectStore = new LateStore(place.folder())
  const store = await place.create({ objectStore })
  const cell = createLedger(store)
  addRow(cell, 'kept')
  const { version } = await place.soon(store.backups.snapshot(cell.id))
  place.clock.advance(1_000)
  addRow(cell, 'dropped')
  objectStore.isLate = true
  await rejectedBy(place.soon(store.backups.incremental(cell.id)))
  await place.soon(store.backups.restore(cell.id, { version }))
  await objectStore.arrive()
  // The machine is lost before anything more is stored.
  await place.close(store)
  place.loseData()
  objectStore.isLate = false
  const again = await place.soon(place.open({ objectStore }))
  await place.soon(again.openCell(cell.id).ensureLocal())
  expect(notes(again.openCell(cell.id))).toEqual(['kept'])
  await place.close(again)
})
