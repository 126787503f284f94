import fs from 'node:fs'
import { beforeEach, expect, test } from 'vitest'
import { walBytes } from '../../../src/engine/wal/wal-file.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { turnsUntil } from '../../support/turns.ts'

/** Flushes alone ship. What does not fit into the cache is in the log before its COMMIT. */
const OPTIONS = {
  checkpointBytes: 40_000,
  pageCacheBytes: 40_960,
  backups: { maxLagMs: 3_600_000 },
}

const place = ScratchPlace.perTest()
let store: CellStore
beforeEach(async () => {
  store = await place.create(OPTIONS)
  return () => place.soon(store.close())
})

const flush = () => place.soon(store.backups.flush())

/** What a restore to this moment gives. */
async function restored(cell: Cell): Promise<string[]> {
  place.clock.advance(1_000)
  const from = { cellId: cell.id, timestamp: place.clock.now() - 1 }
  await flush()
  return notes(await place.soon(store.createCell({ from })))
}

function commit(cell: Cell, note: string, bytes?: number): void {
  place.clock.advance(1_000)
  addRow(cell, note, bytes)
}

/** It is another one if a change may be in no log. */
function historyOf(cell: Cell): string {
  return store.core.destination?.progress.find(cell.id).history?.id as string
}

/** Where the log begins. */
function headOf(cell: Cell): string {
  return fs.readFileSync(place.paths.cell(cell.id).wal).subarray(0, 32).toString('hex')
}

test.each([
  ['with commits that are in it alone', 100],
  ['of which all is in the database, so that the hold begins it again', 60_000],
])(
  'beside a hold that writes into the log, what was committed before is shipped, and nothing of the hold: a log %s',
  async (_what, bytes) => {
    const cell = createLedger(store)
    await place.soon(store.backups.snapshot(cell.id))
    const history = historyOf(cell)
    commit(cell, 'before', bytes)
    const head = headOf(cell)
    for (const isCommitted of [false, true]) {
      const { tx, hold } = cell.beginHold({ timeoutMs: 600_000 })
      const size = fs.statSync(place.paths.cell(cell.id).wal).size
      for (let i = 0; i < 10; i++) addRow(tx, 'held', 20_000)
      expect(fs.statSync(place.paths.cell(cell.id).wal).size).toBeGreaterThan(
        Math.max(size, walBytes(20, 4_096)),
      )
      if (!isCommitted) expect(headOf(cell) === head).toBe(bytes === 100)
      expect(await restored(cell)).toEqual(['before'])
      if (isCommitted) hold.commit()
      else hold.rollback()
      expect(await restored(cell)).toEqual(isCommitted ? ['before', ...Array(10).fill('held')] : ['before'])
    }
    commit(cell, 'after')
    expect((await restored(cell)).at(-1)).toBe('after')
    expect(historyOf(cell)).toBe(history)
  },
)

test('a version is cut at the end of a hold, and a chain goes on across it', async () => {
  const cell = createLedger(store)
  await place.soon(store.backups.snapshot(cell.id))
  for (const isCommitted of [true, false]) {
    const { tx, hold } = cell.beginHold({ timeoutMs: 600_000 })
    for (let i = 0; i < 5; i++) addRow(tx, `held ${isCommitted}`, 20_000)
    let isOver = false
    const made = store.backups.incremental(cell.id).finally(() => {
      isOver = true
    })
    for (let turn = 0; turn < 100; turn++) await turnsUntil(() => true, 'a turn')
    expect(isOver).toBe(false)
    addRow(tx, `held ${isCommitted}`, 20_000)
    if (isCommitted) hold.commit()
    else hold.rollback()
    const { version } = await place.soon(made)
    await place.soon(store.backups.verify(cell.id, { version }))
    expect(notes(await place.soon(store.createCell({ from: { cellId: cell.id, version } })))).toEqual(
      Array(6).fill('held true'),
    )
  }
})

test('the close of a store ends a hold that a backup waits for', async () => {
  const cell = createLedger(store)
  const { hold } = cell.beginHold({ timeoutMs: 600_000 })
  const backup = store.backups.snapshot(cell.id).catch((error: unknown) => error)
  for (let turn = 0; turn < 100; turn++) await turnsUntil(() => true, 'a turn')
  await place.soon(store.close())
  await backup
  expect(hold.ended).toMatchObject({ code: 'transaction_lost' })
})
