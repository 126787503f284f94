import fs from 'node:fs'
import { setImmediate } from 'node:timers/promises'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { BackupManager } from '../../src/backup/backup-manager.ts'
import { ChangeTracker } from '../../src/backup/changes/change-tracker.ts'
import type { CellStore } from '../../src/store/cell-store.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import { changeOf } from '../support/backup/changes.ts'
import { FailingStore, GatedStore, RecordingStore } from '../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../support/backup/scratch-store.ts'
import { turnsUntil } from '../support/turns.ts'

const MINUTE_MS = 60_000

describe('Scheduled backups of a real store', () => {
  const place = ScratchPlace.perTest()
  let failing: FailingStore
  let recording: RecordingStore
  let gated: GatedStore
  /** Backups that have begun and not ended, with all that they clear up after themselves. */
  let running: Set<Promise<unknown>>
  beforeEach(() => {
    running = new Set()
    const { backup } = BackupManager.prototype
    vi.spyOn(BackupManager.prototype, 'backup').mockImplementation(function (this: BackupManager, ...order) {
      const made = backup.apply(this, order)
      const ended: Promise<unknown> = made.catch(() => {}).then(() => running.delete(ended))
      running.add(ended)
      return made
    })
    failing = new FailingStore(place.folder())
    gated = new GatedStore(failing)
    recording = new RecordingStore(gated)
  })
  const settings = { snapshotEveryMs: 20_000, incrementalEveryMs: 2_000, keep: 'all:1h' }

  async function versions(store: CellStore, cell: Cell): Promise<string[]> {
    return (await store.backups.list(cell.id)).backups.map(({ version }) => version)
  }

  /** Lets seconds pass, one at a time. What falls due is begun, and ends first, unless it is held at the gate. */
  async function seconds(count: number): Promise<void> {
    for (let i = 0; i < count; i++) {
      place.clock.advance(1_000)
      for (let turn = 0; turn < 20; turn++) await setImmediate()
      await turnsUntil(() => running.size <= gated.waiting, 'what was begun has ended')
    }
  }

  /** As {@link seconds}, in steps of five minutes. */
  async function minutes(count: number): Promise<void> {
    for (let i = 0; i < count; i += 5) {
      place.clock.advance(5 * MINUTE_MS)
      for (let turn = 0; turn < 5; turn++) await setImmediate()
      await turnsUntil(() => running.size <= gated.waiting, 'what was begun has ended')
    }
  }

  /** Waits until each cell's newest state is stored, and all that was begun has ended. */
  async function stored(store: CellStore, cells: readonly Cell[]): Promise<void> {
    const isDirty = ({ id }: Cell) => changeOf(store, id)?.dirty === true
    await turnsUntil(() => !cells.some(isDirty) && running.size === 0, 'all is backed up')
    await store.core.catalogStored()
  }

  /** What the cell held at the cut of each version. */
  function recordStates(cell: Cell): Map<string, string[]> {
    const states = new Map<string, string[]>()
    const { cut } = ChangeTracker.prototype
    vi.spyOn(ChangeTracker.prototype, 'cut').mockImplementation(function (
      this: ChangeTracker,
      database,
      version,
    ) {
      if (version.includes(cell.id)) states.set(version, notes(cell))
      cut.call(this, database, version)
    })
    return states
  }

  test('appear, and every listed one restores at every step', async () => {
    const store = await place.create({ objectStore: recording, backups: settings })
    const cell = createLedger(store)
    const states = recordStates(cell)
    let snapshots = 0
    for (let step = 0; step < 20; step++) {
      addRow(cell, `step ${step}`)
      await seconds(3)
      await stored(store, [cell])
      const now = await versions(store, cell)
      const { backups } = await store.backups.list(cell.id)
      snapshots += backups.filter(({ version, kind }) => kind === 'snapshot' && version === now[0]).length
      const restorable = backups.filter(
        ({ baseVersion }) => baseVersion === null || now.includes(baseVersion),
      )
      expect(restorable).toEqual(backups)
      if (step < 5 || step === 19) {
        const probe = new ScratchPlace()
        fs.cpSync(place.objects, probe.objects, { recursive: true })
        const other = await probe.open({ takeOver: true })
        for (const version of now) {
          await other.backups.restore(cell.id, { version: version as string })
          expect(notes(other.openCell(cell.id))).toEqual(states.get(version))
        }
      }
    }
    const left = await versions(store, cell)
    expect(left.length).toBeGreaterThan(10)
    expect(states.size).toBeGreaterThan(10)
    expect(snapshots).toBeGreaterThan(1)
  })

  test('store a new cell that nobody has changed at the next round: a total loss brings it back, empty', async () => {
    const store = await place.create({ backups: settings })
    const cell = store.createCell()
    await seconds(3)
    await stored(store, [cell])
    await store.close()
    place.loseData()
    const again = await place.open({ takeOver: true })
    const { id } = cell
    await again.openCell(id).ensureLocal()
    expect(again.openCell(id).kv.list().entries).toEqual([])
    await again.close()
  })

  test('cost nothing while nothing changes: no request at all', async () => {
    const store = await place.create({ objectStore: recording, backups: settings })
    const cells = Array.from({ length: 5 }, () => createLedger(store))
    await seconds(60)
    await stored(store, cells)
    for (const cell of cells) expect((await versions(store, cell)).length).toBeGreaterThan(0)
    await seconds(60)
    await stored(store, cells)
    recording.forget()
    await seconds(300)
    expect(recording.calls).toEqual([])
    // A read is no change, and neither is being closed and opened.
    for (const cell of cells) notes(cell)
    await store.close()
    const again = await place.open({ objectStore: recording, backups: settings })
    for (const cell of cells) notes(again.openCell(cell.id))
    await stored(again, cells)
    recording.forget()
    await seconds(300)
    expect(recording.calls).toEqual([])
  })

  test('are on by default, and cells that do not change cost no request in days', async () => {
    const byDefault = { snapshotEveryMs: undefined, incrementalEveryMs: undefined }
    const store = await place.create({ objectStore: recording, backups: byDefault })
    const cells = Array.from({ length: 50 }, () => store.createCell())
    for (const cell of cells.slice(0, 10)) cell.sql('CREATE TABLE ledger (n)')
    await minutes(20)
    await stored(store, cells)
    for (const cell of cells) expect(await versions(store, cell)).toHaveLength(1)
    await minutes(28 * 60)
    await stored(store, cells)
    for (const cell of cells) expect(await versions(store, cell)).toHaveLength(2)
    recording.forget()
    await minutes(3 * 24 * 60)
    expect(recording.calls).toEqual([])
  })

  test('go on after a restart with what was changed before it', async () => {
    const store = await place.create({ objectStore: recording, backups: settings })
    const cell = createLedger(store)
    addRow(cell, 'before the restart')
    await store.close()
    const again = await place.open({ objectStore: recording, backups: settings })
    await seconds(5)
    await stored(again, [cell])
    const [version] = await versions(again, cell)
    await again.backups.restore(cell.id, { version: version as string })
    expect(notes(again.openCell(cell.id))).toEqual(['before the restart'])
  })

  test('are made up for after an outage of the object store', async () => {
    const store = await place.create({ objectStore: recording, backups: settings })
    const cell = createLedger(store)
    await seconds(5)
    await stored(store, [cell])
    const before = await versions(store, cell)
    failing.failFromHere(1)
    failing.forGood = true
    addRow(cell, 'during the outage')
    await seconds(90)
    failing.failAt = 0
    await seconds(90)
    await stored(store, [cell])
    const after = await versions(store, cell)
    expect(after.length).toBeGreaterThan(before.length)
    await store.backups.restore(cell.id, { version: after[0] as string })
    expect(notes(cell)).toEqual(['during the outage'])
  })

  test('a round looks once a second whether the catalog is stored, and not for each cell', async () => {
    const store = await place.create({ objectStore: recording, backups: settings })
    const cells = Array.from({ length: 12 }, () => createLedger(store))
    await store.core.catalogStored()
    recording.forget()
    place.clock.advance(10_000)
    await stored(store, cells)
    expect(recording.count('put')).toBeGreaterThanOrEqual(12)
    expect(recording.count('head')).toBe(1)
    recording.forget()
    await store.backups.incremental((cells[0] as Cell).id)
    expect(recording.count('head')).toBe(1)
  })

  test('never more at once than the setting says: of small cells, four for each', async () => {
    const store = await place.create({ objectStore: recording, backups: { ...settings, concurrency: 2 } })
    const cells = Array.from({ length: 12 }, () => createLedger(store))
    await store.core.catalogStored()
    gated.gates = (call, key) => call === 'put' && !key.includes(store.id)
    // Others are asked for, and wait in the archiver's queue.
    place.clock.advance(10_000)
    await turnsUntil(() => gated.waiting >= 8 && running.size === cells.length, 'eight are uploaded')
    place.clock.advance(10_000)
    await setImmediate()
    expect(gated.waiting).toBe(8)
    gated.open()
    await stored(store, cells)
    for (const cell of cells) expect((await versions(store, cell)).length).toBeGreaterThan(0)
  })
})
