import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { restorableRanges } from '../../../src/backup/restore/target/restorable-ranges.ts'
import type { RestorableRange } from '../../../src/backup/versions/backup-types.ts'
import { listingOf } from '../../../src/backup/versions/version-index.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { ForeignProgram } from '../../support/backup/foreign-program.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { rejectedBy } from '../../support/thrown.ts'

const place = ScratchPlace.perTest()

const MINUTE_MS = 60_000

/** Flushes alone ship: the longest lag is over after all tests. */
const shipped = { backups: { maxLagMs: 3_600_000 } }

function minute(): number {
  place.clock.advance(MINUTE_MS)
  return place.clock.now()
}

/** A cell with a version. */
async function newCell(store: CellStore): Promise<Cell> {
  const cell = createLedger(store)
  await place.soon(store.backups.snapshot(cell.id))
  minute()
  return cell
}

function commit(cell: Cell, note: string): number {
  minute()
  addRow(cell, note)
  return place.clock.now()
}

async function rangesOf(store: CellStore, { id }: Cell): Promise<RestorableRange[]> {
  return (await store.backups.list(id)).restorable
}

function restore(store: CellStore, { id }: Cell, timestamp: number) {
  return place.soon(store.backups.restore(id, { timestamp }))
}

/** What is in the log and the file of the cell is moved by another program: nobody knows what it changed. */
async function endHistory(cell: Cell): Promise<void> {
  addRow(cell, 'moved by another program')
  const program = await ForeignProgram.open(place.paths.cell(cell.id).database)
  await program.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  await program.close()
}

async function loseAll(store: CellStore): Promise<CellStore> {
  await place.soon(store.core.catalogStored())
  await place.soon(store.close())
  place.loseData()
  return await place.open(shipped)
}

describe('What is said to be restorable, is, and nothing else:', () => {
  test('between two versions, if the log holds all that the second one does, although no later object shows it', async () => {
    const store = await place.create(shipped)
    const cell = await newCell(store)
    const time = commit(cell, 'shipped')
    await place.soon(store.backups.flush())
    const between = minute()
    minute()
    await place.soon(store.backups.incremental(cell.id))
    const again = await loseAll(store)
    const [range] = await rangesOf(again, cell)
    expect(range?.to).toBeGreaterThan(between + MINUTE_MS / 2)
    for (const moment of [time, between, (range?.to as number) - 1]) {
      expect(await restore(again, cell, moment)).toMatchObject({ timestamp: time })
      expect(notes(again.openCell(cell.id))).toEqual(['shipped'])
    }
    await place.soon(again.close())
  })

  test('between two versions of a cell that has not changed, whatever the log has', async () => {
    const store = await place.create(shipped)
    const cell = await newCell(store)
    const between = minute()
    await place.soon(store.backups.snapshot(cell.id))
    const to = place.clock.now()
    // With it the moments between the creation and the first version are stored, too.
    await place.soon(store.backups.flush())
    expect(await rangesOf(store, cell)).toMatchObject([
      { to: expect.toSatisfy((time) => time >= to - 2_000) },
    ])
    const again = await loseAll(store)
    await restore(again, cell, between)
    expect(notes(again.openCell(cell.id))).toEqual([])
    await place.soon(again.close())
  })

  test('also of a cell that is idle while others commit, although few log objects are read', async () => {
    const store = await place.create(shipped)
    const [cell, other] = [await newCell(store), await newCell(store)]
    for (let i = 0; i < 60; i++) {
      if (i === 20) addRow(cell, 'shipped')
      commit(other, `row ${i}`)
      await place.soon(store.backups.flush())
      if (i === 25) await place.soon(store.backups.incremental(cell.id))
    }
    const { index, logs } = store.core.destination as NonNullable<typeof store.core.destination>
    const listed = await index.versions(cell.id)
    const versions = await Promise.all(
      listed.map(({ version }) => index.manifest(version, cell.id, listingOf(listed))),
    )
    const page = { cellId: cell.id, versions, newer: undefined, marks: [] }
    const ranges = (objectsMax?: number) => restorableRanges(logs, page, { objectsMax })
    expect(await ranges()).toEqual([{ from: versions.at(-1)?.log?.at, to: versions[0]?.log?.at }])
    expect(await ranges(66)).toEqual(await ranges())
    await place.soon(store.close())
  })

  test('not between two versions, if the history ended before all was shipped that the second one holds', async () => {
    const store = await place.create(shipped)
    const [cell, other] = [await newCell(store), await newCell(store)]
    const time = commit(cell, 'only in a version')
    const between = minute()
    minute()
    await place.soon(store.backups.incremental(cell.id))
    minute()
    await endHistory(cell)
    minute()
    // This object has all of the cells that have a history.
    addRow(other, 'shipped')
    await place.soon(store.backups.flush())
    const ranges = await rangesOf(store, cell)
    for (const moment of [time, between])
      expect(ranges.filter(({ from, to }) => from <= moment && moment <= to)).toEqual([])
    const refused = await rejectedBy(restore(store, cell, between))
    expect(refused.code).toBe('backup_not_found')
    expect(refused.details.restorableTo).toBeLessThan(time)
    await place.soon(store.close())
  })

  test('not after a base was cut, by what was shipped of others while it was uploaded', async () => {
    const store = await place.create(shipped)
    const other = await newCell(store)
    const cell = createLedger(store)
    const upload = store.backups.snapshot(cell.id)
    const { trackers } = store.core.destination as NonNullable<typeof store.core.destination>
    while (trackers.use(cell.id, ({ progress }) => progress.history) === null) await turnOfTheLoop()
    const committed = commit(cell, 'during the upload')
    minute()
    addRow(other, 'shipped')
    await Promise.all([place.soon(store.backups.flush()), upload])
    minute()
    await place.soon(store.backups.incremental(cell.id))
    await endHistory(cell)
    const refused = await restore(store, cell, committed + 1).then(
      () => undefined,
      (error) => error,
    )
    if (refused === undefined) expect(notes(cell)).toEqual(['during the upload'])
    else expect(refused).toMatchObject({ code: 'backup_not_found' })
    await place.soon(store.close())
  })
})

