import { beforeEach, describe, expect, test } from 'vitest'
import type { Retention } from '../../../src/backup/versions/retention/retention.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { FrozenListing } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { filesBelow } from '../../support/temp-directory.ts'

const DAY_MS = 86_400_000

const place = ScratchPlace.perTest()
let listing: FrozenListing
let store: CellStore
let retention: Retention
let cell: Cell
/** Of the cell, oldest first; all but the last two may go with the next prune. */
let versions: string[]
beforeEach(async () => {
  listing = new FrozenListing(place.folder())
  store = await place.create({ objectStore: listing, backups: { keep: 'all:1h', prune: false } })
  retention = store.retention as Retention
  cell = createLedger(store)
  versions = []
  for (const note of ['one', 'two', 'three', 'four']) {
    addRow(cell, note)
    versions.push((await store.backups.snapshot(cell.id)).version)
    place.clock.advance(10 * DAY_MS)
  }
  await retention.prune(cell.id)
  place.clock.advance(2 * DAY_MS)
  await listing.freeze()
})

function objects(): string[] {
  return filesBelow(place.objects).filter((key) => key.startsWith(`snapshots/${cell.id}/`))
}

describe('What this process has stored counts before a listing shows it', () => {
  test('a plan that was answered: a prune keeps what it names', async () => {
    await retention.setPlan(cell.id, 'all:forever')
    await retention.prune(cell.id)
    expect(objects()).toEqual(expect.arrayContaining(versions))
    expect(await retention.ownPlan(cell.id)).toBe('all:forever')
  })

  test('a proof: the version stays, and all after it', async () => {
    await store.backups.verify(cell.id, { version: versions[1] as string })
    await retention.prune(cell.id)
    expect(objects()).toEqual(expect.arrayContaining(versions.slice(1)))
  })

  test('a restore: a prune keeps its version, and a total loss brings that back', async () => {
    await store.backups.restore(cell.id, { version: versions[0] as string })
    await retention.prune(cell.id)
    expect(objects()).toContain(versions[0])
    listing.thaw()
    await store.close()
    place.loseData()
    const again = await place.open()
    await again.openCell(cell.id).ensureLocal()
    expect(notes(again.openCell(cell.id))).toEqual(['one'])
  })

  test('a version: it is the newest one, and can be named', async () => {
    addRow(cell, 'five')
    const { version } = await store.backups.snapshot(cell.id)
    const { backups } = await store.backups.list(cell.id)
    expect(backups.map((each) => each.version)).toEqual([...versions, version].reverse())
    addRow(cell, 'six')
    expect((await store.backups.restore(cell.id)).version).toBe(version)
    expect(notes(cell)).toEqual(['one', 'two', 'three', 'four', 'five'])
    expect((await store.backups.verify(cell.id, { version })).version).toBe(version)
  })

  test('a purge leaves nothing of a cell, and a repeat finds nothing', async () => {
    addRow(cell, 'five')
    await store.backups.snapshot(cell.id)
    store.deleteCell(cell.id)
    await store.purgeCell(cell.id)
    expect(objects()).toEqual([])
    listing.thaw()
    expect(await store.purgeCell(cell.id)).toMatchObject({ objects: 0 })
  })

  test('what somebody else has removed since is not added', async () => {
    addRow(cell, 'five')
    const { version } = await store.backups.snapshot(cell.id)
    await place.folder().delete(version)
    const { backups } = await store.backups.list(cell.id)
    expect(backups.map((each) => each.version)).toEqual(versions.toReversed())
  })
})
