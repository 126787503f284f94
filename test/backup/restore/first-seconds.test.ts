import { describe, expect, test } from 'vitest'
import type { CellStore } from '../../../src/store/cell-store.ts'
import type { Cell } from '../../../src/store/open/cell.ts'
import { addRow, createLedger, notes, ScratchPlace } from '../../support/backup/scratch-store.ts'
import { rejectedBy } from '../../support/thrown.ts'

/** Every moment of a cell can be restored, from its creation on. */

const place = ScratchPlace.perTest()

const shipped = { backups: { maxLagMs: 10_000 } }

/** Lets some time pass, too little for a first version. */
function later(ms = 20): number {
  place.clock.advance(ms)
  return place.clock.now()
}

async function stateAt(store: CellStore, { id }: Cell, timestamp: number): Promise<string[]> {
  const branch = await place.soon(store.createCell({ from: { cellId: id, timestamp } }))
  return notesOf(store.openCell(branch.id))
}

/** Before its table there are none. */
function notesOf(cell: Cell): string[] {
  const isThere = cell.get("SELECT 1 FROM sqlite_schema WHERE name = 'ledger'") !== undefined
  return isThere ? notes(cell) : []
}

describe('Of a cell that is a moment old', () => {
  test('every moment can be branched, before and after its first version', async () => {
    const store = await place.create(shipped)
    const empty = later()
    const bare = store.createCell()
    const made = place.clock.now()
    expect(empty).toBe(made)
    later()
    const cell = createLedger(store)
    const moments: [number, string[]][] = [[place.clock.now(), notesOf(cell)]]
    for (const note of ['a', 'b', 'c']) {
      later()
      addRow(cell, note)
      moments.push([place.clock.now(), notesOf(cell)])
    }
    later()
    for (const [time, expected] of moments.slice(1))
      expect(await stateAt(store, cell, time)).toEqual(expected)
    place.clock.advance(60_000)
    await place.soon(store.backups.flush())
    for (const [time, expected] of moments.slice(1))
      expect(await stateAt(store, cell, time)).toEqual(expected)
    expect(await stateAt(store, bare, made)).toEqual([])
    await place.soon(store.close())
  })

  test('the moment of its creation is the cell without anything', async () => {
    const store = await place.create(shipped)
    const cell = store.createCell()
    const made = place.clock.now()
    later()
    cell.kv.put('k', 'v')
    later()
    const branch = await place.soon(store.createCell({ from: { cellId: cell.id, timestamp: made } }))
    expect(store.openCell(branch.id).kv.list().entries).toEqual([])
    const before = await rejectedBy(place.soon(store.backups.restore(cell.id, { timestamp: made - 1 })))
    expect(before).toMatchObject({ code: 'backup_not_found' })
    await place.soon(store.close())
  })

  test('its present state can be branched at once, 12 times of 12', async () => {
    const store = await place.create(shipped)
    for (let i = 0; i < 12; i++) {
      const cell = store.createCell()
      cell.kv.put('n', String(i))
      const branch = await place.soon(store.createCell({ from: { cellId: cell.id } }))
      expect(store.openCell(branch.id).kv.get('n')).toBe(String(i))
    }
    await place.soon(store.close())
  })

  test('it can be restored in place to a moment before its first version', async () => {
    const store = await place.create(shipped)
    const cell = store.createCell()
    later()
    cell.kv.put('k', 'good')
    const good = later(1)
    later()
    cell.kv.put('k', 'bad')
    later()
    await place.soon(store.backups.restore(cell.id, { timestamp: good }))
    expect(cell.kv.get('k')).toBe('good')
    await place.soon(store.close())
  })

  test.each(['a checkpoint', 'its closing'])('so it is after %s, before its first version', async (what) => {
    const store = await place.create({ ...shipped, openCellsMax: 8 })
    const cell = store.createCell()
    later()
    cell.kv.put('k', 'first')
    const first = later(1)
    if (what === 'its closing') for (let i = 0; i < 40; i++) store.createCell().kv.put('x', 'y')
    else for (let i = 0; i < 12; i++) cell.kv.put(`large ${i}`, 'x'.repeat(1_000_000))
    later()
    cell.kv.put('k', 'second')
    const second = later(1)
    later()
    for (const [time, value] of [[first, 'first'] as const, [second, 'second'] as const]) {
      const branch = await place.soon(store.createCell({ from: { cellId: cell.id, timestamp: time } }))
      expect(store.openCell(branch.id).kv.get('k')).toBe(value)
    }
    await place.soon(store.close())
  })

  test('a backup that is asked for first holds all that was committed, and begins the history', async () => {
    const store = await place.create(shipped)
    const cell = store.createCell()
    later()
    cell.kv.put('k', 'one')
    const one = later(1)
    later()
    cell.kv.put('k', 'two')
    const { version, kind } = await place.soon(store.backups.snapshot(cell.id))
    expect(kind).toBe('snapshot')
    cell.kv.put('k', 'three')
    const before = place.soon(store.createCell({ from: { cellId: cell.id, timestamp: one } }))
    expect(await rejectedBy(before)).toMatchObject({ code: 'backup_not_found' })
    await place.soon(store.backups.restore(cell.id, { version }))
    expect(cell.kv.get('k')).toBe('two')
    await place.soon(store.close())
  })

  test('after a total loss within its first version and the next, all that was shipped is there, and each moment of it', async () => {
    const store = await place.create(shipped)
    const cell = createLedger(store)
    const moments: [number, string[]][] = []
    for (const note of ['a', 'b']) {
      later()
      addRow(cell, note)
      moments.push([place.clock.now(), notesOf(cell)])
    }
    later()
    await place.soon(store.backups.flush())
    place.clock.advance(5_000)
    await place.soon(store.backups.snapshot(cell.id))
    await place.soon(store.core.catalogStored())
    await place.soon(store.close())
    place.loseData()
    const again = await place.open(shipped)
    const back = again.openCell(cell.id)
    await place.soon(back.ensureLocal())
    expect(notesOf(back)).toEqual(['a', 'b'])
    for (const [time, expected] of moments) expect(await stateAt(again, back, time)).toEqual(expected)
    await place.soon(again.close())
  })
})

