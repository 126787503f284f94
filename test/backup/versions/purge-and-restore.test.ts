import { setImmediate } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { CellError } from '../../../src/errors.ts'
import { GatedStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { filesBelow } from '../../support/temp-directory.ts'
import { rejectedBy } from '../../support/thrown.ts'

const place = ScratchPlace.perTest()

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

  // Decision 13: a purge removes everything, and nothing brings the cell back.
  test.each(['has begun to store it', 'waits for its turn'])(
    'leaves nothing of a backup that %s when it is purged',
    async (when) => {
      const gated = new GatedStore(place.folder())
      const store = await place.create({ objectStore: gated, backups: { concurrency: 1 } })
      const cell = createLedger(store)
      addRow(cell, 'one')
      const others = Array.from({ length: 4 }, () => createLedger(store).id)
      const first = when === 'waits for its turn' ? others : []
      gated.gates = (call, key) => call === 'put' && key.startsWith('snapshots/')
      const running = first.map((id) => store.backups.snapshot(id))
      await expect.poll(() => gated.waiting).toBe(first.length)
      const backup = store.backups.snapshot(cell.id).catch((error: CellError) => error.code)
      if (first.length === 0) await gated.arrival()
      store.deleteCell(cell.id)
      const purge = store.purgeCell(cell.id)
      for (let turn = 0; turn < 100; turn++) await setImmediate()
      gated.open()
      await Promise.all([purge, backup, ...running])
      expect(filesBelow(place.objects).filter((file) => file.includes(cell.id))).toEqual([])
      expect((await rejectedBy(store.backups.restore(cell.id))).code).toBe('backup_not_found')
    },
  )
})
