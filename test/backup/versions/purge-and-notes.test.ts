import fs from 'node:fs'
import path from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { CellError } from '../../../src/errors.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { StoreOptions } from '../../../src/store/settings/store-options.ts'
import { GatedStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { perTest } from '../../support/per-test.ts'
import { filesBelow } from '../../support/temp-directory.ts'

const HOUR_MS = 3_600_000

// Decision 13: a purge removes the objects of a deleted cell with their notes, and its local rows.
const place = ScratchPlace.perTest()
const gated = perTest(() => new GatedStore(place.folder()))

const left = (id: string) => filesBelow(place.objects).filter((file) => file.includes(id))

async function storeWithCell(backups: StoreOptions['backups'] = {}) {
  const store = await place.create({ objectStore: gated, backups })
  const cell = createLedger(store)
  addRow(cell, 'one')
  await store.backups.snapshot(cell.id)
  return { store, cell }
}

async function deleteAndPurge(store: CellStore, id: string): Promise<void> {
  store.deleteCell(id)
  const purge = store.purgeCell(id)
  for (let turn = 0; turn < 200; turn++) await setImmediate()
  gated.open()
  await purge
}

test.each(['marks', 'proven', 'plan'] as const)(
  'A purge leaves no note of what was under way when the cell was deleted: %s',
  async (kind) => {
    const { store, cell } = await storeWithCell({ keep: 'all:1h', keepTenant: 'all:1h', historyMs: HOUR_MS })
    for (let i = 0; i < 4; i++) {
      place.clock.advance(HOUR_MS)
      addRow(cell, 'more')
      await store.backups.snapshot(cell.id)
    }
    gated.gates = (call, key) => call === 'put' && key.includes(`/${kind}-`)
    const work = {
      marks: () => store.retention?.prune(cell.id),
      proven: () => store.backups.verify(cell.id),
      plan: () => store.retention?.setPlan(cell.id, 'all:7d'),
    }[kind]()
    await gated.arrival()
    await deleteAndPurge(store, cell.id)
    await work
    expect(left(cell.id)).toEqual([])
    await store.close()
  },
)

test('A purge leaves nothing of a verification that has read all, and has not recorded it yet', async () => {
  const { store, cell } = await storeWithCell()
  let lists = 0
  gated.gates = (call, key) => call === 'list' && key.includes(cell.id) && ++lists === 2
  const verify = store.backups.verify(cell.id)
  await gated.arrival()
  await deleteAndPurge(store, cell.id)
  await verify
  expect(left(cell.id)).toEqual([])
  await store.close()
})

test('A purged cell has no damaged backups', async () => {
  const { store, cell } = await storeWithCell()
  store.deleteCell(cell.id)
  fs.truncateSync(path.join(place.objects, left(cell.id)[0] as string), 1_000)
  await expect(store.backups.verify(cell.id)).rejects.toMatchObject({ code: 'backup_corrupt' })
  expect(store.metrics().backups?.damaged).toBe(1)
  await store.purgeCell(cell.id)
  expect(store.metrics().backups?.damaged).toBe(0)
  await store.close()
})

test('A verification that waits while its cell is deleted and purged finds no damage', async () => {
  const { store, cell } = await storeWithCell()
  const others = await Promise.all(
    Array.from({ length: 8 }, async () => {
      const other = createLedger(store)
      await store.backups.snapshot(other.id)
      return other.id
    }),
  )
  gated.gates = (call, key) => call === 'get' && others.some((id) => key.includes(id))
  const before = others.map((id) => store.backups.verify(id))
  const verify = store.backups.verify(cell.id).catch((error: CellError) => error.code)
  await gated.arrival()
  store.deleteCell(cell.id)
  await store.purgeCell(cell.id)
  gated.open()
  await Promise.all(before)
  expect(await verify).toBe('backup_not_found')
  expect(store.metrics().backups?.damaged).toBe(0)
  await store.close()
})