describe('"The latest" of a restore without a version', () => {
  test('is no version that was made only because of a restore', async () => {
    const store = await place.create(shipped)
    const cell = store.createCell()
    cell.kv.put('k', 's')
    const s = await place.soon(store.backups.snapshot(cell.id))
    later()
    cell.kv.put('k', 'i')
    const i = await place.soon(store.backups.incremental(cell.id))
    later()
    await place.soon(store.backups.restore(cell.id, { version: s.version }))
    expect(cell.kv.get('k')).toBe('s')
    // The node stores a version of the restored state by itself.
    const count = async () => (await store.backups.list(cell.id)).backups.length
    const before = await count()
    place.clock.advance(30_000)
    await expect.poll(count).toBeGreaterThan(before)
    const result = await place.soon(store.backups.restore(cell.id))
    expect(result.version).toBe(i.version)
    expect(cell.kv.get('k')).toBe('i')
    later()
    cell.kv.put('k', 'changed since')
    const own = await place.soon(store.backups.incremental(cell.id))
    expect((await place.soon(store.backups.restore(cell.id))).version).toBe(own.version)
    await place.soon(store.close())
  })

  describe('of a cell of which nobody has asked for a backup', () => {
    /** A version of the cell as it was made is stored, and what was committed since is shipped. */
    async function withOrigin(store: CellStore): Promise<{ cell: Cell; origin: string; made: number }> {
      const cell = store.createCell()
      const made = place.clock.now()
      later()
      cell.kv.put('k', 'v')
      place.clock.advance(30_000)
      await expect.poll(async () => (await versions(store, cell)).length).toBe(1)
      await place.soon(store.backups.flush())
      const [origin] = await versions(store, cell)
      return { cell, origin: origin as string, made }
    }

    const versions = async (store: CellStore, { id }: Cell) =>
      (await store.backups.list(id)).backups.map(({ version }) => version)

    test('is not the version of its creation: one of its present state is made first', async () => {
      const store = await place.create(shipped)
      const { cell, origin, made } = await withOrigin(store)
      cell.kv.put('k', 'last')
      later()
      const { version } = await place.soon(store.backups.restore(cell.id))
      expect(version).not.toBe(origin)
      expect(await versions(store, cell)).toContain(version)
      expect(cell.kv.get('k')).toBe('last')
      await place.soon(store.backups.restore(cell.id, { version: origin }))
      expect(cell.kv.get('k')).toBeUndefined()
      later()
      await place.soon(store.backups.restore(cell.id))
      expect(cell.kv.get('k')).toBe('last')
      await place.soon(store.backups.restore(cell.id, { timestamp: made }))
      expect(cell.kv.get('k')).toBeUndefined()
      await place.soon(store.close())
    })

    test('is its present state also after a restore to a moment', async () => {
      const store = await place.create(shipped)
      const { cell } = await withOrigin(store)
      const good = place.clock.now()
      later()
      cell.kv.put('k', 'bad')
      later()
      await place.soon(store.backups.restore(cell.id, { timestamp: good }))
      // Whether or not the version is stored by then that was made only because of the restore.
      place.clock.advance(30_000)
      await expect.poll(async () => (await versions(store, cell)).length).toBe(2)
      await place.soon(store.backups.restore(cell.id))
      expect(cell.kv.get('k')).toBe('v')
      cell.kv.put('k', 'since')
      later()
      await place.soon(store.backups.restore(cell.id))
      expect(cell.kv.get('k')).toBe('since')
      await place.soon(store.close())
    })

    test.each(['restore', 'use'])(
      'is all that was shipped, after a loss of its files, by its %s',
      async (how) => {
        const backups = { ...shipped.backups, recoverInBackground: false }
        const store = await place.create({ backups })
        const { cell } = await withOrigin(store)
        await place.soon(store.core.catalogStored())
        await place.soon(store.close())
        place.loseData()
        const again = await place.open({ backups })
        const back = again.openCell(cell.id)
        if (how === 'restore') await place.soon(again.backups.restore(cell.id))
        else await place.soon(back.ensureLocal())
        expect(back.kv.get('k')).toBe('v')
        await place.soon(again.close())
      },
    )
  })

  test('is the restored state after a total loss', async () => {
    const store = await place.create(shipped)
    const cell = store.createCell()
    cell.kv.put('k', 's')
    const s = await place.soon(store.backups.snapshot(cell.id))
    later()
    cell.kv.put('k', 'i')
    await place.soon(store.backups.incremental(cell.id))
    later()
    await place.soon(store.backups.restore(cell.id, { version: s.version }))
    await place.soon(store.backups.incremental(cell.id))
    await place.soon(store.core.catalogStored())
    await place.soon(store.close())
    place.loseData()
    const again = await place.open(shipped)
    const back = again.openCell(cell.id)
    await place.soon(back.ensureLocal())
    expect(back.kv.get('k')).toBe('s')
    await place.soon(again.close())
  })
})
