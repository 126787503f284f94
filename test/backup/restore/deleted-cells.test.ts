import { setImmediate } from 'node:timers/promises'
import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { InProcessService } from '../../../src/service/in-process-service.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { GatedStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { BOUNDS } from '../../support/request-bounds.ts'
import { rejectedBy } from '../../support/thrown.ts'

const HOUR_MS = 3_600_000
const SHIPPED = { backups: { maxLagMs: 10_000 } }
const SHORT_HISTORY = { backups: { maxLagMs: 10_000, historyMs: HOUR_MS } }

const place = ScratchPlace.perTest()

/** Deletes a cell of which a commit is shipped, and another one is on this machine only. */
async function deleteUnshipped(store: CellStore): Promise<{ id: string; shippedAt: number; before: number }> {
  const cell = createLedger(store)
  await place.soon(store.backups.snapshot(cell.id))
  place.clock.advance(1_000)
  addRow(cell, 'shipped')
  const shippedAt = place.clock.now()
  await place.soon(store.backups.flush())
  place.clock.advance(1_000)
  addRow(cell, 'unshipped')
  const before = place.clock.now()
  place.clock.advance(1_000)
  store.deleteCell(cell.id)
  return { id: cell.id, shippedAt, before }
}

/** What other cells commit is shipped, in objects that say that they are complete. */
async function shipOthers(store: CellStore): Promise<void> {
  const other = createLedger(store)
  await place.soon(store.backups.snapshot(other.id))
  for (let i = 0; i < 8; i++) {
    place.clock.advance(12 * HOUR_MS)
    addRow(other, 'busy')
    await place.soon(store.backups.flush())
    await place.soon(store.backups.incremental(other.id))
  }
}

describe('A deleted cell of which not all was stored', () => {
  test('is not restored to a time after its last shipped commit: the refusal names that one', async () => {
    const store = await place.create(SHIPPED)
    const { id, shippedAt, before } = await deleteUnshipped(store)
    const other = createLedger(store)
    await place.soon(store.backups.snapshot(other.id))
    addRow(other, 'busy')
    await place.soon(store.backups.flush())
    const refused = await rejectedBy(place.soon(store.backups.restore(id, { timestamp: before })))
    expect(refused).toMatchObject({ code: 'backup_not_found', details: { restorableTo: shippedAt } })
    await place.soon(store.backups.restore(id, { timestamp: shippedAt }))
    expect(notes(store.openCell(id))).toEqual(['shipped'])
    await place.close(store)
  })

  test('is not answered with its last version once the log objects after it have gone for their age', async () => {
    const store = await place.create(SHORT_HISTORY)
    const { id, shippedAt } = await deleteUnshipped(store)
    await shipOthers(store)
    const to = shippedAt
    const refused = await rejectedBy(place.soon(store.backups.restore(id, { timestamp: to })))
    const { restorableTo } = refused.details
    expect(restorableTo).toBeLessThan(shippedAt)
    expect(refused.code).toBe('backup_not_found')
    const copy = place.soon(store.createCell({ from: { cellId: id } }))
    expect(await rejectedBy(copy)).toMatchObject({ code: 'backup_not_found', details: { restorableTo } })
    await place.soon(store.backups.restore(id, { timestamp: restorableTo as number }))
    expect(notes(store.openCell(id))).toEqual([])
    await place.close(store)
  })
})

