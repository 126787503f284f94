import type { GatedStore } from './object-store-decorators.ts'
import { addRow, createLedger, type ScratchPlace } from './scratch-store.ts'

const HOUR_MS = 3_600_000
const VERSIONS = 5

/**
 * A cell whose versions were made an hour apart, in a store that keeps one hour of them. They were marked a day ago: the next prune
 * removes the older ones.
 */
export async function agedVersions(place: ScratchPlace, objectStore: GatedStore) {
  const store = await place.create({ objectStore, backups: { keep: 'all:1h', historyMs: HOUR_MS } })
  const cell = createLedger(store)
  const versions: string[] = []
  for (let i = 0; i < VERSIONS; i++) {
    addRow(cell, `${i}`)
    versions.push((await store.backups.snapshot(cell.id)).version)
    place.clock.advance(HOUR_MS)
  }
  await store.retention?.prune(cell.id)
  place.clock.advance(25 * HOUR_MS)
  return { store, cell, versions }
}
