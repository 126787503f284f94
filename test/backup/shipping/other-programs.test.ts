import fs from 'node:fs'
import Database from 'better-sqlite3'
import { beforeEach, describe, expect, test } from 'vitest'
import type { CellStore } from '../../../src/store/cell-store.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { DiskImage } from '../../support/disk-image.ts'

const MINUTE_MS = 60_000
const options = { backups: { maxLagMs: 3_600_000 } } as const
const BY_HAND = "INSERT INTO ledger (note) VALUES ('by hand')"

const place = ScratchPlace.perTest()
let store: CellStore
let id: string
beforeEach(async () => {
  store = await place.create(options)
  id = createLedger(store).id
  await soon(store.backups.snapshot(id))
  place.clock.advance(MINUTE_MS)
})

const soon = <T>(work: Promise<T>): Promise<T> => place.advanceUntil(work, 1_000)

/** Stops the store, or kills it; another program uses the cell's file, and closes it; the next store starts. */
async function useMeanwhile(end: string, sql: string): Promise<void> {
  const image = new DiskImage(place.root)
  await soon(store.close())
  if (end === 'killed') {
    image.putBack()
    place.directory.mayHaveLogs = true
  }
  const { database, wal } = place.paths.cell(id)
  const program = new Database(database)
  program.exec(sql)
  program.close()
  expect(fs.existsSync(wal)).toBe(false)
  place.clock.advance(MINUTE_MS)
  store = await place.open(options)
}

describe('A cell whose file another program has used while no node ran', () => {
  test.each([
    ['killed', 'SELECT count(*) FROM ledger', ['first', 'second']],
    ['stopped', BY_HAND, ['first', 'second', 'by hand']],
    ['stopped with all in a version', BY_HAND, ['first', 'second', 'by hand']],
  ] as const)(
    'is not backed up to now until a version holds its commits: no restore loses them (it was %s)',
    async (end, sql, expected) => {
      const cell = store.openCell(id)
      addRow(cell, 'first')
      await soon(store.backups.flush())
      place.clock.advance(MINUTE_MS)
      addRow(cell, 'second')
      if (end === 'stopped with all in a version') await soon(store.backups.incremental(id))
      const committed = place.clock.now()
      await useMeanwhile(end, sql)
      expect(await soon(store.backups.flush())).toEqual({ withoutHistory: [id], unreadable: [] })
      expect(store.backedUpTo(id)).toBeLessThan(committed + MINUTE_MS)
      const refused = soon(store.backups.restore(id, { timestamp: place.clock.now() }))
      await expect(refused).rejects.toMatchObject({ code: 'backup_not_found' })
      await soon(store.backups.incremental(id))
      place.clock.advance(MINUTE_MS)
      expect(await soon(store.backups.flush())).toEqual({ withoutHistory: [], unreadable: [] })
      await soon(store.backups.restore(id, { timestamp: place.clock.now() }))
      expect(notes(store.openCell(id))).toEqual(expected)
    },
  )

  test('and that has only read it, goes on in its history', async () => {
    addRow(store.openCell(id), 'first')
    await useMeanwhile('stopped', 'SELECT count(*) FROM ledger')
    const before = store.core.destination?.progress.find(id).history?.id
    expect(await soon(store.backups.flush())).toEqual({ withoutHistory: [], unreadable: [] })
    expect(notes(store.openCell(id))).toEqual(['first'])
    expect(store.core.destination?.progress.find(id).history?.id).toBe(before)
  })
})
