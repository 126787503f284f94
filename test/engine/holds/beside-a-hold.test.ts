import fs from 'node:fs'
import path from 'node:path'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import type { Cell } from '../../../src/store/open/cell.ts'
import type { StoreOptions } from '../../../src/store/settings/store-options.ts'
import { openTestCell } from '../../support/open-test-store.ts'
import { codeOf, thrownBy } from '../../support/thrown.ts'

const rowsOf = (cell: Cell) => cell.sql('SELECT a FROM t ORDER BY a', [], { rowMode: 'array' }).rows.flat()

async function opened(options: Omit<StoreOptions, 'clock'> = {}) {
  const subject = await openTestCell(options)
  subject.cell.sql('CREATE TABLE t (a UNIQUE)')
  return subject
}

async function allOf<T>(values: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const value of values) all.push(value)
  return all
}

describe('beside a hold', () => {
  test('everybody else reads what is committed, on every way', async () => {
    const { cell, store } = await opened()
    const other = store.openCell(cell.id)
    const count = other.prepare<number>('SELECT count(*) FROM t').pluck()
    cell.sql('INSERT INTO t VALUES (1)')
    cell.kv.put('k', 'before')
    const seen = async () => ({
      rows: rowsOf(cell),
      count: count.get(),
      get: other.get('SELECT max(a) AS a FROM t'),
      k: cell.kv.get('k'),
      entries: other.kv.list().entries.map(({ value }) => value),
      keys: await allOf(other.kv.keys()),
      view: cell.sql('SELECT value FROM cell_kv').rows,
      tables: cell.sql("SELECT name FROM sqlite_schema WHERE name = 'u'").rows.length,
    })
    const before = await seen()
    await cell.hold(async (tx) => {
      tx.sql('INSERT INTO t VALUES (2)')
      tx.sql('CREATE TABLE u (b)')
      tx.kv.put('k', 'after')
      tx.kv.put('l', 'new')
      expect(await seen()).toEqual(before)
      await turnOfTheLoop()
      expect(await seen()).toEqual(before)
    })
    expect(await seen()).toEqual({
      rows: [1, 2],
      count: 2,
      get: { a: 2 },
      k: 'after',
      entries: ['after', 'new'],
      keys: ['k', 'l'],
      view: [{ value: 'after' }, { value: 'new' }],
      tables: 1,
    })
  })

  test('changes that cannot wait are refused, say why, and leave nothing', async () => {
    const { cell } = await opened()
    cell.kv.put('k', 'v')
    const insert = cell.prepare('INSERT INTO t VALUES (5)')
    const changes = [
      () => cell.sql('INSERT INTO t VALUES (5)'),
      () => cell.sql('INSERT INTO t VALUES (5) RETURNING a'),
      () => cell.sql('PRAGMA user_version = 5'),
      () => cell.sql('CREATE TABLE u (b)'),
      () => insert.run(),
      () => cell.exec('INSERT INTO t VALUES (5)'),
      () => cell.transaction(() => cell.sql('INSERT INTO t VALUES (5)')),
      () => cell.migrate(['CREATE TABLE u (b)']),
      () => cell.kv.put('k', 'w'),
      () => cell.kv.put([{ key: 'k', value: 'w' }]),
      () => cell.kv.delete('k'),
      () => cell.kv.getdel('k'),
      () => cell.kv.incr('n'),
      () => cell.kv.expire('k', 1),
      () => cell.beginHold(),
    ]
    await cell.hold(async (tx) => {
      tx.sql('INSERT INTO t VALUES (1)')
      for (const change of changes) {
        const { code, message } = thrownBy(change)
        expect({ code, message }).toEqual({ code: 'busy', message: expect.stringContaining('cell.commit()') })
      }
      tx.sql('INSERT INTO t VALUES (2)')
    })
    expect({ rows: rowsOf(cell), k: cell.kv.get('k'), n: cell.kv.get('n') }).toEqual({ rows: [1, 2], k: 'v' })
    expect(cell.get('PRAGMA user_version')).toEqual({ user_version: 0 })
  })

  test('commits and further holds wait, and follow in their order', async () => {
    const { cell } = await opened()
    const order: string[] = []
    const note = async (name: string, done: Promise<unknown>) => {
      await done
      order.push(name)
    }
    const all = [
      note(
        'before',
        cell.commit(() => cell.sql('INSERT INTO t VALUES (1)')),
      ),
      note(
        'first',
        cell.hold(async (tx) => {
          expect(rowsOf(tx)).toEqual([1])
          await turnOfTheLoop()
          tx.sql('INSERT INTO t VALUES (2)')
          await turnOfTheLoop()
        }),
      ),
      note(
        'commit',
        cell.commit(() => cell.sql('INSERT INTO t SELECT max(a) + 1 FROM t')),
      ),
      note(
        'second',
        cell.hold(async (tx) => {
          expect(rowsOf(tx)).toEqual([1, 2, 3])
          tx.sql('INSERT INTO t VALUES (4)')
        }),
      ),
    ]
    await Promise.all(all)
    expect({ order, rows: rowsOf(cell) }).toEqual({
      order: ['before', 'first', 'commit', 'second'],
      rows: [1, 2, 3, 4],
    })
  })

  test('a hold that only reads has the state of its beginning, makes nobody wait, and changes nothing', async () => {
    const { cell } = await opened()
    cell.sql('INSERT INTO t VALUES (1)')
    await cell.hold(
      async (tx) => {
        cell.sql('INSERT INTO t VALUES (2)')
        await cell.hold(async (writer) => {
          writer.sql('INSERT INTO t VALUES (3)')
          await cell.hold(async (reader) => expect(rowsOf(reader)).toEqual([1, 2]), { readOnly: true })
        })
        cell.kv.put('k', 'v')
        expect({ rows: rowsOf(tx), k: tx.kv.get('k') }).toEqual({ rows: [1] })
        expect(tx.transaction(() => rowsOf(tx))).toEqual([1])
        expect(codeOf(() => tx.sql('INSERT INTO t VALUES (9)'))).toBe('forbidden')
        expect(codeOf(() => tx.kv.put('k', 'w'))).toBe('forbidden')
      },
      { readOnly: true },
    )
    expect({ rows: rowsOf(cell), k: cell.kv.get('k') }).toEqual({ rows: [1, 2, 3], k: 'v' })
  })

  test('an export waits for its end, and has all of it or nothing', async () => {
    const { cell, directory } = await opened()
    const target = (name: string) => path.join(directory, '..', name)
    let exported: Promise<unknown> | undefined
    const held = cell.hold(async (tx) => {
      tx.sql('INSERT INTO t VALUES (1)')
      exported = cell.export(target('a.db'))
      for (let turn = 0; turn < 50; turn++) await turnOfTheLoop()
      expect(fs.existsSync(target('a.db'))).toBe(false)
      throw new Error('undone')
    })
    await expect(held).rejects.toThrow('undone')
    await exported
    // A copy has begun when the hold does.
    cell.sql('INSERT INTO t VALUES (randomblob(1000000))')
    const running = cell.export(target('b.db'))
    await turnOfTheLoop()
    await cell.hold(async (tx) => {
      tx.sql('DELETE FROM t')
      for (let turn = 0; turn < 50; turn++) await turnOfTheLoop()
      expect(fs.existsSync(target('b.db'))).toBe(false)
    })
    await running
    const { store } = await openTestCell()
    const rows = async (name: string) => rowsOf(await store.importCell(target(name)))
    expect({ a: await rows('a.db'), b: await rows('b.db') }).toEqual({ a: [], b: [] })
  })

  test('the collection of expired entries waits for its end', async () => {
    const { cell, clock, store } = await opened()
    cell.kv.put('k', 'v', { ttlSeconds: 1 })
    await cell.hold(
      async (tx) => {
        tx.sql('INSERT INTO t VALUES (1)')
        clock.advance(2_000)
        for (let turn = 0; turn < 50; turn++) await turnOfTheLoop()
        expect(tx.get('SELECT count(*) AS n FROM main._cell_kv', [], { policy: 'trusted' })).toEqual({ n: 1 })
      },
      { timeoutMs: 60_000 },
    )
    await clock.advanceUntil(
      (async () => {
        while (
          cell.get<{ n: number }>('SELECT count(*) AS n FROM main._cell_kv', [], { policy: 'trusted' })?.n !==
          0
        )
          await turnOfTheLoop()
      })(),
      60_000,
    )
    expect(store.findCell(cell.id)?.deletedAt).toBeNull()
  })

  test('holds without end, one after the other, keep no export and no expired entry waiting', async () => {
    const { cell, clock, directory } = await opened()
    cell.kv.put('k', 'v', { ttlSeconds: 1 })
    let isOver = false
    const without = (async () => {
      while (!isOver)
        await cell.hold(async (tx) => {
          tx.sql('INSERT OR IGNORE INTO t VALUES (1)')
          await turnOfTheLoop()
        })
    })()
    await turnOfTheLoop()
    await cell.export(path.join(directory, '..', 'c.db'))
    const left = () =>
      cell.get<{ n: number }>('SELECT count(*) AS n FROM main._cell_kv', [], { policy: 'trusted' })?.n
    await clock.advanceUntil(
      (async () => {
        while (left() !== 0) await turnOfTheLoop()
      })(),
      60_000,
    )
    isOver = true
    await without
  })

  test('nobody begins the next one in the step in which one ends that others wait for', async () => {
    const { cell } = await opened()
    const first = cell.beginHold()
    const waiting = cell.hold((tx) => void tx.sql('INSERT INTO t VALUES (2)'))
    first.hold.commit()
    expect(codeOf(() => cell.beginHold())).toBe('busy')
    await waiting
    cell.beginHold().hold.rollback()
    expect(rowsOf(cell)).toEqual([2])
  })

  test('a change that was refused for a reader of the log works once that is gone', async () => {
    const { cell } = await opened({ limits: { walBytesMax: 200_000 }, checkpointBytes: 40_000 })
    const reader = cell.beginHold({ readOnly: true })
    reader.tx.get('SELECT * FROM t')
    const grow = () => cell.sql('INSERT INTO t VALUES (randomblob(50000))')
    expect(codeOf(() => Array.from({ length: 10 }, grow))).toBe('busy')
    expect([codeOf(grow), codeOf(grow)]).toEqual(['busy', 'busy'])
    reader.hold.rollback()
    grow()
  })

  test('those who watch hear of it once, after its end, and nothing of what was undone', async () => {
    const { cell } = await opened()
    const changes = cell.watch()
    await changes.next()
    await cell.hold(async (tx) => {
      tx.kv.put('a', '1')
      tx.savepoint('s')
      tx.kv.put('b', '2')
      tx.rollbackTo('s')
      await turnOfTheLoop()
      tx.sql('INSERT INTO t VALUES (1)')
    })
    const undone = cell.hold(async (tx) => {
      tx.kv.put('c', '3')
      throw new Error('undone')
    })
    await expect(undone).rejects.toThrow('undone')
    cell.kv.put('d', '4')
    const { value: first } = await changes.next()
    const { value: second } = await changes.next()
    expect([first, second]).toMatchObject([
      { type: 'commit', keys: ['a'], tables: ['t'] },
      { type: 'commit', keys: ['d'], tables: [] },
    ])
    await changes.return()
  })
})
