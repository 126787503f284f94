import fs from 'node:fs'
import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import { FakeClock } from '../support/fake-clock.ts'
import { KeptLog } from '../support/kept-log.ts'
import { openTestCell, openTestStore, type TestStore } from '../support/open-test-store.ts'
import { turnsUntil } from '../support/turns.ts'

/** Rows that are stored, live or not. */
function stored(cell: Cell): number {
  return (cell.sql('SELECT count(*) AS n FROM _cell_kv').rows[0] as { n: number }).n
}

/** The same of a cell that is not to be opened by the store: asked by another program. */
function storedInFile({ directory }: TestStore, id: string): number {
  const connection = new Database(new StorePaths(directory).cell(id).database)
  try {
    return connection.prepare('SELECT count(*) FROM _cell_kv').pluck().get() as number
  } finally {
    connection.close()
  }
}

/** Open cells have a log beside them; closed ones have none. */
function isOpen({ directory }: TestStore, id: string): boolean {
  return fs.existsSync(new StorePaths(directory).cell(id).wal)
}

function fill(cell: Cell, count: number, ttlSeconds: number): void {
  for (let i = 0; i < count; i += 1_000) {
    const size = Math.min(1_000, count - i)
    cell.kv.put(Array.from({ length: size }, (_, j) => ({ key: `k${i + j}`, value: 'v', ttlSeconds })))
  }
}