test('What is committed in the millisecond of a version is not in it, and comes after its time', async () => {
  const store = await place.create(shipped)
  const cell = await newCell(store)
  const { trackers } = store.core.destination as NonNullable<typeof store.core.destination>
  const historyOf = () => trackers.use(cell.id, ({ progress }) => progress.history)
  commit(cell, 'in the version')
  const backup = store.backups.incremental(cell.id)
  const before = historyOf()?.at as number
  while (historyOf()?.at === before) await turnOfTheLoop()
  const cut = historyOf()?.at as number
  addRow(cell, 'after the cut')
  expect(place.clock.now()).toBe(cut)
  await place.soon(backup)
  await place.soon(store.backups.flush())
  await restore(store, cell, cut)
  expect(notes(cell)).toEqual(['in the version'])
  await restore(store, cell, cut + 1)
  expect(notes(cell)).toEqual(['in the version', 'after the cut'])
  await place.soon(store.close())
})

describe('A moment at which the cell had committed what is stored nowhere', () => {
  test('is refused for a restore, for its plan and for a new cell, and the moment before is offered', async () => {
    const store = await place.create(shipped)
    const cell = await newCell(store)
    const known = commit(cell, 'shipped')
    await place.soon(store.backups.flush())
    minute()
    await endHistory(cell)
    const timestamp = minute()
    const asked: (() => Promise<unknown>)[] = [
      () => store.backups.plan(cell.id, { timestamp }),
      () => store.createCell({ from: { cellId: cell.id, timestamp } }),
      () => store.backups.restore(cell.id, { timestamp }),
    ]
    for (const ask of asked) {
      const refused = await rejectedBy(place.soon(ask()))
      expect(refused).toMatchObject({ code: 'backup_not_found', details: { restorableTo: known } })
    }
    const branch = await place.soon(store.createCell({ from: { cellId: cell.id, timestamp: known } }))
    expect(notes(branch)).toEqual(['shipped'])
    expect(notes(cell)).toEqual(['shipped', 'moved by another program'])
    await place.soon(store.close())
  })

  test('is refused where nothing is shipped any more', async () => {
    const first = await place.create(shipped)
    const { id } = await newCell(first)
    const known = commit(first.openCell(id), 'shipped')
    await place.soon(first.close())
    const store = await place.open()
    // As long as nothing else is committed, everything is stored.
    expect(await place.soon(store.backups.plan(id, { timestamp: minute() }))).toMatchObject({
      timestamp: known,
    })
    const cell = store.openCell(id)
    commit(cell, 'not shipped')
    const refused = await rejectedBy(restore(store, cell, minute()))
    expect(refused).toMatchObject({ code: 'backup_not_found', details: { restorableTo: known } })
    await restore(store, cell, known)
    expect(notes(cell)).toEqual(['shipped'])
    await place.soon(store.close())
  })
})

test('Plans of an account ship once every five seconds, after the first ten', async () => {
  const store = await place.create(shipped)
  const { id: accountId } = store.accounts.create()
  const { id } = createLedger(store, { accountId })
  await place.soon(store.backups.snapshot(id))
  const begun = minute()
  for (let i = 0; i < 14; i++) {
    addRow(store.openCell(id), `row ${i}`)
    const plan = store.backups.plan(id, { timestamp: place.clock.now(), accountId })
    await place.advanceUntil(plan, 5_000)
  }
  expect(place.clock.now() - begun).toBeGreaterThan(4 * 4_000)
  await place.soon(store.close())
})

test('A plan ships what is pending, and says the same as the restore that follows', async () => {
  const store = await place.create(shipped)
  const cell = await newCell(store)
  const time = commit(cell, 'pending')
  const timestamp = minute()
  const plan = await place.soon(store.backups.plan(cell.id, { timestamp }))
  expect(plan).toMatchObject({ timestamp: time, objects: [{}, { key: expect.stringMatching(/^log\//) }] })
  const { version, timestamp: restored } = await restore(store, cell, timestamp)
  expect({ version, timestamp: restored }).toEqual({ version: plan.version, timestamp: plan.timestamp })
  await place.soon(store.close())
})

describe('A new cell from another one, without a version or time,', () => {
  test('is as the other one is now, also after that was restored to an earlier state', async () => {
    const store = await place.create(shipped)
    const cell = await newCell(store)
    const first = commit(cell, 'first')
    addRow(cell, 'pending')
    const from = { cellId: cell.id }
    expect(notes(await place.soon(store.createCell({ from })))).toEqual(['first', 'pending'])
    await place.soon(store.backups.incremental(cell.id))
    await restore(store, cell, first - 1)
    expect(notes(await place.soon(store.createCell({ from })))).toEqual([])
    await place.soon(store.close())
  })

  test('lacks what is stored nowhere', async () => {
    const store = await place.create()
    const cell = await newCell(store)
    addRow(cell, 'in no version')
    expect(notes(await place.soon(store.createCell({ from: { cellId: cell.id } })))).toEqual([])
    await place.soon(store.close())
  })
})
