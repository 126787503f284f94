import { beforeEach, describe, expect, test } from 'vitest'
import { systemClock } from '../../../src/base/clock.ts'
import { addRow, createLedger, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { storedLogs } from '../../support/backup/stored-logs.ts'
import { turnsUntil } from '../../support/turns.ts'

let place: ScratchPlace
beforeEach(() => {
  place = new ScratchPlace()
})

const shipped = { backups: { maxLagMs: 10_000 } }

describe('A store with an object store', () => {
  test('ships what its cells commit within the lag, and says up to when it has', async () => {
    const store = await place.create({ ...shipped, clock: systemClock })
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    addRow(cell, 'first')
    await store.backups.flush()
    const status = store.backups.shipping
    const logs = await storedLogs(place.folder())
    expect(logs.at(-1)?.manifest.cells.map(({ cell_id }) => cell_id)).toEqual([cell.id])
    expect(status).toMatchObject({ lastObject: logs.at(-1)?.key, failingSince: null, waitingBytes: 0 })
    addRow(cell, 'second')
    await store.close()
    expect(await storedLogs(place.folder())).toHaveLength(logs.length + 1)
  })

  test('ships also with all scheduled backups off: a new cell gets the version with which its history begins', async () => {
    const never = { snapshotEveryMs: null, incrementalEveryMs: null }
    const store = await place.create({ backups: { ...shipped.backups, ...never } })
    const cell = createLedger(store)
    addRow(cell, 'first')
    place.clock.advance(4_000)
    await turnsUntil(() => store.backedUpTo(cell.id) !== null, 'the first version is stored')
    expect((await store.backups.list(cell.id)).backups).toHaveLength(1)
    addRow(cell, 'second')
    expect(await place.advanceUntil(store.backups.flush())).toEqual({ withoutHistory: [], unreadable: [] })
    const logs = await storedLogs(place.folder())
    expect(logs.at(-1)?.manifest.cells.map(({ cell_id }) => cell_id)).toEqual([cell.id])
    await store.close()
  })

  test('ships nothing if that is off', async () => {
    const store = await place.create()
    createLedger(store)
    expect(store.backups.shipping).toBeUndefined()
    await expect(store.backups.flush()).rejects.toMatchObject({ code: 'object_store_not_configured' })
    await place.advanceUntil(store.close())
    expect(await storedLogs(place.folder())).toEqual([])
  })
})