describe('A cell that is deleted with an unshipped commit', () => {
  /** The commits are a minute apart; the moment is a second after the last one. */
  async function source(gated: GatedStore) {
    const store = await place.create({
      objectStore: gated,
      backups: { maxLagMs: 10_000, restoreConcurrency: 1 },
    })
    const [cell, other] = [createLedger(store), createLedger(store)]
    for (const { id } of [cell, other]) await place.soon(store.backups.snapshot(id))
    place.clock.advance(60_000)
    addRow(cell, 'shipped')
    const shippedAt = place.clock.now()
    await place.soon(store.backups.flush())
    place.clock.advance(60_000)
    return { store, cell, other, shippedAt }
  }

  /** Commits what is not shipped before the cell is deleted. @returns a moment after the commit, which has passed */
  function commitLast(cell: Cell): number {
    addRow(cell, 'unshipped')
    const timestamp = place.clock.now() + 1_000
    place.clock.advance(2_000)
    return timestamp
  }

  // Invariant 14: the new cell would silently lack what was acknowledged.
  test('while a new cell waits for its turn to be made from it, is no source of an older state of that moment', async () => {
    const gated = new GatedStore(place.folder())
    const { store, cell, other, shippedAt } = await source(gated)
    gated.gates = (call, key) => call === 'get' && key.includes(other.id)
    const restoring = store.backups.restore(other.id)
    await gated.arrival()
    const timestamp = commitLast(cell)
    const making = rejectedBy(store.createCell({ from: { cellId: cell.id, timestamp } }))
    await expect.poll(() => store.backups.load.restore).toEqual({ waiting: 1, running: 1 })
    store.deleteCell(cell.id)
    gated.open()
    await place.soon(restoring)
    const refused = { code: 'backup_not_found', details: { restorableTo: shippedAt } }
    expect(await place.soon(making)).toMatchObject(refused)
    await place.soon(store.close())
  })

  test.each(['a new cell', 'a plan'])(
    'while %s waits for what it has not shipped, is not taken for one that has shipped everything',
    async (what) => {
      const gated = new GatedStore(place.folder())
      const { store, cell, other, shippedAt } = await source(gated)
      gated.gates = (call, key) => call === 'put' && key.startsWith('log/')
      addRow(other, 'in the object before')
      const before = store.backups.flush()
      await place.soon(gated.arrival())
      const timestamp = commitLast(cell)
      const asked =
        what === 'a plan'
          ? store.backups.plan(cell.id, { timestamp })
          : store.createCell({ from: { cellId: cell.id, timestamp } })
      const refusal = rejectedBy(asked)
      for (let i = 0; i < 50; i++) await setImmediate()
      store.deleteCell(cell.id)
      gated.open()
      await place.soon(before)
      const refused = { code: 'backup_not_found', details: { restorableTo: shippedAt } }
      expect(await place.soon(refusal)).toMatchObject(refused)
      await place.soon(store.close())
    },
  )
})

test('A cell that is deleted while its restore waits for its turn stays deleted', async () => {
  const gated = new GatedStore(place.folder())
  const store = await place.create({ objectStore: gated, backups: { restoreConcurrency: 1 } })
  const [cell, other] = [createLedger(store), createLedger(store)]
  for (const { id } of [cell, other]) await store.backups.snapshot(id)
  gated.gates = (call, key) => call === 'get' && key.includes(other.id)
  const restoring = store.backups.restore(other.id)
  await gated.arrival()
  const refused = rejectedBy(store.backups.restore(cell.id))
  await expect.poll(() => store.backups.load.restore).toEqual({ waiting: 1, running: 1 })
  store.deleteCell(cell.id)
  gated.open()
  await restoring
  expect(await refused).toMatchObject({ code: 'cell_not_found' })
  expect(store.findCell(cell.id)?.deletedAt).not.toBeNull()
  await store.close()
})

