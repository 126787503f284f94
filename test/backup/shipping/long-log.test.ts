import { expect, test } from 'vitest'
import { systemClock } from '../../../src/base/clock.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'

test.each([1, 8])(
  'after a transaction of 20 MB and a first base, %i MB of commits are shipped, and come back (invariant 10)',
  async (count) => {
    const place = new ScratchPlace()
    const store = await place.create({ backups: { maxLagMs: 10_000 }, clock: systemClock })
    const cell = createLedger(store)
    cell.sql('CREATE TABLE big (b)')
    cell.sql('INSERT INTO big VALUES (randomblob(20000000))')
    await store.backups.snapshot(cell.id)
    await store.backups.flush()
    for (let i = 0; i < count; i++) addRow(cell, `row ${i}`, 1_000_000)
    await store.backups.flush()
    const expected = notes(cell)
    await store.backups.restore(cell.id, { timestamp: store.backedUpTo(cell.id) as number })
    const restored = store.openCell(cell.id)
    expect(notes(restored)).toEqual(expected)
    expect(restored.sql('PRAGMA integrity_check').rows).toEqual([{ integrity_check: 'ok' }])
  },
)
