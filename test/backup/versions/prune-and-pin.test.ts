import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Retention } from '../../../src/backup/versions/retention.ts'
import type { CellError } from '../../../src/errors.ts'
import { GatedStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { filesBelow } from '../../support/temp-directory.ts'

const HOUR_MS = 3_600_000
const VERSIONS = 5

// Promise 9: pinned versions always stay.
test.each(['the owner asked for', 'a backup began'])(
  'A pin is not answered while a prune that %s removes the version',
  async (how) => {
    const place = new ScratchPlace()
    const gated = new GatedStore(place.folder())
    const store = await place.create({ objectStore: gated, backups: { keep: 'all:1h', historyMs: HOUR_MS } })
    const retention = store.retention as Retention
    const cell = createLedger(store)
    const versions: string[] = []
    for (let i = 0; i < VERSIONS; i++) {
      addRow(cell, `${i}`)
      versions.push((await store.backups.snapshot(cell.id)).version)
      place.clock.advance(HOUR_MS)
    }
    await retention.prune(cell.id)
    place.clock.advance(25 * HOUR_MS)
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
