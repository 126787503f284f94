import Database from 'better-sqlite3'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { BackupProgressTable } from '../../../src/backup/changes/progress-table.ts'
import { RetentionTable } from '../../../src/backup/versions/retention/retention-table.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { rejectedBy } from '../../support/thrown.ts'

const place = ScratchPlace.perTest()
let store: CellStore
let cell: Cell
beforeEach(async () => {
  store = await place.create()
  cell = createLedger(store)
  addRow(cell, 'one')
  await store.backups.snapshot(cell.id)
})
afterEach(async () => {
  vi.restoreAllMocks()
  await store.close()
})

/** As SQLite says it. */
function diskIsFull(): never {
  throw new Database.SqliteError('database or disk is full', 'SQLITE_FULL')
}

describe('What this machine cannot remember of versions for lack of room', () => {
  test('refuses a prune as disk_full', async () => {
    vi.spyOn(RetentionTable.prototype, 'notePruned').mockImplementation(diskIsFull)
    const pruned = store.retention?.prune(cell.id) as Promise<unknown>
    expect((await rejectedBy(pruned)).code).toBe('disk_full')
  })

  test('refuses a proof as disk_full', async () => {
    vi.spyOn(RetentionTable.prototype, 'noteProof').mockImplementation(diskIsFull)
    expect((await rejectedBy(store.backups.verify(cell.id))).code).toBe('disk_full')
  })

  test('refuses a purge as disk_full, and a repeat does the rest', async () => {
    store.deleteCell(cell.id)
    const remove = vi.spyOn(BackupProgressTable.prototype, 'remove').mockImplementation(diskIsFull)
    expect((await rejectedBy(store.purgeCell(cell.id))).code).toBe('disk_full')
    remove.mockRestore()
    await store.purgeCell(cell.id)
    expect((await rejectedBy(store.backups.restore(cell.id))).code).toBe('backup_not_found')
  })

  test('ends no restore that is done', async () => {
    const { version } = await store.backups.snapshot(cell.id)
    addRow(cell, 'two')
    vi.spyOn(RetentionTable.prototype, 'storedAt').mockReturnValue(undefined)
    vi.spyOn(RetentionTable.prototype, 'noteStored').mockImplementation(diskIsFull)
    await store.backups.restore(cell.id, { version })
    expect(notes(cell)).toEqual(['one'])
  })
})
