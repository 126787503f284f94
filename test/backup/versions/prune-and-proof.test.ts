import { expect, test, vi } from 'vitest'
import type { Retention } from '../../../src/backup/versions/retention/retention.ts'
import { WorkInProgress } from '../../../src/backup/versions/work-in-progress.ts'
import { agedVersions } from '../../support/backup/aged-versions.ts'
import { GatedStore } from '../../support/backup/object-store-decorators.ts'
import { ScratchPlace } from '../../support/backup/scratch-store.ts'

// Promise 9: what a plan names is stored, and the version that was proven last stays.
test.each([
  ['proof', 'the owner asked for'],
  ['proof', 'a backup began'],
  ['plan', 'the owner asked for'],
  ['plan', 'a backup began'],
])('Once a %s is answered, nothing goes that it keeps in a prune that %s', async (what, how) => {
  const place = new ScratchPlace()
  const gated = new GatedStore(place.folder())
  const { store, cell, versions } = await agedVersions(place, gated)
  const retention = store.retention as Retention
  const stored = async () => (await store.backups.list(cell.id)).backups.map(({ version }) => version)
  // It would go last.
  const [oldest = ''] = versions
  gated.gates = (call, key) => call === 'delete' && key.includes('/backup-')
  const pruned = how === 'a backup began' ? store.backups.snapshot(cell.id) : retention.prune(cell.id)
  await gated.arrival()
  const ended = vi.spyOn(WorkInProgress.prototype, 'endRemovals')
  const kept =
    what === 'proof'
      ? store.backups.verify(cell.id, { version: oldest })
      : retention.setPlan(cell.id, 'all:forever')
  const answer = kept.then(
    async () => ({ isKept: true, stored: await stored() }),
    async () => ({ isKept: false, stored: await stored() }),
  )
  await expect.poll(() => ended).toHaveBeenCalled()
  gated.open()
  await pruned
  const { isKept, stored: atAnswer } = await answer
  if (isKept) expect(await stored()).toEqual(atAnswer)
  if (isKept && what === 'proof') expect(atAnswer).toContain(oldest)
  // The one that is under way ends; the archiver's prune ends all of its own.
  if (how === 'the owner asked for') expect([isKept, atAnswer.length]).toEqual([true, versions.length - 1])
  await store.close()
})
