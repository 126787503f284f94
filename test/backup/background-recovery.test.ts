import fs from 'node:fs'
import path from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { BackupManager } from '../../src/backup/backup-manager.ts'
import type { RecoveryProgress } from '../../src/backup/recovery/background-recovery.ts'
import type { Log } from '../../src/base/log.ts'
import { silentLog } from '../../src/base/log.ts'
import { CellError } from '../../src/errors.ts'
import { InProcessService } from '../../src/service/in-process-service.ts'
import type { CellStore } from '../../src/store/cell-store.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import {
  type Call,
  FailingStore,
  GatedStore,
  RecordingStore,
} from '../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../support/backup/scratch-store.ts'
import { BOUNDS } from '../support/request-bounds.ts'
import { codeOf, rejectedBy } from '../support/thrown.ts'
import { turnsUntil } from '../support/turns.ts'

/** After a start, so long until the recovery begins. */
const BEGIN_MS = 1_000
const MINUTE_MS = 60_000

interface Line {
  level: string
  message: string
  fields: Record<string, unknown>
}

const place = ScratchPlace.perTest()
let lines: Line[]
let log: Log
beforeEach(() => {
  lines = []
  const at = (level: string) => (fields: object, message: string) => {
    lines.push({ level, message, fields: { ...fields } })
  }
  log = { ...silentLog, info: at('info'), warn: at('warn'), error: at('error') }
})

function logged(message: string): Line[] {
  return lines.filter((line) => line.message === message)
}

async function storedCells(store: CellStore, count: number): Promise<Cell[]> {
  const cells: Cell[] = []
  for (let i = 0; i < count; i++) {
    const cell = createLedger(store)
    addRow(cell, `note ${i}`)
    cells.push(cell)
  }
  for (const cell of cells) await store.backups.snapshot(cell.id)
  await store.core.catalogStored()
  return cells
}

/** A store with so many cells, which has lost everything local. */
async function lostCells(count: number): Promise<string[]> {
  const store = await place.create()
  const ids = (await storedCells(store, count)).map(({ id }) => id)
  await store.close()
  place.loseData()
  return ids
}

function isHere(id: string): boolean {
  return fs.existsSync(place.paths.cell(id).database)
}

function progressOf(store: CellStore): RecoveryProgress {
  const progress = store.core.recovery?.progress
  if (progress === undefined) throw new Error('Nothing is lost.')
  return progress
}

async function untilEnded(store: CellStore): Promise<void> {
  await turnsUntil(() => store.core.recovery?.progress?.endedAt != null, 'the recovery has ended')
}

async function recovered(store: CellStore): Promise<void> {
  place.clock.advance(BEGIN_MS)
  await untilEnded(store)
}

/** The listing with which a cell's restore begins. */
function ofRestore(ids: readonly string[]): (call: Call, key: string) => boolean {
  return (call, key) => call === 'list' && ids.some((id) => key === `snapshots/${id}/`)
}

/** Flips bytes in the middle of each of a cell's versions. */
function damage(id: string): void {
  const folder = path.join(place.objects, 'snapshots', id)
  for (const name of fs.readdirSync(folder).filter((each) => each.startsWith('backup-'))) {
    const bytes = fs.readFileSync(path.join(folder, name))
    bytes.fill(0x55, Math.floor(bytes.length / 2), Math.floor(bytes.length / 2) + 64)
    fs.writeFileSync(path.join(folder, name), bytes)
  }
}

