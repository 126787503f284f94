import { describe, expect, test } from 'vitest'
import { agedVersions } from '../../support/backup/aged-versions.ts'
import { GatedStore } from '../../support/backup/object-store-decorators.ts'
import { notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { rejectedBy } from '../../support/thrown.ts'

describe('During a prune one of whose removals takes long,', () => {
  /** A cell whose prune has begun to remove a version. */
  async function beginPrune() {
    const place = new ScratchPlace()
    const gated = new GatedStore(place.folder())
    const aged = await agedVersions(place, gated)
    gated.gates = (call) => call === 'delete'
    const pruned = aged.store.retention?.prune(aged.cell.id)
    await gated.arrival()
    return { ...aged, gated, pruned }
  }

  // A total loss brings back what a restore left: the version that its mark names.
  test('no version goes to which the cell is restored', async () => {
    const { store, cell, versions, gated, pruned } = await beginPrune()
    const restored = store.backups.restore(cell.id, { version: versions[0] as string })
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

  // Invariant 13: nothing waits for longer than its caller does.
  test('a restore that its caller gives up ends before that removal, and the next one can be asked for', async () => {
    const { store, cell, versions, gated, pruned } = await beginPrune()
    const caller = new AbortController()
    const [version] = versions
    const restored = expect(
      store.backups.restore(cell.id, { version: version as string, signal: caller.signal }),
    ).rejects.toMatchObject({ name: 'AbortError' })
    caller.abort()
    await restored
    const next = store.backups.restore(cell.id, { version: version as string })
    gated.open()
    await Promise.all([next, pruned])
    expect(notes(cell)).toEqual(['0'])
    await store.close()
  })

  test('a cell that is deleted while its restore waits for that removal stays deleted', async () => {
    const { store, cell, versions, gated, pruned } = await beginPrune()
    const restored = rejectedBy(store.backups.restore(cell.id, { version: versions[0] as string }))
    store.deleteCell(cell.id)
    gated.open()
    expect((await restored).code).toBe('cell_not_found')
    await pruned
    expect(store.findCell(cell.id)?.deletedAt).not.toBeNull()
    await store.close()
  })
})
