import fs from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { beforeEach, expect, test } from 'vitest'
import type { Log } from '../../src/base/log.ts'
import { GatedStore } from '../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../support/backup/scratch-store.ts'
import { turnsUntil } from '../support/turns.ts'

const HOUR_MS = 60 * 60_000

const place = ScratchPlace.perTest()
let logged: string[]
let log: Log
beforeEach(() => {
  logged = []
  const line = (_fields: object, message: string) => void logged.push(message)
  log = { info: () => {}, warn: line, error: line }
})

test('the collection of expired entries starts the restore of a cell whose data is lost', async () => {
  const store = await place.create()
  const cell = createLedger(store)
  addRow(cell, 'one')
  await store.backups.snapshot(cell.id)
  await store.close()
  place.loseData()
  const again = await place.open()
  // After the loss of the local state each cell is searched within the hour.
  const { database } = place.paths.cell(cell.id)
  await place.advanceUntil(turnsUntil(() => fs.existsSync(database), 'the cell is restored'))
  expect(notes(again.openCell(cell.id))).toEqual(['one'])
})

test('a store that closes while it inspects its cells reports no error', async () => {
  const options = { log, objectStore: undefined, limits: { pageMax: 1 } }
  const store = await place.create(options)
  for (let i = 0; i < 3; i++) store.createCell()
  await store.close()
  fs.rmSync(place.paths.localState)
  const again = await place.open(options)
  await again.close()
  await setImmediate()
  expect(logged).toEqual([])
})

test('the close of a store ends a scheduled backup that waits for the catalog', async () => {
  const gated = new GatedStore(place.folder())
  const store = await place.create({ log, objectStore: gated, backups: { snapshotEveryMs: HOUR_MS } })
  const { id } = store.createCell()
  await store.backups.snapshot(id)
  store.openCell(id).kv.put('k', 'changed')
  gated.gates = (call, key) => call === 'put' && key.includes(store.id)
  place.clock.advance(2 * HOUR_MS)
  // The clock stands still from here on, so that only the scheduled backup stores this change.
  store.accounts.create()
  await gated.arrival()
  await place.advanceUntil(store.close())
  expect(logged).toContain(
    'the newest changes of the catalog are not in the object store; the next start stores them',
  )
})
