import { describe, expect, test } from 'vitest'
import { LaggingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { KeptLog } from '../../support/kept-log.ts'
import { perTest } from '../../support/per-test.ts'
import { filesBelow } from '../../support/temp-directory.ts'

const DAY_MS = 86_400_000

const place = ScratchPlace.perTest()
const log = perTest(() => new KeptLog())

function newestOf(id: string): string {
  return filesBelow(place.objects)
    .filter((key) => key.startsWith(`snapshots/${id}/backup-`))
    .at(-1) as string
}

describe('An empty node at a listing that lags', () => {
  test('takes an older catalog and older cells, and says so with the first backup that sees the newer ones, which stay', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    addRow(cell, 'one')
    await store.backups.snapshot(cell.id)
    place.clock.advance(1_000)
    store.accounts.create()
    await store.core.catalogStored()
    addRow(cell, 'two')
    await store.backups.snapshot(cell.id)
    await store.close()
    const newest = [newestOf(store.id), newestOf(cell.id)]
    place.loseData()
    place.clock.advance(1_000)
    const lagging = new LaggingStore(place.folder())
    lagging.hide(newest)
    const again = await place.open({ objectStore: lagging, log, backups: { keep: 'all:1h' } })
    await again.openCell(cell.id).ensureLocal()
    expect(again.accounts.list()).toHaveLength(0)
    expect(notes(again.openCell(cell.id))).toEqual(['one'])
    lagging.hide([])
    addRow(again.openCell(cell.id), 'other')
    await again.core.catalogStored()
    await again.backups.incremental(cell.id)
    expect(log.errors).toMatchObject([
      { cellId: store.id, newest: newest[0] },
      { cellId: cell.id, newest: newest[1] },
    ])
    for (let i = 0; i < 3; i++) {
      place.clock.advance(400 * DAY_MS)
      for (const id of [store.id, cell.id]) await again.retention?.prune(id)
    }
    const left = filesBelow(place.objects)
    for (const version of newest) expect(left).toContain(version)
    await again.backups.restore(cell.id, { version: newest[1] as string })
    expect(notes(again.openCell(cell.id))).toEqual(['one', 'two'])
  })
})
