import { beforeEach, expect, test, vi } from 'vitest'
import { BaseCopy } from '../../../src/backup/create/base-copy.ts'
import { CellError } from '../../../src/errors.ts'
import { FailingStore, RecordingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { rejectedBy } from '../../support/thrown.ts'

const place = ScratchPlace.perTest()
beforeEach(() => {
  return () => vi.restoreAllMocks()
})

test('While PUTs are refused, a cell is read once: a small object shows whether the next backup can be stored', async () => {
  const recording = new RecordingStore(place.folder())
  const failing = new FailingStore(recording)
  failing.error = () => new CellError('object_store_error', 'The object store refused access (injected).')
  const store = await place.create({ objectStore: failing })
  const cell = createLedger(store)
  addRow(cell, 'row', 100_000)
  await store.core.catalogStored()
  const reads = vi.spyOn(BaseCopy.prototype, 'read')
  failing.failFromHere(1, (call) => call === 'put')
  failing.forGood = true
  for (let i = 0; i < 5; i++) {
    expect((await rejectedBy(store.backups.snapshot(cell.id))).code).toBe('object_store_error')
  }
  const before = reads.mock.calls.length
  expect(before).toBe(1)
  failing.failAt = 0
  await store.backups.snapshot(cell.id)
  expect(reads.mock.calls.length).toBeGreaterThan(before)
  const probes = recording.calls.filter(({ key }) => key.startsWith('probes/'))
  expect(probes.map(({ call }) => call)).toEqual(['put', 'delete'])
  recording.forget()
  await store.backups.snapshot(cell.id)
  expect(recording.calls.some(({ key }) => key.startsWith('probes/'))).toBe(false)
})