describe('After a total loss', () => {
  test('all of 50 cells come back, and nobody asked for one', async () => {
    const ids = await lostCells(50)
    const store = await place.open({ log })
    expect(ids.filter(isHere)).toEqual([])
    await recovered(store)
    for (const [i, id] of ids.entries()) expect(notes(store.openCell(id))).toEqual([`note ${i}`])
    const bytes = ids.reduce((sum, id) => sum + fs.statSync(place.paths.cell(id).database).size, 0)
    expect(progressOf(store)).toMatchObject({ cells: 50, recovered: 50, failed: 0, bytes, etaMs: 0 })
    expect(logged('cells without local data are being restored in the background')).toMatchObject([
      { level: 'info', fields: { cells: 50, recovered: 0, atOnce: 3 } },
    ])
    expect(logged('the background restore of cells has ended')).toMatchObject([
      { level: 'info', fields: { cells: 50, recovered: 50, failed: 0, bytes } },
    ])
    expect(store.metrics().backups).toMatchObject({ recovered: 50, restoresFailed: 0 })
  })

  test('they come back in the order of their newest backups; one without a backup is last, and told once', async () => {
    const first = await place.create()
    const cells = await storedCells(first, 5)
    for (const i of [3, 0, 4, 1, 2]) {
      place.clock.advance(MINUTE_MS)
      const cell = cells[i] as Cell
      addRow(cell, 'later')
      await first.backups.incremental(cell.id)
    }
    const never = createLedger(first)
    await first.core.catalogStored()
    await first.close()
    place.loseData()
    const store = await place.open({ log, backups: { recoveryConcurrency: 1 } })
    await recovered(store)
    const back = logged('a cell comes from its newest backup; this machine had no files of it')
    expect(back.map(({ fields }) => fields['cellId'])).toEqual([2, 1, 4, 0, 3].map((i) => cells[i]?.id))
    expect(logged('could not restore a cell whose data is lost')).toMatchObject([
      { level: 'error', fields: { cellId: never.id, code: 'no_backup' } },
    ])
    expect([...(store.core.recovery?.failures ?? [])]).toEqual([[never.id, 'no_backup']])
  })

  test('accounts take turns, and cells of one whose restores take long hold up no other account', async () => {
    const first = await place.create()
    const [attacker, neighbour] = [first.accounts.create().id, first.accounts.create().id]
    const cells = [neighbour, neighbour, neighbour, ...Array<string>(6).fill(attacker)].map((accountId) =>
      createLedger(first, { accountId }),
    )
    for (const cell of cells) {
      place.clock.advance(MINUTE_MS)
      addRow(cell, 'note')
      await first.backups.snapshot(cell.id)
    }
    await first.core.catalogStored()
    await first.close()
    place.loseData()
    const gated = new GatedStore(place.folder())
    const store = await place.open({ objectStore: gated, log })
    const ids = cells.map(({ id }) => id)
    gated.gates = ofRestore(ids.slice(3))
    place.clock.advance(BEGIN_MS)
    await turnsUntil(() => ids.slice(0, 3).every(isHere), 'the neighbour has its cells')
    expect(ids.slice(3).filter(isHere)).toEqual([])
    gated.open()
    await untilEnded(store)
    expect(ids.every(isHere)).toBe(true)
  })

  test('an account of which too many jobs wait already holds up its own cells alone, and these come back later', async () => {
    const first = await place.create()
    const [busy, neighbour] = [first.accounts.create().id, first.accounts.create().id]
    const cells = [busy, neighbour, busy, neighbour, busy].map((accountId) =>
      createLedger(first, { accountId }),
    )
    for (const cell of cells) await first.backups.snapshot(cell.id)
    await first.core.catalogStored()
    await first.close()
    place.loseData()
    const recover = BackupManager.prototype.recoverIfLost
    const own = cells.map(({ id }) => id).filter((_, i) => i % 2 === 0)
    let tried = 0
    const spy = vi.spyOn(BackupManager.prototype, 'recoverIfLost').mockImplementation(async function (
      this: BackupManager,
      ...asked
    ) {
      if (own.includes(asked[0]) && tried++ < 6)
        throw new CellError('rate_limited', 'Too many wait (injected).', { retryAfterMs: 5_000 })
      await recover.apply(this, asked)
    })
    onTestFinished(() => spy.mockRestore())
    const store = await place.open({ log })
    place.clock.advance(BEGIN_MS)
    await turnsUntil(() => store.core.recovery?.progress?.recovered === 2, 'the neighbour has its cells')
    expect(own.filter(isHere)).toEqual([])
    expect(logged('the background restore of cells waits; trying again later')).toEqual([])
    while (progressOf(store).endedAt === null) {
      place.clock.advance(5_000)
      for (let turn = 0; turn < 50; turn++) await setImmediate()
    }
    expect(progressOf(store)).toMatchObject({ cells: 5, recovered: 5, failed: 0 })
  })

  test('one damaged backup stops no other cell, and a use of that cell says what is wrong', async () => {
    const ids = await lostCells(6)
    const damaged = ids[2] as string
    damage(damaged)
    const store = await place.open({ log })
    await recovered(store)
    expect(ids.filter((id) => !isHere(id))).toEqual([damaged])
    expect(logged('could not restore a cell whose data is lost')).toMatchObject([
      { level: 'error', fields: { cellId: damaged, code: 'backup_corrupt' } },
    ])
    expect(progressOf(store)).toMatchObject({ cells: 6, recovered: 5 })
    expect((await rejectedBy(store.openCell(damaged).ensureLocal())).code).toBe('backup_corrupt')
  })

  test('a request overtakes, shares the restore of its cell, and never sees an empty cell', async () => {
    const ids = await lostCells(8)
    const gated = new GatedStore(place.folder())
    const store = await place.open({ objectStore: gated, log, backups: { restoreConcurrency: 2 } })
    const wanted = ids[0] as string
    gated.gates = ofRestore(ids)
    place.clock.advance(BEGIN_MS)
    // One restore runs in the background; the other slot is free for requests.
    await turnsUntil(() => gated.waiting === 1, 'a restore waits at the gate')
    const cell = store.openCell(wanted)
    expect(codeOf(() => notes(cell))).toBe('cell_restoring')
    const uses = Promise.all([cell.ensureLocal(), store.backups.snapshot(wanted)])
    await turnsUntil(() => gated.waiting === 2, 'the request has a slot at once')
    gated.open()
    await uses
    expect(notes(cell)).toEqual(['note 0'])
    await untilEnded(store)
    expect(progressOf(store)).toMatchObject({ cells: 8, recovered: 8 })
    expect(store.metrics().backups).toMatchObject({ recovered: 8 })
  })

  test('a request waits for a bounded time while its cell is restored in the background, and the next one finds it', async () => {
    const ids = await lostCells(3)
    const gated = new GatedStore(place.folder())
    const store = await place.open({ objectStore: gated, log })
    const service = new InProcessService(store, { restoreWaitMs: 20_000, bounds: BOUNDS })
    const count = { op: 'sql', sql: 'SELECT count(*) AS n FROM ledger' } as const
    gated.gates = ofRestore(ids)
    place.clock.advance(BEGIN_MS)
    await turnsUntil(() => gated.waiting === 3, 'all three are being restored')
    const tooEarly = service.execute(ids[1] as string, count)
    tooEarly.catch(() => {})
    await setImmediate()
    place.clock.advance(20_000)
    await expect(tooEarly).rejects.toMatchObject({ code: 'cell_restoring' })
    const next = service.execute(ids[1] as string, count)
    gated.open()
    expect((await next).rows).toMatchObject([{ n: 1 }])
    await turnsUntil(() => progressOf(store).recovered === 3, 'all are back')
    place.clock.advance(250)
    await untilEnded(store)
  })

  test('cells that are deleted or restored meanwhile are neither restored again nor missed', async () => {
    const ids = await lostCells(5)
    const gated = new GatedStore(place.folder())
    const store = await place.open({ objectStore: gated, log, backups: { restoreConcurrency: 2 } })
    const [restored, , , running, deleted] = ids as [string, string, string, string, string]
    gated.gates = ofRestore(ids)
    place.clock.advance(BEGIN_MS)
    await turnsUntil(() => gated.waiting === 1, 'a restore runs')
    store.deleteCell(deleted)
    store.deleteCell(running)
    const asked = store.backups.restore(restored)
    gated.open()
    await asked
    await untilEnded(store)
    expect(ids.map(isHere)).toEqual([true, true, true, false, false])
    expect(progressOf(store)).toMatchObject({ cells: 3, recovered: 3 })
    expect(lines.filter(({ level }) => level === 'error')).toEqual([])
    expect(store.metrics().backups).toMatchObject({ restored: 1, recovered: 2 })
  })
})

