import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { GetOptions, ObjectContent } from '../../../src/backup/object-store/object-store.ts'
import { PassingStore, RecordingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { rejectedBy } from '../../support/thrown.ts'

const place = ScratchPlace.perTest()

/** Damages each object's first reading at one place, and delivers it as it is afterwards. */
class OnceWrongStore extends PassingStore {
  /** Which byte of the object is flipped, or where it ends. */
  at: number | undefined
  how = 'flipped'
  readonly #done = new Set<string>()

  get damagedCount(): number {
    return this.#done.size
  }

  override async get(key: string, options: GetOptions = {}): Promise<ObjectContent | undefined> {
    const content = await super.get(key, options)
    const size = (await this.inner.head(key))?.size ?? 0
    if (content === undefined || this.at === undefined || !key.includes('backup-')) return content
    const at = Math.min(this.at, size - 1)
    const { range } = options
    const offset = range === undefined ? 0 : 'last' in range ? size - range.last : range.offset
    const isHit = offset <= at && at < offset + content.size && !this.#done.has(key)
    if (!isHit) return content
    this.#done.add(key)
    const chunks: Uint8Array[] = []
    for await (const chunk of content.body) chunks.push(Buffer.from(chunk))
    const bytes = Buffer.concat(chunks)
    if (this.how === 'flipped') bytes[at - offset] = (bytes[at - offset] as number) ^ 0x10
    const body = this.how === 'flipped' ? bytes : bytes.subarray(0, at - offset)
    return {
      size: body.length,
      body: (async function* () {
        yield body
      })(),
    }
  }
}

async function lostStore() {
  const store = await place.create()
  const cell = createLedger(store)
  for (let i = 0; i < 40; i++) addRow(cell, `row ${i}`, 100_000)
  const base = await store.backups.snapshot(cell.id)
  addRow(cell, 'last', 300_000)
  const last = await store.backups.incremental(cell.id)
  await store.close()
  return { cellId: cell.id, base, last }
}

describe('A part that comes damaged', () => {
  test.each(['flipped', 'short'])('once (%s) is fetched again, and the restore succeeds', async (how) => {
    const { cellId, base } = await lostStore()
    // In the manifest, in the first blocks, in the middle, in the seek table, at the very end.
    for (const at of [20, 1_500, base.sizeBytes >> 1, base.sizeBytes - 40, base.sizeBytes]) {
      place.loseData()
      const once = new OnceWrongStore(place.folder())
      const store = await place.open({ objectStore: once })
      once.at = at
      once.how = how
      await store.openCell(cellId).ensureLocal()
      expect(once.damagedCount).toBeGreaterThan(0)
      expect(notes(store.openCell(cellId))).toHaveLength(41)
      await store.close()
    }
  })

  test('each time is damage of the object: it is read in full once, not at each use', async () => {
    const { cellId, last } = await lostStore()
    const file = path.join(place.objects, last.version)
    const bytes = fs.readFileSync(file)
    bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 1
    fs.rmSync(file)
    fs.writeFileSync(file, bytes)
    place.loseData()
    const recording = new RecordingStore(place.folder())
    const store = await place.open({ objectStore: recording })
    expect((await rejectedBy(store.openCell(cellId).ensureLocal())).code).toBe('backup_corrupt')
    recording.forget()
    const again = await rejectedBy(store.openCell(cellId).ensureLocal())
    expect(again).toMatchObject({ code: 'backup_corrupt', message: expect.stringContaining('name this one') })
    expect(recording.count('get')).toBe(0)
    // Somebody has put the whole object back. Only a restore that names the version looks at it again.
    bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 1
    fs.writeFileSync(file, bytes)
    expect((await rejectedBy(store.openCell(cellId).ensureLocal())).code).toBe('backup_corrupt')
    await store.backups.restore(cellId, { version: last.version })
    expect(notes(store.openCell(cellId))).toHaveLength(41)
    expect((await store.backups.list(cellId)).backups[0]?.version).toBe(last.version)
  })
})
