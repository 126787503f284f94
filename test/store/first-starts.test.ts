import { expect, test } from 'vitest'
import { type Call, PassingStore } from '../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../support/backup/scratch-store.ts'
import { rejectedBy } from '../support/thrown.ts'

const HOUR_MS = 3_600_000

const place = ScratchPlace.perTest()
const other = ScratchPlace.perTest()

/** Has something happen right before the first fence is stored. */
class BeforeFence extends PassingStore {
  #happens: (() => Promise<void>) | undefined

  constructor(inner: PassingStore['inner'], happens: () => Promise<void>) {
    super(inner)
    this.#happens = happens
  }

  protected override async before(call: Call, key: string): Promise<void> {
    if (call !== 'put' || !key.startsWith('fence/')) return
    const happens = this.#happens
    this.#happens = undefined
    await happens?.()
  }
}

/** Another node starts on the empty prefix, stores a cell, and stops. */
async function another(): Promise<string> {
  const store = await other.openOrCreate({ objectStore: place.folder() })
  const cell = createLedger(store)
  addRow(cell, 'theirs')
  await store.backups.snapshot(cell.id)
  await store.close()
  return cell.id
}

test('a first start that finds another store on the prefix once it has its epoch goes on with that store (invariant 14)', async () => {
  let id = ''
  const objectStore = new BeforeFence(place.folder(), async () => {
    id = await another()
  })
  const store = await place.openOrCreate({ objectStore, takeOver: true })
  const cell = store.openCell(id)
  await cell.ensureLocal()
  expect(notes(cell)).toEqual(['theirs'])
  await store.close()
})

test('what another node has made before a take-over may exist, although no catalog here knows it; a forgotten cell does not', async () => {
  const store = await place.create()
  await store.core.catalogStored()
  await store.close()
  const theirs = await other.openOrCreate({ objectStore: place.folder() })
  const cell = createLedger(theirs)
  await theirs.backups.snapshot(cell.id)
  await theirs.close()
  const now = place.clock.now()
  for (let i = 0; i < 2; i++) {
    const mine = await place.open({ takeOver: true })
    expect(mine.findCell(cell.id)).toBeUndefined()
    expect(mine.core.isDeleted(cell.id, now)).toBe(false)
    expect(mine.core.isDeleted(cell.id, now + 2 * HOUR_MS)).toBe(true)
    await mine.close()
  }
})

test('a start that is to create a store is refused then, and leaves nothing behind', async () => {
  const objectStore = new BeforeFence(place.folder(), async () => void (await another()))
  expect((await rejectedBy(place.create({ objectStore, takeOver: true }))).code).toBe('store_exists')
  const store = await place.openOrCreate({ objectStore: place.folder() })
  await store.close()
})