describe('Where not all is well', () => {
  test('while the object store fails it waits longer and longer, and then goes on', async () => {
    const ids = await lostCells(7)
    const failing = new FailingStore(place.folder())
    const store = await place.open({ objectStore: failing, log, random: () => 0.5 })
    failing.failFromHere(1, (call, key) => call === 'list' && key === 'snapshots/')
    failing.forGood = true
    place.clock.advance(BEGIN_MS)
    const waits = () => logged('the background restore of cells waits; trying again later')
    for (const count of [1, 2, 3]) {
      await turnsUntil(() => waits().length === count, 'it waits')
      const calls = failing.calls
      place.clock.advance(Number(waits().at(-1)?.fields['retryMs']) - 1)
      await setImmediate()
      expect(failing.calls).toBe(calls)
      if (count === 3) failing.failAt = 0
      place.clock.advance(1)
    }
    await untilEnded(store)
    expect(waits().map(({ fields }) => fields['retryMs'])).toEqual([3_750, 7_500, 15_000])
    expect(ids.every(isHere)).toBe(true)
    expect(progressOf(store)).toMatchObject({ cells: 7, recovered: 7 })
  })

  test('what fails in the middle counts once for all restores that run, and no cell is given up', async () => {
    const ids = await lostCells(9)
    const failing = new FailingStore(place.folder())
    const store = await place.open({ objectStore: failing, log })
    // A get of each restore fails, after the listing for the order.
    failing.error = () => new CellError('object_store_error', 'The object store refuses (injected).')
    failing.failFromHere(1, (call, key) => call === 'get' && key.startsWith('snapshots/'))
    failing.forGood = true
    place.clock.advance(BEGIN_MS)
    const waits = () => logged('the background restore of cells waits; trying again later')
    await turnsUntil(() => waits().length === 1, 'it waits')
    await turnsUntil(() => store.metrics().backups?.restoresFailed === 3, 'the other two have failed')
    for (let turn = 0; turn < 20; turn++) await setImmediate()
    expect(waits()).toHaveLength(1)
    failing.failAt = 0
    place.clock.advance(5_000)
    await untilEnded(store)
    expect(ids.every(isHere)).toBe(true)
  })

  test('it ends with the store, in the middle of a restore, and the next start goes on', async () => {
    const ids = await lostCells(6)
    const gated = new GatedStore(place.folder())
    const store = await place.open({ objectStore: gated, log, backups: { recoveryConcurrency: 1 } })
    let restores = 0
    gated.gates = (call, key) => ofRestore(ids)(call, key) && ++restores > 2
    place.clock.advance(BEGIN_MS)
    await turnsUntil(() => gated.waiting === 1, 'the third restore runs')
    await store.close()
    expect(ids.filter(isHere)).toHaveLength(2)
    expect(lines.filter(({ level }) => level === 'error')).toEqual([])
    const again = await place.open({ log })
    await recovered(again)
    expect(ids.every(isHere)).toBe(true)
    expect(progressOf(again)).toMatchObject({ cells: 4, recovered: 4 })
  })

  test('each minute a line says how far it is', async () => {
    const ids = await lostCells(3)
    const gated = new GatedStore(place.folder())
    const store = await place.open({ objectStore: gated, log, backups: { recoveryConcurrency: 1 } })
    let restores = 0
    gated.gates = (call, key) => ofRestore(ids)(call, key) && ++restores > 1
    place.clock.advance(BEGIN_MS)
    await turnsUntil(() => gated.waiting === 1, 'the second restore runs')
    place.clock.advance(2 * MINUTE_MS)
    expect(logged('cells are being restored in the background')).toMatchObject([
      { level: 'info', fields: { cells: 3, recovered: 1, failed: 0 } },
      { level: 'info', fields: { cells: 3, recovered: 1, failed: 0 } },
    ])
    gated.open()
    await turnsUntil(() => progressOf(store).recovered === 2, 'the second one is back')
    // A restore that took long is followed by a rest.
    await setImmediate()
    expect(isHere(ids[0] as string)).toBe(false)
    place.clock.advance(250)
    await untilEnded(store)
    place.clock.advance(2 * MINUTE_MS)
    expect(logged('cells are being restored in the background')).toHaveLength(2)
  })
})

