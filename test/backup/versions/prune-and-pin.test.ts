import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Retention } from '../../../src/backup/versions/retention/retention.ts'
import type { CellError } from '../../../src/errors.ts'
import { agedVersions } from '../../support/backup/aged-versions.ts'
import { GatedStore } from '../../support/backup/object-store-decorators.ts'
import { ScratchPlace } from '../../support/backup/scratch-store.ts'
import { filesBelow } from '../../support/temp-directory.ts'

// Promise 9: pinned versions always stay.
test.each(['the owner asked for', 'a backup began'])(
  'A pin is not answered while a prune that %s removes the version',
  async (how) => {
    const place = new ScratchPlace()
    const gated = new GatedStore(place.folder())
    const { store, cell } = await agedVersions(place, gated)
    const retention = store.retention as Retention
    // The newest one that goes, and the first: its pin was looked for.
    const { versions: judged } = await retention.prune(cell.id, { dryRun: true })
    const going = judged.filter(({ action }) => action === 'remove').map(({ version }) => version)
    const first = going[0] as string
    gated.gates = (call) => call === 'delete'
    const prune = () =>
      how === 'a backup began' ? store.backups.snapshot(cell.id) : retention.prune(cell.id)
    const pruned = prune()
    await gated.arrival()
    let isAnswered = false
    const pin = retention.pin(cell.id, first).catch((error: CellError) => error.code)
    void pin.then(() => {
      isAnswered = true
    })
    const pins = () => filesBelow(place.objects).filter((file) => file.includes('/pin-'))
    await expect.poll(() => pins().length).toBe(1)
    for (let turn = 0; turn < 100; turn++) await setImmediate()
    const wasAnswered = isAnswered
    gated.open()
    await pruned
    expect([wasAnswered, await pin]).toEqual([false, 'backup_not_found'])
    const { backups } = await store.backups.list(cell.id)
    expect(backups.map(({ version }) => version)).not.toContain(first)
    await store.close()
  },
)
