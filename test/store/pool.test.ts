import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { writeNewFile } from '../../src/base/files/durable-files.ts'
import { CellPaths } from '../../src/base/files/store-paths.ts'
import { silentLog } from '../../src/base/log.ts'
import { openCellsFor } from '../../src/base/machine/descriptor-limit.ts'
import { DEFAULT_LIMITS } from '../../src/base/options/limits.ts'
import { cellNotFound } from '../../src/catalog/cell-registry.ts'
import { type CellOpener, CellPool } from '../../src/engine/cell-pool.ts'
import { ReservedSchema } from '../../src/engine/reserved-schema.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { KeptLog } from '../support/kept-log.ts'
import { openFilesBelow } from '../support/open-files.ts'
import { openTestStore, type TestStore } from '../support/open-test-store.ts'
import { seededRandom } from '../support/seed.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { codeOf } from '../support/thrown.ts'

/** Ids of the cells whose file this process has open. */
function openCells({ directory }: TestStore): Set<string> {
  const files = openFilesBelow(path.join(directory, 'cells'))
  return new Set(files.map((file) => path.basename(path.dirname(file))))
}

function use(cell: Cell): void {
  cell.kv.get('k')
}

describe('the pool of open cells', () => {
  test('400 cells can be used through one of 16, in any order, with their handles kept', async () => {
    const random = seededRandom()
    const test = await openTestStore({ openCellsMax: 16, durability: 'relaxed' })
    const cells = Array.from({ length: 400 }, () => test.store.createCell())
    expect(openCells(test).size).toBe(0)
    let most = 0
    for (const [i, cell] of cells.entries()) {
      cell.kv.put('k', String(i))
      most = Math.max(most, openCells(test).size)
    }
    for (let i = 0; i < 200; i++) {
      const at = random.below(cells.length)
      expect(cells[at]?.kv.get('k')).toBe(String(at))
      most = Math.max(most, openCells(test).size)
    }
    expect(most).toBe(16)
    // Database, log, shared memory.
    expect(openFilesBelow(path.join(test.directory, 'cells')).length).toBeLessThanOrEqual(16 * 3)
    await test.store.close()
    expect(openFilesBelow(test.directory)).toEqual([])
    // Each new cell is made durable, and the disk may be busy.
  })

  test('of so many open cells that only some are looked at, one that was used lately stays, and the bound holds', async () => {
    const test = await openTestStore({ openCellsMax: 100, durability: 'relaxed' })
    const cells = Array.from({ length: 260 }, () => test.store.createCell())
    const [often, ...others] = cells as [Cell, ...Cell[]]
    for (const [i, cell] of others.entries()) {
      cell.kv.put('k', String(i))
      use(often)
    }
    const open = openCells(test)
    expect([open.size, open.has(often.id)]).toEqual([100, true])
    // All but one are in use: only a look at all of them finds it.
    const held = [...open].slice(1).map((id) => test.store.openCell(id).beginHold({ readOnly: true }))
    use(cells.find(({ id }) => !open.has(id)) as Cell)
    const after = openCells(test)
    expect([...open].filter((id) => !after.has(id))).toEqual([[...open][0]])
    for (const { hold } of held) hold.rollback()
  })

  test('closes the one that was used longest ago', async () => {
    const test = await openTestStore({ openCellsMax: 3 })
    const [a, b, c, d, e] = Array.from({ length: 5 }, () => test.store.createCell()) as [
      Cell,
      Cell,
      Cell,
      Cell,
      Cell,
    ]
    for (const cell of [a, b, c]) use(cell)
    use(a)
    use(d)
    expect(openCells(test)).toEqual(new Set([a.id, c.id, d.id]))
    c.sql('SELECT 1')
    use(e)
    expect(openCells(test)).toEqual(new Set([c.id, d.id, e.id]))
  })

  test('closes none that is in a transaction, however many others it uses, and is small again afterwards', async () => {
    const test = await openTestStore({ openCellsMax: 2 })
    const cells = Array.from({ length: 6 }, () => test.store.createCell())
    const nest = (i: number): void => {
      cells[i]?.transaction(() => {
        cells[i]?.kv.put('k', String(i))
        if (i + 1 < cells.length) nest(i + 1)
        else expect(openCells(test).size).toBe(6)
      })
    }
    nest(0)
    expect(cells.map((cell) => cell.kv.get('k'))).toEqual(['0', '1', '2', '3', '4', '5'])
    use(test.store.createCell())
    expect(openCells(test).size).toBe(2)
  })

  test('closes none that has commits queued', async () => {
    const test = await openTestStore({ openCellsMax: 1 })
    const [a, b] = [test.store.createCell(), test.store.createCell()]
    const queued = a.commit(() => a.kv.incr('n'))
    use(b)
    expect(openCells(test)).toEqual(new Set([a.id, b.id]))
    expect(await queued).toBe(1)
    use(test.store.createCell())
    expect(openCells(test).size).toBe(1)
  })

  test('a handle stays good while the file behind it is closed and opened, prepared statements and all', async () => {
    const test = await openTestStore({ openCellsMax: 1 })
    const [a, b] = [test.store.createCell(), test.store.createCell()]
    a.sql('CREATE TABLE t (n)')
    for (let i = 0; i < 10; i++) {
      a.sql('INSERT INTO t VALUES (?)', [i])
      a.kv.incr('n')
      b.kv.incr('n')
    }
    expect(a.sql('SELECT sum(n) AS sum FROM t').rows).toEqual([{ sum: 45 }])
    expect([a.kv.get('n'), b.kv.get('n')]).toEqual(['10', '10'])
  })

  test('a cell that fails to close does not disturb the cell that takes its place', async () => {
    const log = new KeptLog()
    const test = await openTestStore({ openCellsMax: 1, log })
    const [a, b] = [test.store.createCell(), test.store.createCell()]
    a.kv.put('k', 'v')
    // Cuts off the log under it: what a checkpoint of it would read is not there.
    const wal = openFilesBelow(path.join(test.directory, 'cells')).find((file) =>
      file.endsWith('-wal'),
    ) as string
    fs.truncateSync(wal, 100)
    expect(() => b.kv.put('k', 'v')).not.toThrow()
    expect(b.kv.get('k')).toBe('v')
    expect(log.errors).toMatchObject([{ cellId: a.id }])
    test.store.deleteCell(a.id)
  })
})

