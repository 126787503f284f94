import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { CellStore } from '../../../src/store/cell-store.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { KeptLog } from '../../support/kept-log.ts'
import { perTest } from '../../support/per-test.ts'
import { filesBelow } from '../../support/temp-directory.ts'

const DAY_MS = 86_400_000
/** Removes all that it may. */
const keep = 'all:1h'

const place = ScratchPlace.perTest()
const log = perTest(() => new KeptLog())

/** Marks, and removes what was marked. */
async function pruneFully(store: CellStore, id: string) {
  for (let i = 0; i < 3; i++) {
    place.clock.advance(2 * DAY_MS)
    await store.retention?.prune(id)
  }
}

/** Uses a store, and puts back what its directory was in the middle of it. */
async function putBackAnOldDirectory() {
  const store = await place.create({ backups: { keep } })
  const cell = createLedger(store)
  addRow(cell, 'before')
  const { version: old } = await store.backups.snapshot(cell.id)
  await store.core.catalogStored()
  await store.close()
  const copy = path.join(place.root, 'copy')
  fs.cpSync(place.data, copy, { recursive: true })
  const later = await place.open({ backups: { keep } })
  later.accounts.create()
  addRow(later.openCell(cell.id), 'later')
  const { version: base } = await later.backups.snapshot(cell.id)
  addRow(later.openCell(cell.id), 'last')
  const { version: newest } = await later.backups.incremental(cell.id)
  await later.core.catalogStored()
  await later.close()
  const catalogs = filesBelow(place.objects).filter((file) => file.includes(store.id))
  place.loseData()
  fs.renameSync(copy, place.data)
  return {
    cellId: cell.id,
    storeId: store.id,
    old,
    base,
    newest,
    newestCatalog: catalogs.sort().at(-1) as string,
  }
}

describe('An old data directory that was put back, and is to go on as it is,', () => {
  test('starts a new base and says so, and its retention never removes the newer versions', async () => {
    const { cellId, base, newest } = await putBackAnOldDirectory()
    const store = await place.open({ backups: { keep }, log, takeOver: true })
    const cell = store.openCell(cellId)
    expect(notes(cell)).toEqual(['before'])
    addRow(cell, 'other history')
    expect((await store.backups.incremental(cellId)).baseVersion).toBeNull()
    expect(log.errors.filter((each) => each['cellId'] === cellId)).toMatchObject([{ newest }])
    for (let i = 0; i < 5; i++) {
      addRow(cell, `after ${i}`)
      await store.backups.incremental(cellId)
    }
    expect(log.errors.filter((each) => each['cellId'] === cellId)).toHaveLength(1)
    await pruneFully(store, cellId)
    const { backups } = await store.backups.list(cellId)
    expect(backups.map(({ version }) => version)).toEqual(expect.arrayContaining([base, newest]))
    await store.backups.restore(cellId, { version: newest })
    expect(notes(cell)).toEqual(['before', 'later', 'last'])
  })

  test('does the same to its catalog, right after the start', async () => {
    const { storeId, newestCatalog } = await putBackAnOldDirectory()
    const store = await place.open({ log, takeOver: true })
    await store.core.catalogStored()
    expect(log.errors.filter((each) => each['cellId'] === storeId)).toMatchObject([{ newest: newestCatalog }])
    for (let i = 0; i < 9; i++) {
      store.accounts.create()
      await store.core.catalogStored()
    }
    await pruneFully(store, storeId)
    expect(fs.existsSync(path.join(place.objects, newestCatalog))).toBe(true)
    expect(log.errors.filter((each) => each['cellId'] === storeId)).toHaveLength(1)
  })

  test('is not suspected where only this directory made the versions, also after a restore and a kill', async () => {
    const store = await place.create({ backups: { keep }, log })
    const cell = createLedger(store)
    const { version } = await store.backups.snapshot(cell.id)
    addRow(cell, 'one')
    await store.backups.incremental(cell.id)
    await store.backups.restore(cell.id, { version })
    await store.backups.incremental(cell.id)
    await store.close()
    const again = await place.open({ backups: { keep }, log })
    addRow(again.openCell(cell.id), 'two')
    expect((await again.backups.incremental(cell.id)).baseVersion).not.toBeNull()
    expect(log.errors).toEqual([])
  })
})
