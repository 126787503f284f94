import fs from 'node:fs'
import { expect, test, vi } from 'vitest'
import { GatedStore } from '../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../support/backup/scratch-store.ts'
import { rejectedBy } from '../support/thrown.ts'

/** The fsyncs of logs wait, in the thread pool, until the test lets them go. */
function heldFsyncs(): { waiting: () => number; go: () => void } {
  const held: (() => void)[] = []
  const real = fs.fsync
  vi.spyOn(fs, 'fsync').mockImplementation(((descriptor: number, done: (error: Error | null) => void) => {
    if (fs.readlinkSync(`/proc/self/fd/${descriptor}`).endsWith('cell.db-wal')) held.push(() => done(null))
    else real(descriptor, done)
  }) as typeof fs.fsync)
  return { waiting: () => held.length, go: () => held.splice(0).map((end) => end()) }
}

test.runIf(process.platform === 'linux')(
  'a change in remote that a restore replaces while it waits for its fsync is not acknowledged',
  async () => {
    const place = new ScratchPlace()
    const gated = new GatedStore(place.folder())
    const options = { durability: 'remote', backups: { maxLagMs: 3_600_000 }, objectStore: gated } as const
    const soon = <T>(work: Promise<T>) => place.advanceUntil(work, 1_000)
    const store = await soon(place.create(options))
    const [cell, other] = [createLedger(store), createLedger(store)]
    const { version } = await soon(store.backups.snapshot(cell.id))
    await soon(store.backups.snapshot(other.id))
    addRow(cell, 'stored')
    await soon(cell.replicated())
    gated.gates = (call, key) => call === 'put' && key.includes('/restored-')
    const restored = store.backups.restore(cell.id, { version })
    await soon(gated.arrival())
    const fsyncs = heldFsyncs()
    // The commit log has no file yet: each log of these two is fsynced.
    const changes = [cell, other].map((each) => each.commit(() => addRow(each, 'in no object')))
    const refused = rejectedBy(changes[0] as Promise<void>)
    await vi.waitUntil(() => fsyncs.waiting() === 2)
    gated.open()
    await soon(restored)
    fsyncs.go()
    expect((await soon(refused)).code).toBe('not_replicated')
    expect(notes(cell)).toEqual([])
    await soon(changes[1] as Promise<void>)
    await soon(cell.commit(() => addRow(cell, 'since')))
    await place.advanceUntil(store.close())
  },
)
