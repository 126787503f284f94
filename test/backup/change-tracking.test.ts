import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Cell } from '../../src/cell.ts'
import type { CellStore } from '../../src/store.ts'
import { ForeignProgram } from './fixtures/foreign-program.ts'
import { GatedStore } from './fixtures/object-store-decorators.ts'
import { addRow, createLedger, filesBelow, notes, ScratchPlace } from './fixtures/scratch-store.ts'

let place: ScratchPlace
beforeEach(() => {
  place = new ScratchPlace()
})
afterEach(async () => {
  vi.restoreAllMocks()
  await place.dispose()
})

/** Makes the engine checkpoint after every write, as a busy cell does after every few megabytes. */
const EAGER = { checkpointBytes: 1 }

async function restoredNotes(store: CellStore, cell: Cell, version?: string): Promise<string[]> {
  await store.backups.restore(cell.id, { version })
  return notes(cell)
}

describe('An incremental beside other programs (invariants 7 and 10)', () => {
  it('begins a new base when another program moved our log into the file between two checkpoints of ours', async () => {
    const store = await place.create({ checkpointBytes: 65_536 })
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    const file = place.paths.cell(cell.id).database
    const other = await ForeignProgram.open(file)
    addRow(cell, 'only in the file')
    await other.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    // Ours again: what it notes of the file must not cover up what the other one did.
    addRow(cell, 'in the log', 100_000)
    await other.close()
    const { version, baseVersion } = await store.backups.incremental(cell.id)
    expect(baseVersion).toBeNull()
    expect(await restoredNotes(store, cell, version)).toEqual(['only in the file', 'in the log'])
  })

  it('holds what another program wrote into our log', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    const { version: base } = await store.backups.snapshot(cell.id)
    const other = await ForeignProgram.open(place.paths.cell(cell.id).database)
    addRow(cell, 'ours')
    await other.exec("INSERT INTO ledger (note) VALUES ('theirs')")
    addRow(cell, 'ours again')
    const { version, baseVersion } = await store.backups.incremental(cell.id)
    await other.close()
    expect(baseVersion).toBe(base)
    expect(await restoredNotes(store, cell, version)).toEqual(['ours', 'theirs', 'ours again'])
  })

  it('begins a new base when another program wrote the cell while it was closed', async () => {
    const store = await place.create({ openCellsMax: 1 })
    const cell = createLedger(store)
    addRow(cell, 'ours')
    await store.backups.snapshot(cell.id)
    createLedger(store)
    const other = await ForeignProgram.open(place.paths.cell(cell.id).database)
    await other.exec("INSERT INTO ledger (note) VALUES ('theirs')")
    await other.close()
    const { version, baseVersion } = await store.backups.incremental(cell.id)
    expect(baseVersion).toBeNull()
    expect(await restoredNotes(store, cell, version)).toEqual(['ours', 'theirs'])
  })

  it('loses nothing when the log grows past the part that is being uploaded', async () => {
    const gated = new GatedStore(place.folder())
    const store = await place.create({ ...EAGER, objectStore: gated })
    const cell = createLedger(store)
    cell.sql('CREATE TABLE elsewhere (note)')
    const { version: base } = await store.backups.snapshot(cell.id)
    const reader = await ForeignProgram.open(place.paths.cell(cell.id).database)
    addRow(cell, 'one')
    // From here on the log can be moved into the file, but not begun anew.
    await reader.exec('BEGIN; SELECT count(*) FROM ledger')
    gated.gates = (call, key) => call === 'put' && key.includes(cell.id)
    const first = store.backups.incremental(cell.id)
    await gated.arrival()
    cell.sql("INSERT INTO elsewhere VALUES ('two, while one is on its way')")
    await reader.close()
    // Moves all of the log into the file; the next write begins it anew, and then 'two' is in no log.
    cell.transaction(() => {})
    gated.open()
    expect((await first).baseVersion).toBe(base)
    addRow(cell, 'three')
    addRow(cell, 'four')
    const second = await store.backups.incremental(cell.id)
    expect(await restoredNotes(store, cell, second.version)).toEqual(['one', 'three', 'four'])
    expect(cell.sql('SELECT * FROM elsewhere').rows).toHaveLength(1)
    expect(await restoredNotes(store, cell, (await first).version)).toEqual(['one'])
    expect(cell.sql('SELECT * FROM elsewhere').rows).toHaveLength(0)
  })

  it('refuses with busy, not with a torn copy, when another program moved a log into the file that is read', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    for (let i = 0; i < 20; i++) addRow(cell, `row ${i}`, 200_000)
    const other = await ForeignProgram.open(place.paths.cell(cell.id).database)
    let interfered: Promise<void> | undefined
    const snapshot = store.backups.snapshot(cell.id, {
      onProgress: ({ phase }) => {
        if (phase !== 'read' || interfered !== undefined) return
        addRow(cell, 'meanwhile', 500_000)
        // Held until it is done: the read must not end before.
        execFileSync(process.execPath, [
          '-e',
          `new (require('better-sqlite3'))(${JSON.stringify(place.paths.cell(cell.id).database)}).pragma('wal_checkpoint(PASSIVE)')`,
        ])
        interfered = Promise.resolve()
      },
    })
    await expect(snapshot).rejects.toMatchObject({ code: 'busy' })
    await other.close()
    const { version } = await store.backups.snapshot(cell.id)
    expect(await restoredNotes(store, cell, version)).toHaveLength(21)
  })
})

describe('The logs that are kept', () => {
  it('stay within the size of the database while no backup takes them', async () => {
    const store = await place.create(EAGER)
    const cell = createLedger(store)
    await store.backups.snapshot(cell.id)
    const { segments } = place.paths.cell(cell.id)
    // The same page again and again: the database stays small, the logs do not.
    for (let i = 0; i < 200; i++) {
      addRow(cell, `${i}`)
    }
    const bytes = filesBelow(segments).reduce((sum, file) => sum + fs.statSync(`${segments}/${file}`).size, 0)
    expect(bytes).toBeLessThanOrEqual(1_048_576 + 64 * 1024)
    const { version, baseVersion } = await store.backups.incremental(cell.id)
    expect(baseVersion).toBeNull()
    expect(await restoredNotes(store, cell, version)).toHaveLength(200)
  })
})