describe('by itself', () => {
  function openPool(max: number) {
    const directory = tempDirectory()
    const paths = (id: string) => new CellPaths(path.join(directory, id))
    const image = new ReservedSchema().image()
    const opened: string[] = []
    const opener: CellOpener = {
      paths,
      settings: () => ({
        durability: 'relaxed',
        sqlPolicy: 'trusted',
        limits: DEFAULT_LIMITS,
        pageCacheBytes: 65_536,
        checkpointBytes: 4_194_304,
      }),
      hooks: (id) => ({ opened: () => void opened.push(id) }),
      beforeOpen: () => {},
      missing: () => cellNotFound(),
    }
    const pool = new CellPool({ cellsMax: max }, opener, { clock: new FakeClock(), log: silentLog })
    onTestFinished(() => pool.closeAll())
    const add = (id: string) => {
      fs.mkdirSync(path.join(directory, id))
      writeNewFile(paths(id).database, image)
    }
    return { pool, opened, add }
  }

  test('a program that goes through slightly more cells than may be open opens few of them again', () => {
    const { pool, opened, add } = openPool(100)
    const ids = Array.from({ length: 101 }, (_, i) => `cell-${i}`)
    for (const id of ids) add(id)
    const rounds = 10
    for (let round = 0; round < rounds; round++) for (const id of ids) pool.open(id)
    expect(opened.length).toBeLessThan(0.2 * rounds * ids.length)
    expect(pool.size).toBe(100)
  })

  test('cells that are used again and again stay open while others come and go', () => {
    const { pool, opened, add } = openPool(50)
    const often = Array.from({ length: 25 }, (_, i) => `often-${i}`)
    for (const id of often) add(id)
    for (let once = 0; once < 80; once++) {
      add(`once-${once}`)
      pool.open(`once-${once}`)
      for (const id of often) pool.open(id)
    }
    expect(opened.filter((id) => id.startsWith('often')).length).toBeLessThan(2 * often.length)
  })

  test('a pinned cell is never closed, and one that is no longer pinned may be', () => {
    const { pool, opened, add } = openPool(2)
    for (const id of ['a', 'b', 'c', 'd']) add(id)
    const first = pool.pin('a')
    const second = pool.pin('a')
    for (const id of ['b', 'c', 'd']) pool.open(id)
    expect(first.database.open).toBe(true)
    expect(pool.size).toBe(2)
    first.unpin()
    first.unpin()
    for (const id of ['b', 'c', 'd']) pool.open(id)
    expect(second.database.open).toBe(true)
    second.unpin()
    for (const id of ['b', 'c']) pool.open(id)
    expect(second.database.open).toBe(false)
    expect(opened.filter((id) => id === 'a')).toEqual(['a'])
  })

  test('opens nothing after it was closed, and says what is missing', () => {
    const { pool, add } = openPool(2)
    add('a')
    expect(codeOf(() => pool.open('none'))).toBe('cell_not_found')
    const database = pool.open('a')
    pool.closeAll()
    expect([database.open, pool.size]).toEqual([false, 0])
    expect(codeOf(() => pool.open('a'))).toBe('store_closed')
  })

  test('a cell that cannot be opened leaves no descriptor behind', () => {
    const { pool, add } = openPool(2)
    add('a')
    const file = pool.open('a').path
    pool.close('a')
    fs.writeFileSync(file, 'not a database, but long enough to be looked at'.repeat(200))
    for (let i = 0; i < 5; i++) expect(codeOf(() => pool.open('a'))).toBe('cell_quarantined')
    expect([openFilesBelow(path.dirname(file)), pool.size]).toEqual([[], 0])
  })
})

describe('its size', () => {
  test.each([
    [Number.POSITIVE_INFINITY, 1_000],
    [1_048_576, 1_000],
    [4_512, 1_000],
    [4_511, 999],
    [4_096, 896],
    [1_024, 128],
    [576, 16],
    [512, 16],
    [256, 16],
  ])('with %i descriptors is %i', (descriptors, cells) => {
    expect(openCellsFor(descriptors)).toBe(cells)
  })

  test('by default is what this process may open', async () => {
    const { store } = await openTestStore()
    expect(store.settings.openCellsMax).toBe(openCellsFor())
  })
})
