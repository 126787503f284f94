import { beforeEach, describe, expect, test } from 'vitest'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { collectAll } from '../../support/s3/object-store-checks.ts'
import { rejectedBy } from '../../support/thrown.ts'

const place = ScratchPlace.perTest()
let store: CellStore
let accountId: string
/** Of the account: with a row of it, each flush has something to ship. */
let writer: Cell

beforeEach(async () => {
  // Flushes alone ship: the longest lag is over after all tests.
  store = await place.create({ backups: { maxLagMs: 3_600_000 } })
  accountId = store.accounts.create().id
  writer = createLedger(store, { accountId })
  await soon(store.backups.snapshot(writer.id))
})

/** Lets the time pass that turns and flushes wait, but no lag. */
function soon<T>(work: Promise<T>): Promise<T> {
  return place.advanceUntil(work, 60_000)
}

/** Lets the time pass that flushes wait, but no turn: while files are read, no more than that is over. */
function atOnce<T>(work: Promise<T>): Promise<T> {
  return place.advanceUntil(work, 200)
}

/** Does it so often, one after the other, while the account writes. @returns how long it took, and the log objects of it */
async function inARow(times: number, work: (i: number) => Promise<unknown>, wait = soon) {
  await soon(store.backups.flush())
  const [began, before] = [place.clock.monotonic(), await countLogs()]
  for (let i = 0; i < times; i++) {
    addRow(writer, `before ${i}`)
    await wait(work(i))
  }
  return { ms: place.clock.monotonic() - began, objects: (await countLogs()) - before }
}

async function countLogs(): Promise<number> {
  return (await collectAll(place.folder().list('log/'))).length
}

async function ledgers(count: number): Promise<Cell[]> {
  const cells = Array.from({ length: count }, () => createLedger(store, { accountId }))
  for (const cell of cells) await soon(store.backups.snapshot(cell.id))
  return cells
}

describe('What an account asks for and what ships', () => {
  test('comes ten times at once and then every five seconds; the owner of the store waits for none of it', async () => {
    const [cell] = (await ledgers(1)) as [Cell]
    const asked = [
      () => store.backups.restore(cell.id, { accountId }),
      () => store.createCell({ from: { cellId: cell.id }, accountId }),
      () => store.backups.plan(cell.id, { timestamp: place.clock.now(), accountId }),
    ]
    const ask = (i: number) => (asked[i % asked.length] as () => Promise<unknown>)()
    expect((await inARow(10, ask, atOnce)).ms).toBeLessThan(5_000)
    const paced = await inARow(10, ask)
    expect(paced.ms).toBeGreaterThan(45_000)
    expect(paced.objects).toBeLessThanOrEqual(20)
    const owners = () => store.backups.restore(cell.id)
    expect((await inARow(10, owners, atOnce)).ms).toBeLessThan(1_000)
    const { version = '' } = (await store.backups.latest(cell.id)) ?? {}
    const branch = () => store.createCell({ from: { cellId: cell.id, version }, accountId })
    expect((await inARow(3, branch, atOnce)).ms).toBeLessThan(1_000)
    await soon(store.close())
  })

  test('shares log objects: restores at once make ten a second at most', async () => {
    const cells = await ledgers(4)
    const [began, before] = [place.clock.monotonic(), await countLogs()]
    const restores = cells.map(async (cell) => {
      for (let i = 0; i < 2; i++) {
        addRow(writer, 'meanwhile')
        await store.backups.restore(cell.id, { accountId })
      }
    })
    await atOnce(Promise.all(restores))
    const ms = place.clock.monotonic() - began
    expect((await countLogs()) - before).toBeLessThanOrEqual(2 + ms / 100)
    await soon(store.close())
  })

  test('waits before it ships: an undo of a restore brings back what was committed during the wait', async () => {
    const [cell, other] = (await ledgers(2)) as [Cell, Cell]
    await inARow(10, () => store.backups.restore(other.id, { accountId }))
    addRow(cell, 'before the restore')
    const restore = store.backups.restore(cell.id, { accountId })
    place.clock.advance(4_000)
    addRow(cell, 'during its wait')
    const { replacedAt } = await soon(restore)
    expect(notes(cell)).toEqual([])
    await soon(store.backups.restore(cell.id, { timestamp: replacedAt ?? 0 }))
    expect(notes(cell)).toEqual(['before the restore', 'during its wait'])
    await soon(store.close())
  })

  test('ends its wait with its signal, and has changed nothing', async () => {
    const [cell] = (await ledgers(1)) as [Cell]
    await inARow(10, () => store.backups.restore(cell.id, { accountId }))
    addRow(cell, 'stays')
    const abort = new AbortController()
    const restore = store.backups.restore(cell.id, { accountId, signal: abort.signal })
    abort.abort()
    await expect(restore).rejects.toBe(abort.signal.reason)
    expect(notes(cell)).toEqual(['stays'])
    await soon(store.close())
  })

  test('does not bring back a cell that is deleted in its wait', async () => {
    const [cell] = (await ledgers(1)) as [Cell]
    await inARow(10, () => store.backups.restore(cell.id, { accountId }))
    const restore = rejectedBy(store.backups.restore(cell.id, { accountId }))
    store.deleteCell(cell.id)
    expect(await soon(restore)).toMatchObject({ code: 'cell_not_found' })
    expect(store.findCell(cell.id)?.deletedAt).not.toBeNull()
    await soon(store.close())
  })

  test('ends its wait with the store', async () => {
    const [cell] = (await ledgers(1)) as [Cell]
    await inARow(10, () => store.backups.restore(cell.id, { accountId }))
    const asked = [
      store.backups.restore(cell.id, { accountId }),
      store.createCell({ from: { cellId: cell.id }, accountId }),
    ]
    const refused = Promise.all(asked.map((each) => rejectedBy(each)))
    await atOnce(store.close())
    expect((await refused).map(({ code }) => code)).toEqual(['store_closed', 'store_closed'])
  })

  test('is never waited for by a deletion, which has a version; the first ten ship, too', async () => {
    const cells = await ledgers(20)
    const { ms, objects } = await inARow(
      20,
      async (i) => {
        const cell = cells[i] as Cell
        addRow(cell, 'the last one')
        await store.beforeDeletion(cell.id)
        store.deleteCell(cell.id)
      },
      atOnce,
    )
    expect(ms).toBeLessThan(5_000)
    expect(objects).toBeGreaterThan(0)
    // A flush takes a second object for a WAL that its backup has reset meanwhile.
    expect(objects).toBeLessThan(15)
    for (const { id } of cells) {
      await soon(store.backups.restore(id))
      expect(notes(store.openCell(id))).toEqual(['the last one'])
    }
    await soon(store.close())
  })
})
