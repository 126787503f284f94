import { expect, test } from 'vitest'
import { CellError } from '../../../src/errors.ts'
import { agedVersions } from '../../support/backup/aged-versions.ts'
import { GatedStore } from '../../support/backup/object-store-decorators.ts'
import { notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { rejectedBy } from '../../support/thrown.ts'

// A total loss brings back what a restore left: the version that its mark names.
test('A prune removes no version to which the cell is restored while another removal takes long', async () => {
  const place = new ScratchPlace()
  const gated = new GatedStore(place.folder())
  const { store, cell, versions } = await agedVersions(place, gated)
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
  expect(judged.filter(({ action }) => action === 'remove')).toHaveLength(versions.length - backups.length)
  await store.close()
})

test('A restore that waits for the removal of a version ends with its signal', async () => {
  const place = new ScratchPlace()
  const gated = new GatedStore(place.folder())
  const { store, cell, versions } = await agedVersions(place, gated)
  gated.gates = (call) => call === 'delete'
  const pruned = store.retention?.prune(cell.id)
  await gated.arrival()
  const gone = new AbortController()
  const restored = store.backups.restore(cell.id, { version: versions[0], signal: gone.signal })
  gone.abort(new CellError('busy', 'Nobody waits any more.'))
  expect((await rejectedBy(restored)).message).toBe('Nobody waits any more.')
  gated.open()
  await pruned
  expect(notes(cell)).toEqual(['0', '1', '2', '3', '4'])
  await store.close()
})
