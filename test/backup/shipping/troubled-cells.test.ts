import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { storedLogs } from '../../support/backup/stored-logs.ts'
import { codeOf, rejectedBy } from '../../support/thrown.ts'

const place = ScratchPlace.perTest()

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

describe('A cell that changed without a history', () => {
  test('is named by a flush after a restart, before anybody has used it', async () => {
    const first = await place.create()
    const { id } = createLedger(first)
    await first.backups.snapshot(id)
    addRow(first.openCell(id), 'in no version')
    await first.close()
    const store = await place.open(shipped)
    expect(await place.advanceUntil(store.backups.flush())).toMatchObject({ withoutHistory: [id] })
    const restored = place.advanceUntil(store.backups.restore(id, { timestamp: place.clock.now() + 60_000 }))
    expect(await rejectedBy(restored)).toMatchObject({ code: 'backup_not_found' })
    expect(notes(store.openCell(id))).toEqual(['in no version'])
    await store.close()
  })
})

describe('A cell one of whose segments cannot be read', () => {
  test('holds up no other cell, and is restored to no moment that is only there', async () => {
    const store = await place.create({ ...shipped, backups: { maxLagMs: 3_600_000 } })
    const [bad, good] = [await newShippedCell(store), await newShippedCell(store)]
    await place.advanceUntil(store.backups.flush(), 1_000)
    const known = place.clock.now()
    place.clock.advance(60_000)
    addRow(bad, 'in a segment', 5_000_000)
    const { segments } = place.paths.cell(bad.id)
    addRow(bad, 'after it')
    const [segment] = fs.readdirSync(segments).map((name) => `${segments}/${name}`)
    const aside = `${place.root}/aside`
    fs.renameSync(segment as string, aside)
    fs.mkdirSync(segment as string)
    addRow(good, 'shipped')
    const flush = () => place.advanceUntil(store.backups.flush(), 1_000)
    expect(await flush()).toEqual({ withoutHistory: [], unreadable: [bad.id] })
    expect(await shippedCells()).toContain(good.id)
    const timestamp = place.clock.now()
    const restored = place.advanceUntil(store.backups.restore(bad.id, { timestamp }), 1_000)
    const refused = await rejectedBy(restored)
    expect(refused).toMatchObject({ code: 'backup_not_found' })
    expect(refused.details.restorableTo).toBeLessThanOrEqual(known)
    fs.rmdirSync(segment as string)
    fs.renameSync(aside, segment as string)
    expect(await flush()).toEqual({ withoutHistory: [], unreadable: [] })
    await place.advanceUntil(store.backups.restore(bad.id, { timestamp }), 1_000)
    expect(notes(bad)).toHaveLength(102)
    await place.advanceUntil(store.close(), 1_000)
  })
})
