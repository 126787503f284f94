import { beforeEach, expect, test } from 'vitest'
import type { BackupDestination } from '../../../src/backup/archiver/backup-destination.ts'
import { FileObjectStore } from '../../../src/backup/object-store/file/file-object-store.ts'
import { bufferBody } from '../../../src/backup/object-store/object-store.ts'
import type { LogManifest } from '../../../src/backup/shipping/log/log-manifest.ts'
import { LogRetention, VersionCover } from '../../../src/backup/shipping/stored/log-retention.ts'
import { readLogManifest } from '../../../src/backup/shipping/stored/stored-log.ts'
import { logKey } from '../../../src/backup/versions/object-keys.ts'
import { silentLog } from '../../../src/base/log.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { HAS_TOOLS, query, recoverToByHand } from '../../support/backup/by-hand.ts'
import { GatedStore, RecordingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { storedLogs } from '../../support/backup/stored-logs.ts'
import type { FakeClock } from '../../support/fake-clock.ts'
import { tempDirectory } from '../../support/temp-directory.ts'

const DAY_MS = 86_400_000
/** Flushes alone ship: the longest lag is over after all tests. */
const shipped = { backups: { maxLagMs: 3_600_000, historyMs: 1_000 * DAY_MS, prune: false } }

const place = ScratchPlace.perTest()
let next: ScratchPlace
/** The node that has taken over. */
let store: CellStore
let busy: Cell
let idle: Cell
/** Only the void object has anything of it after its version. */
let untouched: Cell
let voidKey: string
/** When each state of a cell began. */
let states: { cell: Cell; time: number; rows: string[] }[]

function soon<T>(work: Promise<T>): Promise<T> {
  return next.advanceUntil(place.advanceUntil(work, 1_000), 1_000)
}

function commit(at: CellStore, { id }: Cell, note: string): void {
  const clock = at.clock as FakeClock
  clock.advance(1_000)
  const cell = at.openCell(id)
  addRow(cell, note)
  states.push({ cell, time: clock.now(), rows: notes(cell) })
}

const keys = async () => (await storedLogs(place.folder())).map(({ key }) => key)

/** A node that sleeps in a PUT is taken over, and its object is stored after the first one of the next node. */
beforeEach(async () => {
  next = new ScratchPlace()
  states = []
  const gated = new GatedStore(place.folder())
  const late = await place.create({ objectStore: gated, ...shipped })
  busy = createLedger(late)
  idle = createLedger(late)
  untouched = createLedger(late)
  for (const { id } of [busy, idle, untouched]) await soon(late.backups.snapshot(id))
  for (const cell of [busy, idle]) commit(late, cell, 'kept')
  await soon(late.backups.flush())
  const before = await storedLogs(place.folder())
  gated.gates = (call, key) => call === 'put' && key.startsWith('log/')
  const known = states.length
  for (const cell of [busy, idle, untouched]) commit(late, cell, 'late')
  states.splice(known)
  const lost = late.backups.flush()
  lost.catch(() => {})
  await place.advanceUntil(gated.arrival(), 1_000)
  next.clock.advance(place.clock.now() - next.clock.now())
  store = await next.open({ objectStore: place.folder(), takeOver: true, ...shipped })
  await soon(store.openCell(busy.id).ensureLocal())
  await soon(store.backups.incremental(busy.id))
  commit(store, busy, 'new')
  await soon(store.backups.flush())
  gated.open()
  await expect(lost).rejects.toMatchObject({ code: 'taken_over' })
  await soon(late.close())
  const all = await storedLogs(place.folder())
  expect(all.map(({ manifest }) => manifest.epoch)).toEqual([...before.map(() => 1), 1, 2])
  voidKey = all.at(-2)?.key as string
  return () => soon(store.close())
})

async function expectStates(): Promise<void> {
  for (const { cell, time, rows } of states) {
    const made = await soon(store.createCell({ from: { cellId: cell.id, timestamp: time } }))
    expect(notes(made)).toEqual(rows)
  }
}

test('a log object that a late node stored after it was taken over is in no restore to a time, and in no lost cell', async () => {
  await expectStates()
  for (const { id } of [busy, idle, untouched]) {
    const { restorable } = await soon(store.backups.list(id))
    for (const { to } of restorable) {
      const made = await soon(store.createCell({ from: { cellId: id, timestamp: to } }))
      expect(notes(made)).not.toContain('late')
    }
  }
  await soon(store.close())
  next.loseData()
  store = await next.open({ objectStore: place.folder(), ...shipped })
  for (const { id } of [busy, idle, untouched]) await soon(store.openCell(id).ensureLocal())
  expect(notes(store.openCell(busy.id))).toEqual(['kept', 'new'])
  expect(notes(store.openCell(idle.id))).toEqual(['kept'])
  expect(notes(store.openCell(untouched.id))).toEqual([])
})

test.runIf(HAS_TOOLS)('it is not in what is recovered by hand', () => {
  const recovered = [busy, idle, untouched].map(({ id }) =>
    query(recoverToByHand(place.objects, id, '9999-12-31'), 'SELECT note FROM ledger ORDER BY n').flat(),
  )
  expect(recovered).toEqual([['kept', 'new'], ['kept'], []])
})

test('it goes with its age, and holds up no others', async () => {
  const removed: string[] = []
  // The first round makes versions, which hold all once they are old.
  for (let i = 0; i < 2; i++) {
    next.clock.advance(8 * DAY_MS)
    commit(store, busy, `much later: ${i}`)
    await soon(store.backups.incremental(busy.id))
    await soon(store.backups.flush())
    removed.push(...(await round()))
  }
  expect(removed).toContain(voidKey)
  expect((await keys())[0]?.startsWith('log/0000000002-')).toBe(true)
  await soon(store.openCell(idle.id).ensureLocal())
  expect(notes(store.openCell(idle.id))).toEqual(['kept'])
})

test('a round asks once per epoch, however many have nothing but void objects', async () => {
  const EPOCHS = 12
  const root = new RecordingStore(new FileObjectStore({ root: tempDirectory('cellstore-void') }))
  const key = (epoch: number) => logKey({ epoch, number: 1 })
  for (let epoch = 1; epoch <= EPOCHS; epoch++) await root.put(key(epoch), bufferBody(Buffer.from('log')))
  root.forget()
  const retention = new LogRetention({
    objectStore: root,
    horizon: () => place.clock.now() - DAY_MS,
    // Each node slept in its PUT, so that all of them go on from the first one.
    readManifest: async ({ key: of }) => {
      root.calls.push({ call: 'get', key: of })
      const previous = of === key(1) ? null : { key: key(1), sha256: '' }
      return { to: 0, cells: [{ cell_id: of }], previous } as unknown as LogManifest
    },
    newCover: () => ({
      of: async ({ cell_id }) => (cell_id === key(1) ? 'held' : 'unheld'),
      forget: () => {},
    }),
    isDeleted: async () => false,
    needsBase: async () => {},
    clock: place.clock,
    log: silentLog,
  })
  expect(await retention.run()).toEqual(Array.from({ length: EPOCHS - 1 }, (_, i) => key(i + 1)))
  expect(root.count('list')).toBeLessThanOrEqual(EPOCHS + 1)
  expect(root.count('get')).toBeLessThanOrEqual(3 * EPOCHS)
})

/** One round, as the archiver of the store would make it. */
async function round(): Promise<string[]> {
  const { objectStore, storeId, index, clock, log } = store.core.destination as BackupDestination
  const retention = new LogRetention({
    objectStore,
    horizon: () => clock.now() - 7 * DAY_MS,
    readManifest: async (stored) => (await readLogManifest(objectStore, stored, storeId)).manifest,
    newCover: (horizon) => new VersionCover(index, horizon),
    isDeleted: async (id, committedAt) => store.core.isDeleted(id, committedAt),
    needsBase: async (id) => void (await soon(store.backups.incremental(id))),
    clock,
    log,
  })
  return await retention.run()
}
