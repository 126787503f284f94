import { expect, test } from 'vitest'
import { GatedStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { KeptLog } from '../../support/kept-log.ts'

const HOUR_MS = 3_600_000

test('a store that closes while old backups are removed complains of nothing: nothing has failed', async () => {
  const place = new ScratchPlace()
  const gated = new GatedStore(place.folder())
  const log = new KeptLog()
  const store = await place.create({ objectStore: gated, log })
  const cell = createLedger(store)
  await store.backups.snapshot(cell.id)
  place.clock.advance(7 * HOUR_MS)
  addRow(cell, 'kept')
  let isStored = false
  gated.gates = (call) => {
    isStored ||= call.startsWith('put')
    return isStored && call === 'list'
  }
  const backup = store.backups.snapshot(cell.id).catch(() => {})
  await gated.arrival()
  const closing = store.close({ deadlineMs: 1_000 })
  place.clock.advance(1_000)
  await closing
  await backup
  expect(log.warnings).toEqual([])
})
