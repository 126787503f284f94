import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { BackupDestination } from '../../../src/backup/archiver/backup-destination.ts'
import type { Retention } from '../../../src/backup/versions/retention/retention.ts'
import { FailingStore, GatedStore } from '../../support/backup/object-store-decorators.ts'
import { createLedger, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { filesBelow } from '../../support/temp-directory.ts'
import { rejectedBy } from '../../support/thrown.ts'

const place = ScratchPlace.perTest()

describe('A purge', () => {
  test('removes everything of a deleted cell from the object store, and only of that cell', async () => {
    const store = await place.create()
    const cell = createLedger(store, { name: 'acme' })
    const other = createLedger(store)
    const { version } = await store.backups.snapshot(cell.id)
    await store.backups.incremental(cell.id)
    await store.backups.snapshot(other.id)
    await (store.retention as Retention).pin(cell.id, version)
    await (store.retention as Retention).recordProven(cell.id, version)
    await (store.retention as Retention).setPlan(cell.id, 'all:forever')
    expect(await rejectedBy(store.purgeCell(cell.id))).toMatchObject({ code: 'invalid_request' })
    store.deleteCell(cell.id)
    const purged = await store.purgeCell(cell.id)
    expect(purged).toEqual({ id: cell.id, objects: 5, bytes: expect.any(Number) })
    expect(fs.existsSync(path.join(place.objects, 'snapshots', cell.id))).toBe(false)
    expect(fs.readdirSync(path.join(place.objects, 'snapshots', other.id))).toHaveLength(1)
    expect((store.retention as Retention).lastStoredAt(cell.id)).toBeUndefined()
    expect(store.findCell(cell.id)).toMatchObject({ name: null, deletedAt: expect.any(Number) })
    expect((await rejectedBy(store.backups.restore(cell.id))).code).toBe('backup_not_found')
    expect(await store.purgeCell(cell.id)).toMatchObject({ objects: 0, bytes: 0 })
  })

  test('leaves nothing of what this machine has found out about the versions', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    const { version } = await store.backups.snapshot(cell.id)
    const { findings, index } = store.core.destination as BackupDestination
    index.proven(version, new Map([[version, 1]]), false)
    findings.addForeign(cell.id, { after: version, through: version })
    store.deleteCell(cell.id)
    // The versions stay, and so does what is known of them.
    expect([findings.damagedSize(version), findings.foreign(cell.id).length]).toEqual([1, 1])
    await store.purgeCell(cell.id)
    expect([findings.damagedSize(version), findings.foreign(cell.id).length]).toEqual([undefined, 0])
  })

  describe('leaves no note of retention', () => {
    /** A deleted cell with a backup, in a store whose calls a test can hold. */
    async function deletedCell() {
      const gated = new GatedStore(place.folder())
      const store = await place.create({ objectStore: gated })
      const cell = createLedger(store)
      const { version } = await store.backups.snapshot(cell.id)
      store.deleteCell(cell.id)
      const left = () => filesBelow(place.objects).filter((file) => file.includes(cell.id))
      return { store, retention: store.retention as Retention, gated, cellId: cell.id, version, left }
    }

    test('that somebody wants to store while the versions go', async () => {
      const { store, retention, gated, cellId, version, left } = await deletedCell()
      gated.gates = (call) => call === 'delete'
      const purged = store.purgeCell(cellId)
      await gated.arrival()
      expect((await rejectedBy(retention.pin(cellId, version))).code).toBe('busy')
      gated.open()
      await purged
      expect(left()).toEqual([])
    })

    test('that says later that a version was proven', async () => {
      const { store, retention, cellId, version, left } = await deletedCell()
      await store.purgeCell(cellId)
      await retention.recordProven(cellId, version)
      expect([left(), retention.lastProven(cellId)]).toEqual([[], undefined])
    })
  })

  test('that ends early can be done again, and what is listed meanwhile restores', async () => {
    const failing = new FailingStore(place.folder())
    const store = await place.create({ objectStore: failing })
    const cell = createLedger(store)
    for (let i = 0; i < 4; i++) await store.backups.incremental(cell.id)
    store.deleteCell(cell.id)
    failing.failFromHere(3, (call) => call === 'delete')
    expect((await rejectedBy(store.purgeCell(cell.id))).code).toBe('object_store_unavailable')
    failing.failAt = 0
    const { backups } = await store.backups.list(cell.id)
    expect(backups).toHaveLength(2)
    expect(await store.purgeCell(cell.id)).toMatchObject({ objects: 2 })
  })

  test('is refused for cells that nobody knows, for the catalog, and without an object store', async () => {
    const store = await place.create()
    expect((await rejectedBy(store.purgeCell('00000000-0000-4000-8000-000000000000'))).code).toBe(
      'cell_not_found',
    )
    expect((await rejectedBy(store.purgeCell(store.id))).code).toBe('cell_not_found')
    const alone = await new ScratchPlace().create({ objectStore: undefined })
    const { id } = alone.createCell()
    alone.deleteCell(id)
    expect((await rejectedBy(alone.purgeCell(id))).code).toBe('object_store_not_configured')
  })
})
