import { beforeEach, describe, expect, test } from 'vitest'
import type { Cell } from '../../../src/store/cell.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { DiskImage } from '../../support/disk-image.ts'

const MINUTE_MS = 60_000
const options = { durability: 'remote', backups: { maxLagMs: 3_600_000, remoteWaitMs: 3_600_000 } } as const

let place: ScratchPlace
let store: CellStore
let ids: string[]
beforeEach(() => {
  place = new ScratchPlace()
})

const soon = <T>(work: Promise<T>): Promise<T> => place.advanceUntil(work, 150)
const cells = () => ids.map((id) => store.openCell(id))

async function commit(note: string, some: readonly Cell[] = cells()): Promise<void> {
  place.clock.advance(MINUTE_MS)
  for (const cell of some) {
    addRow(cell, note)
    await soon(cell.replicated())
  }
}

/** What the directory has become is lost. */
async function putBack(image: DiskImage): Promise<void> {
  await soon(store.close())
  image.putBack()
}

async function expectEverywhere(expected: readonly string[]): Promise<void> {
  const timestamp = place.clock.now()
  place.clock.advance(MINUTE_MS)
  for (const { id } of cells()) {
    const branch = await soon(store.createCell({ from: { cellId: id, timestamp } }))
    expect(notes(branch)).toEqual(expected)
  }
  await soon(store.close())
  place.loseData()
  store = await place.open(options)
  for (const cell of cells()) {
    await soon(cell.ensureLocal())
    expect(notes(cell)).toEqual(expected)
  }
}

describe('A directory that goes on where another timeline has written', () => {
  test('begins new histories: what it acknowledges in remote is restored, whatever the other timeline has stored', async () => {
    store = await place.create(options)
    ids = [0, 1, 2].map(() => createLedger(store).id)
    await commit('before')
    await soon(store.close())
    const image = new DiskImage(place.data)
    store = await place.open(options)
    // One has a version that is further than all that the old disk ships at first; one, log objects alone.
    for (let i = 0; i < 3; i++) await commit(`lost ${i}`, cells().slice(0, 2))
    await soon(store.backups.incremental(ids[0] as string))
    await commit('lost last', cells().slice(0, 1))
    await putBack(image)
    store = await place.open({ ...options, takeOver: true })
    for (const cell of cells()) expect(notes(cell)).toEqual(['before'])
    await commit('after')
    await commit('after that')
    await expectEverywhere(['before', 'after', 'after that'])
  })
})