describe('It does nothing', () => {
  test('if no cell is lost: no request, no line, no progress', async () => {
    const recording = new RecordingStore(place.folder())
    const first = await place.create()
    await storedCells(first, 3)
    await first.close()
    const store = await place.open({ objectStore: recording, log })
    recording.forget()
    place.clock.advance(BEGIN_MS)
    // Its look at the files takes turns of the thread pool; the end of the store waits for it.
    await store.close()
    expect(recording.calls.filter(({ call, key }) => call === 'list' && key === 'snapshots/')).toEqual([])
    expect(store.core.recovery?.progress).toBeUndefined()
    expect(lines.filter(({ message }) => message.includes('background'))).toEqual([])
  })

  test('if it is turned off: each cell comes back with its first use', async () => {
    const ids = await lostCells(3)
    const store = await place.open({ log, backups: { recoverInBackground: false } })
    await store.openCell(ids[0] as string).ensureLocal()
    // In the first hour after a loss, the cells that are here are searched for expired entries.
    for (let minute = 0; minute < 120; minute++) {
      place.clock.advance(MINUTE_MS)
      await setImmediate()
    }
    await store.close()
    expect(ids.map(isHere)).toEqual([true, false, false])
  })

  test('of the order of many, if only few are lost: it asks for no listing of the whole bucket', async () => {
    const first = await place.create()
    const cells = await storedCells(first, 21)
    await first.close()
    for (const { id } of cells.slice(0, 2)) fs.rmSync(place.paths.cell(id).directory, { recursive: true })
    const recording = new RecordingStore(place.folder())
    const store = await place.open({ objectStore: recording, log })
    await recovered(store)
    expect(progressOf(store)).toMatchObject({ cells: 2, recovered: 2 })
    expect(recording.calls.filter(({ call, key }) => call === 'list' && key === 'snapshots/')).toEqual([])
  })
})
