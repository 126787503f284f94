import { describe, expect, test } from 'vitest'
import { RANGE_BYTES } from '../../../src/backup/archive/object-reader.ts'
import type { GetOptions, ObjectContent } from '../../../src/backup/object-store/object-store.ts'
import { CellError } from '../../../src/errors.ts'
import { PassingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { filesBelow } from '../../support/temp-directory.ts'

const place = ScratchPlace.perTest()

const GONE = () => new CellError('object_store_unavailable', 'The connection broke off (injected).')

/** Breaks connections: each body ends after some of its bytes, with an error or without, for a number of times. */
class DroppingStore extends PassingStore {
  how: 'dropped' | 'short' = 'dropped'
  /** Bodies that are still to break off, and after how many bytes each. */
  drops = 0
  after = 3_000_000
  /** From the first drop on nothing answers. */
  staysAway = false
  gets = 0
  #isAway = false

  override async get(key: string, options: GetOptions = {}): Promise<ObjectContent | undefined> {
    if (!key.includes('backup-')) return super.get(key, options)
    this.gets++
    if (this.#isAway) throw GONE()
    const content = await super.get(key, options)
    if (content === undefined || this.drops === 0 || content.size <= this.after) return content
    this.drops--
    return { size: content.size, body: this.#broken(content.body) }
  }

  async *#broken(body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    let left = this.after
    for await (const chunk of body) {
      yield chunk.subarray(0, left)
      left -= chunk.length
      if (left > 0) continue
      this.#isAway = this.staysAway
      if (this.how === 'short') return
      throw GONE()
    }
  }
}

/** A cell whose backup is of several ranges, lost here. */
async function lostCell(mebibytes = 28) {
  const store = await place.create()
  const cell = createLedger(store)
  for (let i = 0; i < mebibytes; i++) addRow(cell, `row ${i}`, 1_048_576)
  const { sizeBytes } = await store.backups.snapshot(cell.id)
  expect(sizeBytes).toBeGreaterThan(3 * RANGE_BYTES)
  await store.close()
  place.loseData()
  return { cellId: cell.id, rows: mebibytes }
}

describe('A restore over connections that break off', () => {
  test.each([
    ['dropped', 1],
    ['dropped', 6],
    ['short', 1],
    ['short', 6],
  ] as const)('(%s, %i times) goes on where it was', async (how, drops) => {
    const { cellId, rows } = await lostCell()
    const dropping = new DroppingStore(place.folder())
    const store = await place.open({ objectStore: dropping })
    Object.assign(dropping, { how, drops })
    await place.advanceUntil(store.openCell(cellId).ensureLocal())
    expect(notes(store.openCell(cellId))).toHaveLength(rows)
    expect(dropping.drops).toBe(0)
  })

  test('that do not come back fails after a few tries, and leaves nothing behind', async () => {
    const { cellId } = await lostCell()
    const dropping = new DroppingStore(place.folder())
    const store = await place.open({ objectStore: dropping })
    Object.assign(dropping, { drops: 1, staysAway: true })
    const began = place.clock.monotonic()
    await expect(place.advanceUntil(store.openCell(cellId).ensureLocal())).rejects.toMatchObject({
      code: 'object_store_unavailable',
    })
    expect(place.clock.monotonic() - began).toBeGreaterThanOrEqual(7_500)
    expect(dropping.gets).toBeLessThan(30)
    expect(filesBelow(place.data).filter((file) => file.includes('incoming'))).toEqual([])
  })

  test('counts the bytes that came twice once: the progress never goes back, and ends at the total', async () => {
    const { cellId } = await lostCell()
    const dropping = new DroppingStore(place.folder())
    const store = await place.open({ objectStore: dropping })
    Object.assign(dropping, { drops: 3 })
    const seen: number[] = []
    let all = 0
    const onProgress = ({ bytes, total }: { bytes: number; total: number }) => {
      seen.push(bytes)
      all = total
    }
    await place.advanceUntil(store.backups.restore(cellId, { onProgress }))
    expect(seen).toEqual(seen.toSorted((a, b) => a - b))
    expect(seen.at(-1)).toBe(all)
  })
})
