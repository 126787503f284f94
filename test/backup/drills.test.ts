import fs from 'node:fs'
import path from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { BackupManager } from '../../src/backup/backup-manager.ts'
import { RestoreThreads } from '../../src/backup/restore/threads/restore-threads.ts'
import type { Log } from '../../src/base/log.ts'
import { silentLog } from '../../src/base/log.ts'
import type { CellStore } from '../../src/store/cell-store.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import type { StoreOptions } from '../../src/store/settings/store-options.ts'
import { FailingStore } from '../support/backup/object-store-decorators.ts'
import { addRow, createLedger, ScratchPlace } from '../support/backup/scratch-store.ts'
import { seededRandom } from '../support/seed.ts'
import { filesBelow } from '../support/temp-directory.ts'
import { turnsUntil } from '../support/turns.ts'

const HOUR_MS = 3_600_000
const WEEK_MS = 7 * 24 * HOUR_MS

const place = ScratchPlace.perTest()

/** What drills have tried, in order. */
let drilled: { at: number; cellId: string; version: string | undefined }[]
let running: number
let atOnceMax: number
beforeEach(() => {
  drilled = []
  running = 0
  atOnceMax = 0
  const prove = BackupManager.prototype.prove
  vi.spyOn(BackupManager.prototype, 'prove').mockImplementation(async function (
    this: BackupManager,
    ...asked
  ) {
    const [cellId, { version }] = asked
    drilled.push({ at: place.clock.now(), cellId, version })
    atOnceMax = Math.max(atOnceMax, ++running)
    return await prove.apply(this, asked).finally(() => running--)
  })
})
function randomly(): () => number {
  const random = seededRandom()
  return () => random.below(1_000_000) / 1_000_000
}

function withDrills(options: StoreOptions = {}): StoreOptions {
  return { random: randomly(), ...options, backups: { drillEveryMs: WEEK_MS, ...options.backups } }
}

/** Lets hours pass. What falls due ends first. */
async function hours(count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    place.clock.advance(HOUR_MS)
    await setImmediate()
    await turnsUntil(() => running === 0, 'the drill has ended')
    for (let turn = 0; turn < 5; turn++) await setImmediate()
  }
}

async function storedCells(store: CellStore, count: number): Promise<Cell[]> {
  const cells: Cell[] = []
  for (let i = 0; i < count; i++) {
    const cell = createLedger(store)
    addRow(cell, 'one')
    await store.backups.snapshot(cell.id)
    cells.push(cell)
  }
  await store.core.catalogStored()
  return cells
}

function damage(version: string): void {
  const file = path.join(place.objects, version)
  const bytes = fs.readFileSync(file)
  const at = Math.floor(bytes.length / 2)
  bytes[at] = (bytes[at] as number) ^ 1
  fs.chmodSync(file, 0o600)
  fs.writeFileSync(file, bytes)
}

interface Line {
  fields: Record<string, unknown>
  message: string | undefined
}

function listening(): { log: Log; errors: Line[]; warnings: Line[] } {
  const errors: Line[] = []
  const warnings: Line[] = []
  const into = (lines: Line[]) => (fields: object, message?: string) => {
    lines.push({ fields: { ...fields }, message })
  }
  return { log: { ...silentLog, error: into(errors), warn: into(warnings) } as Log, errors, warnings }
}

