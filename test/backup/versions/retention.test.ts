import fs from 'node:fs'
import path from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import type { Cell } from '../../../src/store/cell.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'
import { FailingStore, RecordingStore } from '../../support/backup/object-store-decorators.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { seededRandom } from '../../support/seed.ts'

let place: ScratchPlace
beforeEach(() => {
  place = new ScratchPlace()
})

function stored(cell: Cell): string[] {
  const names = fs.readdirSync(path.join(place.objects, 'snapshots', cell.id))
  return names.filter((name) => name.startsWith('backup-')).sort()
}

function nameOf(version: string): string {
  return version.split('/').at(-1) as string
}

async function expectAllRestorable(
  store: CellStore,
  cell: Cell,
  states: ReadonlyMap<string, string[]>,
): Promise<number> {
  const { backups } = await store.backups.list(cell.id)
  const before = notes(cell)
  for (const { version } of backups) {
    await store.backups.restore(cell.id, { version })
    expect(notes(cell)).toEqual(states.get(version))
  }
  cell.transaction(() => {
    cell.sql('DELETE FROM ledger')
    for (const note of before) addRow(cell, note)
  })
  return backups.length
}

describe('Retention', () => {
  test('keeps exactly as many of the newest backups as it is set to, also of those made by hand', async () => {
    const store = await place.create({ backups: { keep: 3 } })
    const cell = createLedger(store)
    const made: string[] = []
    for (let i = 0; i < 6; i++) made.push((await store.backups.snapshot(cell.id)).version)
    expect(stored(cell)).toEqual(made.slice(-3).map(nameOf))
  })

  test('never removes a base or a link that a kept version needs', async () => {
    const store = await place.create({ backups: { keep: 3 } })
    const cell = createLedger(store)
    const states = new Map<string, string[]>()
    for (let i = 0; i < 12; i++) {
      addRow(cell, `row ${i}`)
      const { version } = await store.backups.incremental(cell.id)
      states.set(version, notes(cell))
      expect(stored(cell).length).toBeLessThanOrEqual(3 + 3)
    }
    expect(await expectAllRestorable(store, cell, states)).toBeGreaterThanOrEqual(3)
  })

  test('with any sequence of backups leaves only what restores, and at least as many as it is to keep', {
    timeout: 120_000,
  }, async () => {
    const random = seededRandom()
    const store = await place.create({ backups: { keep: 4 } })
    const cell = createLedger(store)
    const states = new Map<string, string[]>()
    for (let i = 0; i < 40; i++) {
      addRow(cell, `row ${i}`)
      const kind = random.chance(0.3) ? 'snapshot' : 'incremental'
      const { version } = await store.backups[kind](cell.id)
      states.set(version, notes(cell))
      if (random.chance(0.1)) {
        const all = [...states.keys()].slice(0, -1)
        await store.backups.restore(cell.id, { version: all.length > 3 ? version : undefined })
      }
      expect(stored(cell).length).toBeGreaterThanOrEqual(Math.min(4, states.size))
      if (i % 10 === 9) await expectAllRestorable(store, cell, states)
    }
  })

  test('does not count a damaged version: the last good one always stays', async () => {
    const store = await place.create({ backups: { keep: 2 } })
    const cell = createLedger(store)
    addRow(cell, 'good')
    const { version: good } = await store.backups.snapshot(cell.id)
    const damaged: string[] = []
    for (let i = 0; i < 3; i++) {
      const { version } = await store.backups.snapshot(cell.id)
      damaged.push(version)
      // Cut short, and gone altogether but for its name: the one keeps its manifest.
      const file = path.join(place.objects, version)
      if (i === 0) fs.truncateSync(file, fs.statSync(file).size - 20)
      else fs.writeFileSync(file, 'damaged')
    }
    expect(stored(cell)).toContain(nameOf(good))
    await store.close()
    // Nothing is remembered of them, as on another day.
    const again = await place.open({ backups: { keep: 2 } })
    const { version: newest } = await again.backups.snapshot(cell.id)
    const { backups } = await again.backups.list(cell.id)
    expect(backups.map(({ version }) => version)).toEqual([newest, good])
    await again.backups.restore(cell.id, { version: good })
    // Behind the newest two that are good all the others go.
    const { version: last } = await again.backups.snapshot(cell.id)
    expect(stored(cell)).toEqual([newest, last].map(nameOf))
  })

  test('does not count a version whose chain has a gap, or a damaged link', async () => {
    const store = await place.create({ backups: { keep: 3 } })
    const cell = createLedger(store)
    addRow(cell, 'good')
    const { version: good } = await store.backups.snapshot(cell.id)
    const { version: base } = await store.backups.snapshot(cell.id)
    addRow(cell, 'later')
    await store.backups.incremental(cell.id)
    fs.writeFileSync(path.join(place.objects, base), 'damaged')
    await store.close()
    const again = await place.open({ backups: { keep: 2 } })
    const { version: newest } = await again.backups.snapshot(cell.id)
    await again.backups.restore(cell.id, { version: good })
    expect(notes(again.openCell(cell.id))).toEqual(['good'])
    expect(stored(again.openCell(cell.id))).toContain(nameOf(newest))
  })

  test('that fails is no failure of the backup, and is made up for by the next', async () => {
    const failing = new FailingStore(place.folder())
    const store = await place.create({ objectStore: failing, backups: { keep: 2 } })
    const cell = createLedger(store)
    for (let i = 0; i < 2; i++) await store.backups.snapshot(cell.id)
    failing.failFromHere(1, (call) => call === 'delete')
    failing.forGood = true
    for (let i = 0; i < 3; i++) await store.backups.snapshot(cell.id)
    expect(stored(cell)).toHaveLength(5)
    failing.failAt = 0
    await store.backups.snapshot(cell.id)
    expect(stored(cell)).toHaveLength(2)
  })

  test('removes an incremental before its base: what is listed restores also when it is interrupted', async () => {
    const failing = new FailingStore(place.folder())
    const store = await place.create({ objectStore: failing, backups: { keep: 4 } })
    const cell = createLedger(store)
    const states = new Map<string, string[]>()
    for (let i = 0; i < 4; i++) {
      addRow(cell, `row ${i}`)
      states.set((await store.backups.incremental(cell.id)).version, notes(cell))
    }
    for (let i = 0; i < 4; i++) {
      failing.failFromHere(2, (call) => call === 'delete')
      failing.forGood = true
      states.set((await store.backups.snapshot(cell.id)).version, notes(cell))
      failing.failAt = 0
      await expectAllRestorable(store, cell, states)
    }
  })

  test('costs one listing, and no reading of what this process has stored itself; the look is for the catalog', async () => {
    const recording = new RecordingStore(place.folder())
    const store = await place.create({ objectStore: recording, backups: { keep: 2 } })
    const cell = createLedger(store)
    for (let i = 0; i < 3; i++) await store.backups.snapshot(cell.id)
    recording.forget()
    await store.backups.snapshot(cell.id)
    expect(recording.calls.map(({ call }) => call)).toEqual(['list', 'put', 'delete', 'head'])
  })

  test('of all versions is the default: none is removed', async () => {
    const store = await place.create()
    const cell = createLedger(store)
    for (let i = 0; i < 70; i++) await store.backups.incremental(cell.id)
    const { backups } = await store.backups.list(cell.id)
    expect(backups).toHaveLength(70)
    // No chain is longer than a restore wants to read.
    expect(backups.filter(({ baseVersion }) => baseVersion === null)).toHaveLength(2)
  })
})