describe('A deletion through a service', () => {
  const serve = (store: CellStore) => new InProcessService(store, { restoreWaitMs: 1_000, bounds: BOUNDS })

  test('stores the last state before the files go, so that a restore brings it back', async () => {
    const store = await place.create(SHIPPED)
    const cell = createLedger(store)
    await place.soon(store.backups.snapshot(cell.id))
    addRow(cell, 'last')
    await place.soon(serve(store).deleteCell(cell.id))
    expect(store.findCell(cell.id)?.deletedAt).not.toBeNull()
    await place.soon(store.backups.restore(cell.id))
    expect(notes(store.openCell(cell.id))).toEqual(['last'])
    await place.close(store)
  })

  test('does not hang while the object store does not answer, and says what is lost', async () => {
    const gated = new GatedStore(place.folder())
    const warnings: string[] = []
    const log = {
      info: () => {},
      warn: (_: object, text: string) => void warnings.push(text),
      error: () => {},
    }
    const store = await place.create({ ...SHIPPED, objectStore: gated, log })
    const cell = createLedger(store)
    await place.soon(store.backups.snapshot(cell.id))
    place.clock.advance(1_000)
    addRow(cell, 'lost')
    gated.hold()
    const before = place.clock.now()
    await place.advanceUntil(serve(store).deleteCell(cell.id), 10_000)
    expect(place.clock.now() - before).toBeLessThan(60_000)
    expect(warnings).toContain('a cell is being deleted, and its newest changes could not be stored')
    gated.open()
    const refused = rejectedBy(place.soon(store.backups.restore(cell.id, { timestamp: before })))
    expect((await refused).code).toBe('backup_not_found')
    await place.close(store)
  })

  test('does not say that the last state is shipped where the cell has no history any more', async () => {
    const gated = new GatedStore(place.folder())
    const said: string[] = []
    const say = (_: object, text: string) => void said.push(text)
    const store = await place.create({
      ...SHIPPED,
      objectStore: gated,
      log: { info: say, warn: say, error: say },
    })
    const cell = createLedger(store)
    await place.soon(store.backups.snapshot(cell.id))
    addRow(cell, 'shipped')
    await place.soon(store.backups.flush())
    // What another program moves into the file is in no log.
    const other = new Database(place.paths.cell(cell.id).database)
    other.exec("INSERT INTO ledger (note) VALUES ('foreign')")
    other.pragma('wal_checkpoint(TRUNCATE)')
    other.close()
    addRow(cell, 'last')
    gated.gates = (call, key) => call === 'put' && key.includes(cell.id)
    await place.advanceUntil(serve(store).deleteCell(cell.id), 10_000)
    gated.open()
    const ofDeletion = said.filter((text) => text.includes('is being deleted'))
    expect(ofDeletion).toEqual(['a cell is being deleted, and its newest changes could not be stored'])
    await place.close(store)
  })

  test('that has shipped the last state and could not store a version of it loses nothing of it: a restore of the newest state brings it back', async () => {
    const gated = new GatedStore(place.folder())
    const store = await place.create({ ...SHIPPED, objectStore: gated })
    const cell = createLedger(store)
    await place.soon(store.backups.snapshot(cell.id))
    place.clock.advance(1_000)
    addRow(cell, 'shipped')
    const shippedAt = place.clock.now()
    await place.soon(store.backups.flush())
    gated.gates = (call, key) => call === 'put' && key.includes(cell.id)
    await place.advanceUntil(serve(store).deleteCell(cell.id), 10_000)
    gated.open()
    expect(await place.soon(store.backups.restore(cell.id))).toMatchObject({ timestamp: shippedAt })
    expect(notes(store.openCell(cell.id))).toEqual(['shipped'])
    await place.close(store)
  })

  test('is undone by a restore of the newest state also when the log objects have gone for their age', async () => {
    const store = await place.create(SHORT_HISTORY)
    const cell = createLedger(store)
    await place.soon(store.backups.snapshot(cell.id))
    place.clock.advance(1_000)
    addRow(cell, 'last')
    await place.soon(serve(store).deleteCell(cell.id))
    await shipOthers(store)
    await place.soon(store.backups.restore(cell.id))
    expect(notes(store.openCell(cell.id))).toEqual(['last'])
    await place.close(store)
  })

  test('asks the object store nothing for a cell that is stored', async () => {
    const store = await place.create(SHIPPED)
    const cell = createLedger(store)
    await place.soon(store.backups.snapshot(cell.id))
    const last = await store.backups.latest(cell.id)
    await place.soon(serve(store).deleteCell(cell.id))
    const { backups } = await store.backups.list(cell.id)
    expect(backups.map(({ version }) => version)).toEqual([last?.version])
    await place.close(store)
  })
})
