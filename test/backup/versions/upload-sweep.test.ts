import fs from 'node:fs'
import path from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { FailingStore, GatedStore, RecordingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { TEST_EPOCH_MS } from '../../support/fake-clock.ts'
import { turnsUntil } from '../../support/turns.ts'

const DAY_MS = 24 * 60 * 60 * 1000

let place: ScratchPlace
beforeEach(() => {
  place = new ScratchPlace()
})

/** What a process leaves that is killed while it copies an object into the folder. */
function strandUpload(key: string, begunMs: number): string {
  const folder = path.join(place.objects, '.cellstore', 'uploads', key)
  fs.mkdirSync(folder, { recursive: true })
  const file = path.join(folder, 'half')
  fs.writeFileSync(file, 'half of it')
  fs.utimesSync(file, begunMs / 1000, begunMs / 1000)
  return file
}

describe('Uploads that were never finished', () => {
  test('are ended with the first backup, and then once a day; younger ones may still be under way', async () => {
    const recording = new RecordingStore(place.folder())
    const old = strandUpload('a', TEST_EPOCH_MS - DAY_MS - 1_000)
    const young = strandUpload('b', TEST_EPOCH_MS - DAY_MS + 60_000)
    const store = await place.create({ objectStore: recording })
    const cell = createLedger(store)
    await store.backups.incremental(cell.id)
    await turnsUntil(() => !fs.existsSync(old), 'the old upload is ended')
    expect(fs.existsSync(young)).toBe(true)
    for (let hour = 1; hour < 24; hour++) {
      place.clock.advance(DAY_MS / 24)
      await store.backups.incremental(cell.id)
    }
    expect(recording.count('sweepUploads')).toBe(1)
    expect(fs.existsSync(young)).toBe(true)
    place.clock.advance(DAY_MS / 24)
    await store.backups.incremental(cell.id)
    await turnsUntil(() => !fs.existsSync(young), 'it is old by now')
    expect(recording.count('sweepUploads')).toBe(2)
  })

  test('hold no backup up, and fail none: that is only logged', async () => {
    const failing = new FailingStore(place.folder())
    failing.failFromHere(1, (call) => call === 'sweepUploads')
    const gated = new GatedStore(failing)
    gated.gates = (call) => call === 'sweepUploads'
    const warnings: string[] = []
    const log = { info() {}, error() {}, warn: (_: object, message: string) => warnings.push(message) }
    const store = await place.create({ objectStore: gated, log })
    const cell = createLedger(store)
    addRow(cell, 'kept')
    await store.backups.snapshot(cell.id)
    expect(gated.waiting).toBe(1)
    expect(warnings).toEqual([])
    gated.open()
    await turnsUntil(() => warnings.length > 0, 'the failure is logged')
    expect(warnings).toEqual(['could not remove unfinished uploads; trying again in a day'])
  })

  test('keep no store from closing, and are not complained of then', async () => {
    const gated = new GatedStore(place.folder())
    gated.gates = (call) => call === 'sweepUploads'
    const warnings: string[] = []
    const log = { info() {}, error() {}, warn: (_: object, message: string) => warnings.push(message) }
    const store = await place.create({ objectStore: gated, log })
    await store.backups.snapshot(createLedger(store).id)
    await store.close()
    await turnsUntil(() => gated.waiting === 0, 'the look has ended with the store')
    expect(warnings).toEqual([])
  })
})
