import { expect, test } from 'vitest'
import { GatedStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'

const HOUR_MS = 3_600_000
const VERSIONS = 5

// A total loss brings back what a restore left: the version that its mark names.
test('A prune removes no version to which the cell is restored while another removal takes long', async () => {
  const place = new ScratchPlace()
  const gated = new GatedStore(place.folder())
  const store = await place.create({ objectStore: gated, backups: { keep: 'all:1h', historyMs: HOUR_MS } })
  const cell = createLedger(store)
  const versions: string[] = []
  for (let i = 0; i < VERSIONS; i++) {
    addRow(cell, `${i}`)
    versions.push((await store.backups.snapshot(cell.id)).version)
    place.clock.advance(HOUR_MS)
  }
  await store.retention?.prune(cell.id)
  place.clock.advance(25 * HOUR_MS)
  gated.gates = (call) => call === 'delete'
  const pruned = store.retention?.prune(cell.id)
  await gated.arrival()
  const restored = store.backups.restore(cell.id, { version: versions[0] })
  gated.open()
  await restored
  const judged = (await pruned)?.versions ?? []
  expect(notes(cell)).toEqual(['0'])
  const { backups } = await store.backups.list(cell.id)
  expect(backups.map(({ version }) => version)).toContain(versions[0])
  // What it has left waits.
  expect(judged.filter(({ action }) => action === 'remove')).toHaveLength(VERSIONS - backups.length)
  await store.close()
})
