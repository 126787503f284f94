import { beforeEach, describe, expect, test } from 'vitest'
import { GatedStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { rejectedBy } from '../../support/thrown.ts'

let place: ScratchPlace
beforeEach(() => {
  place = new ScratchPlace()
})

async function deletedCell(gated: GatedStore) {
  const store = await place.create({ objectStore: gated })
  const cell = createLedger(store)
  addRow(cell, 'one')
  await store.backups.snapshot(cell.id)
  store.deleteCell(cell.id)
  return { store, id: cell.id }
}

describe('A deleted cell', () => {
  test('is not purged while it is being restored', async () => {
    const gated = new GatedStore(place.folder())
    const { store, id } = await deletedCell(gated)
    gated.gates = (call) => call === 'get'
    const restore = store.backups.restore(id)
    await gated.arrival()
    expect((await rejectedBy(store.purgeCell(id))).code).toBe('restore_in_progress')
    gated.open()
    await restore
    expect(notes(store.openCell(id))).toEqual(['one'])
    expect((await store.backups.list(id)).backups).toHaveLength(1)
  })

  test('is not restored while it is being purged', async () => {
    const gated = new GatedStore(place.folder())
    const { store, id } = await deletedCell(gated)
    gated.gates = (call) => call === 'delete'
    const purge = store.purgeCell(id)
    await gated.arrival()
    expect((await rejectedBy(store.backups.restore(id))).code).toBe('busy')
    expect((await rejectedBy(store.purgeCell(id))).code).toBe('busy')
    gated.open()
    expect(await purge).toMatchObject({ id, objects: 1 })
    expect((await rejectedBy(store.backups.restore(id))).code).toBe('backup_not_found')
  })
})