describe('expired entries are collected in the background', () => {
  test('and where none is left nothing is committed: the cell would count as changed', async () => {
    const { store, clock, cell } = await openTestCell()
    cell.kv.put('k', 'v', { ttlSeconds: 10 })
    cell.kv.put('later', 'v', { ttlSeconds: 3_600 })
    cell.kv.delete('k')
    const { commits } = store.metrics()
    const hints = store.core.hints
    expect(hints.first()?.due).toBeLessThanOrEqual(clock.now() + 10_000)
    clock.advance(15_000)
    await turnsUntil(() => (hints.first()?.due ?? 0) > clock.now(), 'looked at')
    expect(store.metrics().commits).toBe(commits)
  })

  test('in an open cell: 100,000 of them, and those that live stay', async () => {
    const { clock, cell } = await openTestCell({ durability: 'relaxed' })
    fill(cell, 100_000, 60)
    cell.kv.put('lives', 'v', { ttlSeconds: 120 })
    cell.kv.put('stays', 'v')
    clock.advance(59_999)
    expect(stored(cell)).toBe(100_002)
    clock.advance(5_000)
    await turnsUntil(() => stored(cell) === 2, 'collected')
    expect(cell.kv.ttl(['lives', 'stays'])).toEqual([56, -1])
    clock.advance(60_000)
    await turnsUntil(() => stored(cell) === 1, 'the next one collected')
  })

  test('in a cell that the pool has closed, which is closed again afterwards', async () => {
    const test = await openTestCell({ durability: 'relaxed', openCellsMax: 1 })
    fill(test.cell, 100_000, 60)
    const other = test.store.createCell()
    other.kv.put('k', 'v')
    expect([isOpen(test, test.cell.id), storedInFile(test, test.cell.id)]).toEqual([false, 100_000])
    test.clock.advance(70_000)
    await turnsUntil(() => !isOpen(test, test.cell.id) && storedInFile(test, test.cell.id) === 0, 'collected')
  })

  test('after a restart, in cells that nobody has opened since', async () => {
    const test = await openTestStore()
    const cells = Array.from({ length: 5 }, () => test.store.createCell())
    for (const cell of cells) cell.kv.put('k', 'v', { ttlSeconds: 60 })
    await test.reopen()
    test.clock.advance(70_000)
    await turnsUntil(() => cells.every(({ id }) => storedInFile(test, id) === 0), 'collected')
    expect(cells.map(({ id }) => isOpen(test, id))).toEqual(Array(5).fill(false))
  })

  test('also where what was known of their times is lost with the machine', async () => {
    const test = await openTestStore()
    const cell = test.store.createCell()
    cell.kv.put('k', 'v', { ttlSeconds: 60 })
    await test.store.close()
    for (const suffix of ['', '-wal', '-shm'])
      fs.rmSync(new StorePaths(test.directory).localState + suffix, { force: true })
    await test.reopen()
    await turnsUntil(() => test.clock.nextTimerMs !== undefined, 'every cell looked at')
    test.clock.advance(3_600_000)
    await turnsUntil(() => storedInFile(test, cell.id) === 0, 'collected')
  })

  test('in batches, with a turn of the event loop between them', async () => {
    const { clock, cell } = await openTestCell({ durability: 'relaxed' })
    fill(cell, 10_000, 1)
    clock.advance(10_000)
    const batches: number[] = []
    let before = stored(cell)
    await turnsUntil(() => {
      const now = stored(cell)
      if (now < before) batches.push(before - now)
      before = now
      return now === 0
    }, 'collected')
    expect(Math.max(...batches)).toBeLessThanOrEqual(1_024)
    expect(batches.length).toBeGreaterThan(10)
  })

  test('in small batches where each takes long', async () => {
    class SlowClock extends FakeClock {
      #calls = 0
      override monotonic(): number {
        return super.monotonic() + 10 * this.#calls++
      }
    }
    const { clock, cell } = await openTestCell({ durability: 'relaxed', clock: new SlowClock() })
    fill(cell, 1_000, 1)
    let before = stored(cell)
    let largest = 0
    clock.advance(10_000)
    await turnsUntil(() => {
      const now = stored(cell)
      largest = Math.max(largest, before - now)
      before = now
      return now === 0
    }, 'collected')
    expect(largest).toBeLessThanOrEqual(32)
  })

  test('of many closed cells, one in a turn of the event loop', async () => {
    const test = await openTestStore({ durability: 'relaxed', openCellsMax: 1 })
    const cells = Array.from({ length: 40 }, () => test.store.createCell())
    for (const cell of cells) cell.kv.put('k', 'v', { ttlSeconds: 1 })
    test.clock.advance(10_000)
    let turns = 0
    await turnsUntil(() => {
      turns++
      return cells.every(({ id }) => storedInFile(test, id) === 0)
    }, 'collected')
    expect(turns).toBeGreaterThanOrEqual(cells.length)
  })

  test('when the clock has stepped back a year nothing that lives is, and when it is set right it goes on', async () => {
    const { clock, cell } = await openTestCell()
    const year = 365 * 24 * 3_600_000
    cell.kv.put('k', 'v', { ttlSeconds: 60 })
    clock.step(-year)
    clock.advance(3_600_000)
    await new Promise((resolve) => setImmediate(resolve))
    expect(stored(cell)).toBe(1)
    clock.step(year)
    clock.advance(2 * 3_600_000)
    await turnsUntil(() => stored(cell) === 0, 'collected')
  })

  test('when the clock jumps forward they go within the hour', async () => {
    const { clock, cell } = await openTestCell()
    cell.kv.put('k', 'v', { ttlSeconds: 30 * 24 * 3_600 })
    clock.step(31 * 24 * 3_600_000)
    expect(cell.kv.get('k')).toBeUndefined()
    clock.advance(3_600_000)
    await turnsUntil(() => stored(cell) === 0, 'collected')
  })

  test('an earlier time to live than all before moves the next look forward', async () => {
    const { clock, cell } = await openTestCell()
    cell.kv.put('late', 'v', { ttlSeconds: 1_000 })
    cell.kv.put('early', 'v', { ttlSeconds: 10 })
    cell.kv.put('expire', 'v')
    cell.kv.expire('expire', 5)
    clock.advance(6_000)
    await turnsUntil(() => stored(cell) === 2, 'the first collected')
    clock.advance(6_000)
    await turnsUntil(() => stored(cell) === 1, 'the second collected')
    clock.advance(1_000_000)
    await turnsUntil(() => stored(cell) === 0, 'the last collected')
  })

  test('a cell that is deleted is no longer looked at, and logs nothing', async () => {
    const log = new KeptLog()
    const { clock, store, cell } = await openTestCell({ log })
    cell.kv.put('k', 'v', { ttlSeconds: 10 })
    store.deleteCell(cell.id)
    clock.advance(1_000_000)
    await new Promise((resolve) => setImmediate(resolve))
    expect(log.warnings).toEqual([])
  })

  test('a cell that cannot be opened is tried again later, and holds up no other', async () => {
    const log = new KeptLog()
    const test = await openTestStore({ log, openCellsMax: 1 })
    const [broken, sound] = [test.store.createCell(), test.store.createCell()]
    broken.kv.put('k', 'v', { ttlSeconds: 10 })
    sound.kv.put('k', 'v', { ttlSeconds: 11 })
    const file = new StorePaths(test.directory).cell(broken.id).database
    fs.renameSync(file, `${file}.away`)
    test.clock.advance(20_000)
    await turnsUntil(() => storedInFile(test, sound.id) === 0, 'the sound one collected')
    expect(log.warnings).toMatchObject([{ cellId: broken.id }])
    fs.renameSync(`${file}.away`, file)
    test.clock.advance(120_000)
    await turnsUntil(() => storedInFile(test, broken.id) === 0, 'the other one collected')
  })

  test('is nobody’s change: a commit that cannot note its time to live is still a commit', async () => {
    const log = new KeptLog()
    const { directory, cell } = await openTestCell({ log })
    const foreign = new Database(new StorePaths(directory).localState)
    foreign.exec('BEGIN IMMEDIATE')
    expect(cell.kv.put('k', 'v', { ttlSeconds: 10 }).created).toBe(true)
    expect(cell.kv.get('k')).toBe('v')
    expect(log.warnings).toHaveLength(1)
    foreign.exec('ROLLBACK')
    foreign.close()
  })

  test('costs no fsync of its own, and leaves commits as durable as before', async () => {
    const { clock, cell } = await openTestCell()
    fill(cell, 100, 1)
    clock.advance(10_000)
    await turnsUntil(() => stored(cell) === 0, 'collected')
    expect(cell.transaction(() => cell.sql('PRAGMA synchronous').rows)).toEqual([{ synchronous: 2 }])
  })
})