describe('Drills', () => {
  test('prove each cell and the catalog about once a week, one at a time, spread over the week', async () => {
    const store = await place.create(withDrills())
    const cells = await storedCells(store, 12)
    const ids = [...cells.map(({ id }) => id), store.id].sort()
    for (let week = 0; week < 4; week++) {
      await hours(7 * 24)
      for (const cell of cells) {
        addRow(cell, `week ${week}`)
        await store.backups.incremental(cell.id)
      }
      await store.core.catalogStored()
    }
    const timesOf = (id: string) => drilled.filter(({ cellId }) => cellId === id).map(({ at }) => at)
    for (const id of ids.filter((each) => each !== store.id)) {
      const times = timesOf(id)
      expect(times.length).toBeGreaterThanOrEqual(3)
      for (const [i, at] of times.slice(1).entries()) {
        expect(at - (times[i] as number)).toBeGreaterThanOrEqual(WEEK_MS)
        expect(at - (times[i] as number)).toBeLessThan(WEEK_MS + 24 * HOUR_MS)
      }
    }
    expect(timesOf(store.id).length).toBeGreaterThanOrEqual(1)
    expect(atOnceMax).toBe(1)
    // Not all in one night.
    const days = new Set(drilled.slice(0, ids.length).map(({ at }) => Math.floor(at / (24 * HOUR_MS))))
    expect(days.size).toBeGreaterThanOrEqual(4)
    expect(fs.existsSync(place.paths.spool) ? filesBelow(place.paths.spool) : []).toEqual([])
  })

  test('pass over a cell whose newest backup is proven, and one that has none', async () => {
    const store = await place.create(withDrills())
    const [cell] = (await storedCells(store, 1)) as [Cell]
    createLedger(store)
    await hours(3 * 7 * 24)
    expect(drilled.filter(({ cellId }) => cellId !== store.id)).toHaveLength(1)
    expect(store.retention?.lastProven(cell.id)).toBeDefined()
    addRow(cell, 'two')
    const { version } = await store.backups.incremental(cell.id)
    await hours(7 * 24 + 1)
    expect(store.retention?.lastProven(cell.id)?.version).toBe(version)
  })

  test.each<[string, (store: CellStore, cellId: string) => Promise<unknown>]>([
    ['by hand', (store, cellId) => store.backups.verify(cellId)],
    ['by a restore of a cell that lives on', (store, cellId) => store.backups.restore(cellId)],
  ])(
    'take a cell first whose damage was found %s, although its newest backup was proven: it gets a new base',
    async (_, find) => {
      const { log, errors } = listening()
      const store = await place.create(withDrills({ log }))
      const [cell] = (await storedCells(store, 1)) as [Cell]
      await hours(2 * 7 * 24)
      const proven = store.retention?.lastProven(cell.id)?.version as string
      damage(proven)
      await expect(find(store, cell.id)).rejects.toMatchObject({ code: 'backup_corrupt' })
      await hours(2)
      expect(errors.map(({ fields }) => fields)).toMatchObject([{ cellId: cell.id, version: proven }])
      expect(store.retention?.lastProven(cell.id)?.version).toBe(proven)
      const newestOf = async () => (await store.backups.list(cell.id)).backups[0]
      await expect.poll(async () => (await newestOf())?.baseVersion).toBeNull()
      const newest = await newestOf()
      expect(newest?.version).not.toBe(proven)
      expect(await store.backups.verify(cell.id)).toMatchObject({ version: newest?.version })
      await hours(2 * 7 * 24)
      expect(errors).toHaveLength(1)
    },
  )

  test('take a cell next whose damage was found by hand before it was in the rotation', async () => {
    const { log, errors } = listening()
    const store = await place.create(withDrills({ log }))
    const [cell] = (await storedCells(store, 1)) as [Cell]
    const [newest] = (await store.backups.list(cell.id)).backups
    damage(newest?.version as string)
    await expect(store.backups.verify(cell.id)).rejects.toMatchObject({ code: 'backup_corrupt' })
    await hours(2)
    expect(errors.map(({ fields }) => fields)).toMatchObject([{ cellId: cell.id, version: newest?.version }])
  })

  test('say whose they are, so that a check that takes long is not run in each of them; what is asked for by hand does not', async () => {
    const check = vi.spyOn(RestoreThreads.prototype, 'check')
    const store = await place.create(withDrills())
    const [cell] = (await storedCells(store, 1)) as [Cell]
    check.mockClear()
    await store.backups.verify(cell.id)
    const drillsOf = () =>
      check.mock.calls.flatMap(([{ kind }, , whose]) => (kind === 'prove' ? [whose.drillOf] : []))
    expect(drillsOf()).toEqual([undefined])
    addRow(cell, 'two')
    await store.backups.incremental(cell.id)
    await hours(8 * 24)
    expect(drillsOf()).toContain(cell.id)
  })

  test('count what was proven by hand', async () => {
    const store = await place.create(withDrills())
    const [cell] = (await storedCells(store, 1)) as [Cell]
    await hours(1)
    await store.backups.verify(cell.id)
    const count = drilled.length
    addRow(cell, 'two')
    await store.backups.incremental(cell.id)
    await hours(6 * 24)
    expect(drilled.slice(count).filter(({ cellId }) => cellId === cell.id)).toEqual([])
    await hours(2 * 24)
    expect(drilled.slice(count).filter(({ cellId }) => cellId === cell.id)).toHaveLength(1)
  })

  test('go on after a restart where they were', async () => {
    let store = await place.create(withDrills())
    const cells = await storedCells(store, 6)
    for (let day = 0; day < 14; day++) {
      await hours(24)
      await store.close({ deadlineMs: 1 })
      store = await place.open(withDrills())
    }
    for (const { id } of cells) expect(drilled.filter(({ cellId }) => cellId === id)).toHaveLength(1)
  })

  test('are loud about damage, prove an older version, and ask for a new base', async () => {
    const { log, errors, warnings } = listening()
    const backups = { incrementalEveryMs: HOUR_MS }
    const store = await place.create(withDrills({ log, backups }))
    const [cell] = (await storedCells(store, 1)) as [Cell]
    place.clock.advance(1_000)
    const { version: bad } = await store.backups.snapshot(cell.id)
    damage(bad)
    await turnsUntil(() => running === 0, 'nothing runs')
    while (errors.length === 0) await hours(1)
    expect(errors).toEqual([
      {
        fields: { cellId: cell.id, version: bad, member: expect.any(String), err: expect.anything() },
        message: 'a backup is damaged and cannot be restored; the next backup of the cell is a new base',
      },
    ])
    expect(store.verifications?.damagedCount()).toBe(1)
    // The older one, or the new base if that was stored first.
    await turnsUntil(() => store.retention?.lastProven(cell.id) !== undefined, 'another version is proven')
    expect(store.retention?.lastProven(cell.id)?.version).not.toBe(bad)
    expect(warnings).toEqual([])
    await hours(3)
    const { backups: after } = await store.backups.list(cell.id)
    expect(after[0]).toMatchObject({ baseVersion: null })
    expect(after.map(({ version }) => version)).not.toContain(bad)
    await hours(8 * 24)
    expect(store.retention?.lastProven(cell.id)?.version).toBe(after[0]?.version)
    expect(store.verifications?.damagedCount()).toBe(0)
    expect(errors).toHaveLength(1)
  })

  test('wait while the object store does not answer, which is no damage', async () => {
    const { log, errors, warnings } = listening()
    const failing = new FailingStore(place.folder())
    const store = await place.create(withDrills({ log, objectStore: failing }))
    const [cell] = (await storedCells(store, 1)) as [Cell]
    failing.failFromHere(1, (call) => call === 'get')
    failing.forGood = true
    await hours(8 * 24)
    expect(warnings.some(({ fields }) => fields['cellId'] === cell.id)).toBe(true)
    expect(errors).toEqual([])
    expect(store.verifications?.damagedCount()).toBe(0)
    failing.failAt = 0
    await hours(24)
    expect(store.retention?.lastProven(cell.id)).toBeDefined()
  })

  test('are skipped, with a line in the log, while the disk has no room for them', async () => {
    const { log, errors, warnings } = listening()
    const store = await place.create(withDrills({ log }))
    const [cell] = (await storedCells(store, 1)) as [Cell]
    const { statfsSync } = fs
    const disk = vi.spyOn(fs, 'statfsSync').mockImplementation(((directory: string) => ({
      ...statfsSync(directory),
      bsize: 4_096,
      // A page less than what stays free.
      bavail: 65_535,
    })) as typeof fs.statfsSync)
    await hours(8 * 24)
    expect(warnings.filter(({ fields }) => fields['cellId'] === cell.id)[0]).toMatchObject({
      fields: { err: { code: 'disk_full', message: expect.stringContaining('268435456 of them stay free') } },
      message: 'a drill is skipped: the disk has no room for its restore; trying again later',
    })
    expect([errors, store.verifications?.damagedCount()]).toEqual([[], 0])
    expect(store.retention?.lastProven(cell.id)).toBeUndefined()
    expect(fs.existsSync(place.paths.spool) ? filesBelow(place.paths.spool) : []).toEqual([])
    // A restore that somebody asks for may take the last of it.
    await store.backups.restore(cell.id)
    disk.mockRestore()
    await hours(24)
    expect(store.retention?.lastProven(cell.id)).toBeDefined()
  })

  test('can be turned off', async () => {
    const store = await place.create(withDrills({ backups: { drillEveryMs: null } }))
    await storedCells(store, 2)
    await hours(3 * 7 * 24)
    expect(drilled).toEqual([])
  })
})
