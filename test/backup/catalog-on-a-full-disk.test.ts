import Database from 'better-sqlite3'
import { describe, expect, test, vi } from 'vitest'
import { LocalState } from '../../src/catalog/local-state.ts'
import type { CellStore } from '../../src/store/cell-store.ts'
import { addRow, createLedger, ScratchPlace } from '../support/backup/scratch-store.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { rejectedBy } from '../support/thrown.ts'

/** `local.db` takes no note of what is stored of the catalog, as on a disk without room. */
function fillDisk(): void {
  const set = LocalState.prototype.set
  vi.spyOn(LocalState.prototype, 'set').mockImplementation(function (this: LocalState, key, value) {
    if (key === 'catalog_changes_stored')
      throw new Database.SqliteError('database or disk is full', 'SQLITE_FULL')
    set.call(this, key, value)
  })
}

async function lossOf(place: ScratchPlace, store: CellStore): Promise<CellStore> {
  vi.restoreAllMocks()
  await store.close()
  place.loseData()
  return await place.open()
}

describe('A catalog of which this machine cannot note whether it is stored', () => {
  test('is stored all the same, and so is what waits for it', async () => {
    const place = new ScratchPlace()
    const store = await place.create()
    const cell = createLedger(store)
    fillDisk()
    const { id } = store.accounts.create()
    await store.core.catalogStored()
    addRow(cell, 'one')
    const { version } = await store.backups.snapshot(cell.id)
    expect(filesBelow(place.objects)).toContain(version)
    const again = await lossOf(place, store)
    expect(again.accounts.list().map((account) => account.id)).toEqual([id])
  })

  test('whose newest version is found to be gone, refuses the backup as disk_full, and is stored again once there is room', async () => {
    const place = new ScratchPlace()
    const store = await place.create()
    const cell = createLedger(store)
    const { id } = store.accounts.create()
    await store.core.catalogStored()
    const newest = filesBelow(place.objects)
      .filter((key) => key.startsWith(`snapshots/${store.id}/backup-`))
      .at(-1) as string
    await place.folder().delete(newest)
    fillDisk()
    place.clock.advance(1_000)
    expect((await rejectedBy(store.backups.snapshot(cell.id))).code).toBe('disk_full')
    vi.restoreAllMocks()
    await store.backups.snapshot(cell.id)
    const again = await lossOf(place, store)
    expect(again.accounts.list().map((account) => account.id)).toEqual([id])
  })
})
