import Database from 'better-sqlite3'
import { describe, expect, test, vi } from 'vitest'
import type { BackupDestination } from '../../../src/backup/archiver/backup-destination.ts'
import { BackupProgressTable } from '../../../src/backup/changes/progress-table.ts'
import type { ShippingStatus } from '../../../src/backup/shipping/shipping-status.ts'
import { systemClock } from '../../../src/base/clock.ts'
import { CellRegistry } from '../../../src/catalog/cell-registry.ts'
import { CellError } from '../../../src/errors.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import { addRow, createLedger, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { storedLogs } from '../../support/backup/stored-logs.ts'
import { codeOf } from '../../support/thrown.ts'
import { turnsUntil } from '../../support/turns.ts'

const place = ScratchPlace.perTest()

/** As SQLite says it. */
function diskIsFull(): never {
  throw new Database.SqliteError('database or disk is full', 'SQLITE_FULL')
}

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

  test('says up to when all that cells have committed is stored also while new ones are made all the time', async () => {
    const store = await place.create(shipped)
    const shipping = () => store.backups.shipping as ShippingStatus
    const made: string[] = []
    for (let second = 0; second < 60; second++) {
      const cell = createLedger(store)
      made.push(cell.id)
      addRow(cell, 'first')
      place.clock.advance(1_000)
      const before = made.at(-6)
      const isStored = () => before === undefined || store.backedUpTo(before) !== null
      await turnsUntil(isStored, 'the cell of five seconds ago has its first version')
      const lookedUpTo = place.clock.now() - shipped.backups.maxLagMs
      await turnsUntil(() => (shipping().backedUpTo ?? 0) >= lookedUpTo, 'a look is over')
    }
    const isKnown = () => (shipping().allBackedUpTo ?? 0) > place.clock.now() - 3 * shipped.backups.maxLagMs
    await turnsUntil(isKnown, 'the time up to which all is stored is near')
    await place.close(store)
  })

  test('stores a new cell within the lag that nobody has changed: a total loss brings it back, empty', async () => {
    const store = await place.create(shipped)
    const { id } = store.createCell({ name: 'empty' })
    place.clock.advance(4_000)
    await turnsUntil(() => store.backedUpTo(id) !== null, 'its first version is stored')
    await place.close(store)
    place.loseData()
    const again = await place.advanceUntil(place.open(shipped))
    const cell = again.openCell(id)
    await place.advanceUntil(cell.ensureLocal())
    expect(cell.kv.list().entries).toEqual([])
    await place.close(again)
  })

  test.each([
    ['by a command', {}],
    ['while shipping was off', { backups: { incrementalEveryMs: 3_600_000 } }],
  ])(
    'stores a new cell that nobody has changed also if it was made where nothing is shipped, %s',
    async (_, unshipped) => {
      const first = await place.create(shipped)
      await turnsUntil(() => first.core.state.complete, 'the first start has looked at all cells')
      await place.close(first)
      const command = await place.open(unshipped)
      const { id } = command.createCell()
      await place.close(command)
      const store = await place.open(shipped)
      place.clock.advance(4_000)
      await turnsUntil(() => store.backedUpTo(id) !== null, 'its first version is stored')
      await place.close(store)
    },
  )

  test('makes no cell that it cannot note as one without a backup: it would never get one', async () => {
    const store = await place.create(shipped)
    vi.spyOn(BackupProgressTable.prototype, 'setMade').mockImplementation(diskIsFull)
    expect(codeOf(() => store.createCell({ name: 'a' }))).toBe('disk_full')
    vi.restoreAllMocks()
    expect(store.cells().cells).toEqual([])
    expect(store.retention?.summary().changed).toBe(0)
    await place.close(store)
  })

  test('says why it makes no cell also if its note cannot be taken back', async () => {
    const store = await place.create(shipped)
    vi.spyOn(CellRegistry.prototype, 'insert').mockImplementation(() => {
      throw new CellError('name_taken', 'There is such a cell.')
    })
    vi.spyOn(BackupProgressTable.prototype, 'remove').mockImplementation(diskIsFull)
    expect(codeOf(() => store.createCell({ name: 'a' }))).toBe('name_taken')
    vi.restoreAllMocks()
    await place.close(store)
  })

  test('does not count a new cell as one that waits for its backup once a crash has cut its creation off', async () => {
    const first = await place.create(shipped)
    // Only the next start can tell whether the catalog has the cell.
    vi.spyOn(CellRegistry.prototype, 'insert').mockImplementation(() => {
      throw new CellError('cell_quarantined', 'The disk has failed.')
    })
    expect(() => first.createCell()).toThrow('The disk has failed.')
    vi.restoreAllMocks()
    expect(first.retention?.summary().changed).toBe(1)
    await place.close(first)
    const store = await place.open(shipped)
    expect(store.retention?.summary()).toMatchObject({ changed: 0, oldestChangeAt: null })
    await place.close(store)
  })

  test('ships nothing if that is off', async () => {
    const store = await place.create()
    createLedger(store)
    expect(store.backups.shipping).toBeUndefined()
    await expect(store.backups.flush()).rejects.toMatchObject({ code: 'object_store_not_configured' })
    await place.close(store)
    expect(await storedLogs(place.folder())).toEqual([])
  })
})

describe('A cell that is restored to an older version', () => {
  /** Lets the time pass that a flush waits, and no more. */
  const soon = <T>(work: Promise<T>) => place.advanceUntil(work, 1_000)

  /** @returns the cell, and the older one of its two versions */
  async function withTwoVersions(store: CellStore) {
    const cell = createLedger(store)
    const { version } = await soon(store.backups.snapshot(cell.id))
    place.clock.advance(1_000)
    addRow(cell, 'replaced')
    await soon(store.backups.snapshot(cell.id))
    return { id: cell.id, version }
  }

  async function isShipped(store: CellStore, id: string): Promise<boolean> {
    return !(await soon(store.backups.flush())).withoutHistory.includes(id)
  }

  test('gets its next base at once: from then on it is shipped', async () => {
    const store = await place.create(shipped)
    const { id, version } = await withTwoVersions(store)
    await soon(store.backups.restore(id, { version }))
    const { progress } = store.core.destination as BackupDestination
    await turnsUntil(() => !progress.find(id).dirty, 'the base is stored, and no time has passed')
    expect(await isShipped(store, id)).toBe(true)
    await place.close(store)
  })

  test('gets it also if it was deleted', async () => {
    const store = await place.create(shipped)
    const { id, version } = await withTwoVersions(store)
    store.deleteCell(id)
    await soon(store.backups.restore(id, { version }))
    const { progress } = store.core.destination as BackupDestination
    await turnsUntil(() => !progress.find(id).dirty, 'the base is stored, and no time has passed')
    expect(await isShipped(store, id)).toBe(true)
    await place.close(store)
  })
})
