import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { BackupProgressTable } from '../../src/backup/changes/progress-table.ts'
import { silentLog } from '../../src/base/log.ts'
import { CellError } from '../../src/errors.ts'
import type { CellStore } from '../../src/store/cell-store.ts'
import { FailingStore } from '../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../support/backup/scratch-store.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { rejectedBy } from '../support/thrown.ts'
import { until } from '../support/until.ts'

const place = ScratchPlace.perTest()
const other = ScratchPlace.perTest()
let id: string
beforeEach(async () => {
  const store = await place.create()
  const cell = createLedger(store)
  id = cell.id
  addRow(cell, 'old')
  await store.backups.snapshot(id)
  await store.close()
})
/** Another machine goes on from the object store. */
async function elsewhere(): Promise<CellStore> {
  const store = await other.open({ objectStore: place.folder() })
  await store.openCell(id).ensureLocal()
  return store
}

async function commitAndStore(store: CellStore, note: string): Promise<void> {
  addRow(store.openCell(id), note)
  await store.backups.snapshot(id)
}

const forbidden = () => new CellError('object_store_error', 'The object store refused access (injected).')

describe('A take-over whose fence could not be stored', () => {
  async function failToTakeOver(): Promise<void> {
    const failing = new FailingStore(place.folder())
    failing.failFromHere(1, (call, key) => call === 'put' && key.startsWith('fence/'))
    failing.forGood = true
    failing.error = forbidden
    await rejectedBy(place.open({ objectStore: failing, takeOver: true }))
  }

  test('leaves the directory outdated, and an adoption goes on from what the other node has acknowledged (invariant 14)', async () => {
    const healthy = await elsewhere()
    await commitAndStore(healthy, 'acknowledged')
    for (let i = 0; i < 2; i++) await failToTakeOver()
    await commitAndStore(healthy, 'acknowledged later')
    await healthy.close()
    expect((await rejectedBy(place.open())).code).toBe('store_outdated')
    const adopted = await place.open({ adopt: true })
    await adopted.openCell(id).ensureLocal()
    expect(notes(adopted.openCell(id))).toEqual(['old', 'acknowledged', 'acknowledged later'])
    await adopted.close()
  })

  test('does not make the directory outdated where nobody else has written since', async () => {
    await failToTakeOver()
    const store = await place.open()
    expect(store.core.guard?.epoch).toBe(2)
    await store.close()
  })
})

describe('A take-over whose object store does not answer', () => {
  test('is refused, so that it takes nothing from a node that starts later (decision 19)', async () => {
    const failing = new FailingStore(place.folder())
    failing.failFromHere(1)
    failing.forGood = true
    const refused = await rejectedBy(place.open({ objectStore: failing, takeOver: true }))
    expect(refused).toMatchObject({
      code: 'object_store_unavailable',
      message: expect.stringMatching(/--take-over/),
    })
    const healthy = await elsewhere()
    failing.failAt = 0
    place.clock.advance(3_600_000)
    await commitAndStore(healthy, 'acknowledged')
    expect(healthy.core.guard?.failure).toBeUndefined()
    await healthy.close()
  })
})

describe('A take-over that was refused', () => {
  test('takes nothing over as the store closes, although its catalog has changes that are not stored (decision 19)', async () => {
    const without = await place.open({ objectStore: undefined })
    without.accounts.create()
    await without.close()
    const healthy = await elsewhere()
    const failing = new FailingStore(place.folder())
    failing.failFromHere(1)
    const refused = await rejectedBy(place.open({ objectStore: failing, takeOver: true }))
    expect(refused.code).toBe('object_store_unavailable')
    await commitAndStore(healthy, 'acknowledged')
    expect(healthy.core.guard?.failure).toBeUndefined()
    await healthy.close()
  })
})

describe('A directory that cannot note what others have written or what is gone, on a full disk,', () => {
  function fillDisk(): void {
    vi.spyOn(BackupProgressTable.prototype, 'setNothingStored').mockImplementation(() => {
      throw new Database.SqliteError('database or disk is full', 'SQLITE_FULL')
    })
  }

  test('takes nothing over and says what is wrong, and does so once there is room', async () => {
    const healthy = await elsewhere()
    await commitAndStore(healthy, 'other')
    fillDisk()
    expect((await rejectedBy(place.open({ takeOver: true }))).code).toBe('disk_full')
    vi.restoreAllMocks()
    await commitAndStore(healthy, 'other again')
    const store = await place.open({ takeOver: true })
    expect(notes(store.openCell(id))).toEqual(['old'])
    await store.close()
    await healthy.close()
  })

  test('serves and says what is wrong, and stores everything again once there is room', async () => {
    for (const key of filesBelow(place.objects)) fs.rmSync(path.join(place.objects, key))
    fillDisk()
    const warn = vi.spyOn(silentLog, 'warn')
    const store = await place.open({ log: silentLog })
    addRow(store.openCell(id), 'new')
    expect(warn.mock.calls.map(([, message]) => message)).toEqual([
      expect.stringMatching(/^could not record in the directory/),
    ])
    vi.restoreAllMocks()
    await place.advanceUntil(until(() => store.core.guard?.epoch !== undefined, 'it has entered'))
    await store.backups.incremental(id)
    await store.close()
    place.loseData()
    const again = await place.open()
    await again.openCell(id).ensureLocal()
    expect(notes(again.openCell(id))).toEqual(['old', 'new'])
  })
})

describe('An adoption whose fence could not be stored at the first try', () => {
  test('goes on, and sets the directory aside once', async () => {
    const healthy = await elsewhere()
    await commitAndStore(healthy, 'acknowledged')
    await healthy.close()
    const failing = new FailingStore(place.folder())
    failing.failFromHere(1, (call, key) => call === 'put' && key.startsWith('fence/'))
    const adopted = await place.advanceUntil(place.open({ objectStore: failing, adopt: true }))
    await adopted.openCell(id).ensureLocal()
    expect(notes(adopted.openCell(id))).toEqual(['old', 'acknowledged'])
    await adopted.close()
    const catalogs = filesBelow(place.data).filter((file) => /^set-aside-.*\/catalog\.db$/.test(file))
    expect(catalogs).toHaveLength(1)
  })
})
