import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import { beforeEach, describe, expect, test } from 'vitest'
import type { Cell } from '../../../src/store/cell.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { storedLogs } from '../../support/backup/stored-logs.ts'
import { codeOf } from '../../support/thrown.ts'

let place: ScratchPlace
beforeEach(() => {
  place = new ScratchPlace()
})

const shipped = { backups: { maxLagMs: 10_000 } }

/** A cell with a history, and a version that holds what it has so far. */
async function newShippedCell(store: CellStore): Promise<Cell> {
  const cell = createLedger(store)
  for (let i = 0; i < 100; i++) addRow(cell, `row ${i}`, 1_000)
  await store.backups.snapshot(cell.id)
  return cell
}

/** Pages of a closed cell go bad, and the file's times don't show it. */
function rot(file: string): void {
  const times = `${place.root}/times`
  fs.writeFileSync(times, '')
  execFileSync('touch', ['-r', file, times])
  const handle = fs.openSync(file, 'r+')
  const { size } = fs.fstatSync(handle)
  for (let at = 10 * 4_096; at < size; at += 4_096)
    fs.writeSync(handle, Buffer.alloc(4_096, 0xa5), 0, 4_096, at)
  fs.closeSync(handle)
  execFileSync('touch', ['-r', times, file])
}

async function shippedCells(): Promise<string[]> {
  const logs = await storedLogs(place.folder())
  return logs.flatMap(({ manifest }) => manifest.cells.map(({ cell_id }) => cell_id))
}

describe('On a clock that stands still', () => {
  test('a close ends, with what was committed in this very millisecond', async () => {
    const store = await place.create(shipped)
    const cell = await newShippedCell(store)
    addRow(cell, 'flushed')
    await place.advanceUntil(store.backups.flush())
    expect(await shippedCells()).toEqual([cell.id])
    addRow(cell, 'at the close')
    await store.close()
    expect(await shippedCells()).toEqual([cell.id, cell.id])
  })
})

describe('A quarantined cell with something unshipped', () => {
  test('holds up no flush and no close, and can be restored', async () => {
    const first = await place.create(shipped)
    const [damaged, sound] = [await newShippedCell(first), await newShippedCell(first)]
    await first.close()
    rot(place.paths.cell(damaged.id).database)
    const store = await place.open(shipped)
    const cell = store.openCell(damaged.id)
    cell.kv.put('k', 'not shipped')
    expect(codeOf(() => notes(cell))).toBe('cell_quarantined')
    addRow(store.openCell(sound.id), 'shipped')
    await place.advanceUntil(store.backups.flush())
    expect(await shippedCells()).toContain(sound.id)
    await place.advanceUntil(store.backups.restore(damaged.id))
    expect(notes(cell)).toHaveLength(100)
    await store.close()
  })

  test('is found at a start: its history ends, and the others are shipped completely', async () => {
    const first = await place.create(shipped)
    const [damaged, sound] = [await newShippedCell(first), await newShippedCell(first)]
    await first.close()
    const { database, wal, quarantine } = place.paths.cell(damaged.id)
    rot(database)
    fs.writeFileSync(wal, Buffer.alloc(8_192, 0xa5))
    fs.writeFileSync(quarantine, JSON.stringify({ reason: 'damaged', since: 0 }))
    const store = await place.open(shipped)
    addRow(store.openCell(sound.id), 'shipped')
    await place.advanceUntil(store.backups.flush())
    const logs = await storedLogs(place.folder())
    expect(logs.at(-1)?.manifest).toMatchObject({ complete: true, cells: [{ cell_id: sound.id }] })
    expect(store.core.destination?.progress.find(damaged.id).history).toBeNull()
    expect(store.core.destination?.progress.find(sound.id).history).not.toBeNull()
    await place.advanceUntil(store.backups.restore(damaged.id))
    await store.close()
  })
})
