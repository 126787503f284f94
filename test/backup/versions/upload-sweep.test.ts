import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { FailingStore, GatedStore, RecordingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { TEST_EPOCH_MS } from '../../support/fake-clock.ts'
import { turnsUntil } from '../../support/turns.ts'

const DAY_MS = 24 * 60 * 60 * 1000

const place = ScratchPlace.perTest()

/** What a process leaves that is killed while it copies an object into the folder. */
function strandUpload(key: string, begunMs: number): string {
  const folder = path.join(place.objects, '.cellstore', 'uploads', key)
  fs.mkdirSync(folder, { recursive: true })
  const file = path.join(folder, 'half')
  fs.writeFileSync(file, 'half of it')
  fs.utimesSync(file, begunMs / 1000, begunMs / 1000)
  return file
}

function keyOf(n: number): string {
  return `snapshots/0b8f3c52-6f4e-4d0a-9a52-0d7f5a3c9e11/backup-20261121T02021${n}.000Z`
}

describe('Uploads that were never finished', () => {
  test('are ended with the first backup, and then once a day; younger ones may still be under way', async () => {
    const recording = new RecordingStore(place.folder())
    const old = strandUpload(keyOf(1), TEST_EPOCH_MS - DAY_MS - 1_000)
    const young = strandUpload(keyOf(2), TEST_EPOCH_MS - DAY_MS + 60_000)
    const store = await place.create({ objectStore: recording })
    const cell = createLedger(store)
    await store.backups.incremental(cell.id)
    await turnsUntil(() => !fs.existsSync(old), 'the old upload is ended')
    expect(fs.existsSync(young)).toBe(true)
    for (let hour = 1; hour < 24; hour++) {
      place.clock.advance(DAY_MS / 24)
      await store.backups.incremental(cell.id)
    }
    expect(recording.count('sweepUploads')).toBe(2)
    expect(fs.existsSync(young)).toBe(true)
    place.clock.advance(DAY_MS / 24)
    await store.backups.incremental(cell.id)
    await turnsUntil(() => !fs.existsSync(young), 'it is old by now')
    expect(recording.count('sweepUploads')).toBe(4)
  })

  test('and belong to another application are left alone, also where the store has no prefix', async () => {
    const recording = new RecordingStore(place.folder())
    const theirs = ['a', 'photos/holiday', 'snapshots/theirs', 'snapshots/their-disk/backup-1'].map((key) =>
      strandUpload(key, TEST_EPOCH_MS - 100 * DAY_MS),
    )
    const ours = strandUpload(keyOf(1), TEST_EPOCH_MS - 100 * DAY_MS)
    const store = await place.create({ objectStore: recording })
    await store.backups.snapshot(createLedger(store).id)
    await turnsUntil(() => !fs.existsSync(ours), 'ours is ended')
    expect(theirs.map((file) => fs.existsSync(file))).toEqual([true, true, true, true])
  })

  test('are not ended while an upload of the largest cell may still take its time', async () => {
    const limits = { cellBytesMax: 100 * 1024 ** 3 }
    const longestMs = (limits.cellBytesMax / 131_072) * 1_000
    const young = strandUpload(keyOf(1), TEST_EPOCH_MS - longestMs)
    const old = strandUpload(keyOf(2), TEST_EPOCH_MS - 10 * longestMs)
    const store = await place.create({ limits })
    await store.backups.snapshot(createLedger(store).id)
    await turnsUntil(() => !fs.existsSync(old), 'the old upload is ended')
    expect(fs.existsSync(young)).toBe(true)
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
    const failed = 'could not remove all unfinished uploads; trying again in a day'
    await turnsUntil(() => warnings.includes(failed), 'the failure is logged')
    expect(warnings).toEqual(['the object store does not answer; cells serve on, backups wait', failed])
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
