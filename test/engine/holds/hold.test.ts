import fs from 'node:fs'
import path from 'node:path'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Cell } from '../../../src/store/open/cell.ts'
import type { StoreOptions } from '../../../src/store/settings/store-options.ts'
import { openTestCell } from '../../support/open-test-store.ts'
import { SEED } from '../../support/seed.ts'
import { codeOf, rejectedBy } from '../../support/thrown.ts'

const rowsOf = (cell: Cell) => cell.sql('SELECT a FROM t ORDER BY a', [], { rowMode: 'array' }).rows.flat()

async function opened(options: Omit<StoreOptions, 'clock'> = {}) {
  const subject = await openTestCell(options)
  subject.cell.sql('CREATE TABLE t (a UNIQUE)')
  return subject
}

/** Any use of it. */
const uses: ((tx: Cell) => unknown)[] = [
  (tx) => tx.sql('INSERT INTO t VALUES (99)'),
  (tx) => tx.sql('SELECT 1'),
  (tx) => tx.get('SELECT 1'),
  (tx) => tx.exec('INSERT INTO t VALUES (99)'),
  (tx) => tx.prepare('SELECT 1'),
  (tx) => tx.transaction(() => {}),
  (tx) => tx.kv.get('k'),
  (tx) => tx.kv.put('k', 'late'),
  (tx) => tx.kv.delete('k'),
  (tx) => tx.kv.incr('n'),
  (tx) => tx.kv.list(),
]

/** What each use of an ended hold throws. */
const codesOf = (tx: Cell) => new Set(uses.map((use) => codeOf(() => use(tx))))

describe('a hold is one transaction, with awaits between its statements', () => {
  test('what it does through SQL and KV is committed together once its promise has resolved', async () => {
    const { cell } = await opened()
    const value = await cell.hold(async (tx) => {
      tx.sql('INSERT INTO t VALUES (1)')
      await turnOfTheLoop()
      tx.kv.put('k', 'v', { ttlSeconds: 60 })
      tx.prepare('INSERT INTO t VALUES (?)').run(2)
      await turnOfTheLoop()
      tx.exec('INSERT INTO t VALUES (3); INSERT INTO t VALUES (4)')
      expect({ rows: rowsOf(tx), k: tx.kv.get('k'), view: tx.get('SELECT key FROM cell_kv') }).toEqual({
        rows: [1, 2, 3, 4],
        k: 'v',
        view: { key: 'k' },
      })
      return tx.kv.incr('n', 5)
    })
    expect({ value, rows: rowsOf(cell), k: cell.kv.get('k'), n: cell.kv.get('n') }).toEqual({
      value: 5,
      rows: [1, 2, 3, 4],
      k: 'v',
      n: '5',
    })
  })

  test('when its promise rejects nothing remains, and it rejects with the same', async () => {
    const { cell } = await opened()
    const mine = new Error('mine')
    const held = cell.hold(async (tx) => {
      tx.sql('INSERT INTO t VALUES (1)')
      tx.sql('CREATE TABLE u (b)')
      tx.kv.put('k', 'v')
      await turnOfTheLoop()
      throw mine
    })
    await expect(held).rejects.toBe(mine)
    expect({ rows: rowsOf(cell), k: cell.kv.get('k') }).toEqual({ rows: [] })
    expect(codeOf(() => cell.sql('SELECT * FROM u'))).toBe('sql_error')
  })

  test('work that is not async is a transaction, too: committed when it returns, undone when it throws', async () => {
    const { cell } = await opened()
    expect(await cell.hold((tx) => tx.sql('INSERT INTO t VALUES (1)').changes)).toBe(1)
    const failing = (tx: Cell): void => {
      tx.sql('INSERT INTO t VALUES (2)')
      throw new Error('mine')
    }
    await expect(cell.hold(failing)).rejects.toThrow('mine')
    await turnOfTheLoop()
    expect(rowsOf(cell)).toEqual([1])
  })

  test('an error that is caught undoes only its own statement, and a nested transaction only itself', async () => {
    const { cell } = await opened()
    await cell.hold(async (tx) => {
      tx.sql('INSERT INTO t VALUES (1)')
      expect(codeOf(() => tx.sql('INSERT INTO t VALUES (2), (1)'))).toBe('constraint_violation')
      const nested = () => {
        tx.sql('INSERT INTO t VALUES (3)')
        throw new Error('undone')
      }
      await turnOfTheLoop()
      expect(() => tx.transaction(nested as () => unknown)).toThrow('undone')
      tx.transaction(() => tx.kv.put('k', 'v'))
    })
    expect({ rows: rowsOf(cell), k: cell.kv.get('k') }).toEqual({ rows: [1], k: 'v' })
  })

  test('a deferred foreign key that is broken at the end undoes it all, and the cell can be used', async () => {
    const { cell } = await opened()
    cell.exec(
      'CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE c (p REFERENCES p DEFERRABLE INITIALLY DEFERRED)',
    )
    const held = cell.hold(async (tx) => {
      tx.sql('INSERT INTO c VALUES (7)')
    })
    expect((await rejectedBy(held)).code).toBe('constraint_violation')
    cell.sql('INSERT INTO t VALUES (1)')
    expect({ rows: rowsOf(cell), c: cell.sql('SELECT * FROM c').rows }).toEqual({ rows: [1], c: [] })
  })

  test('named savepoints undo a part of it, one inside the other', async () => {
    const { cell } = await opened()
    await cell.hold(async (tx) => {
      tx.savepoint('a')
      tx.sql('INSERT INTO t VALUES (1)')
      tx.savepoint('b "c"')
      tx.sql('INSERT INTO t VALUES (2)')
      await turnOfTheLoop()
      tx.rollbackTo('B "C"')
      tx.sql('INSERT INTO t VALUES (3)')
      tx.releaseSavepoint('b "c"')
      expect(codeOf(() => tx.rollbackTo('b "c"'))).toBe('sql_error')
      tx.savepoint('a')
      tx.sql('INSERT INTO t VALUES (4)')
      tx.rollbackTo('a')
      expect(codeOf(() => tx.transaction(() => tx.releaseSavepoint('a')))).toBe('invalid_request')
      expect(codeOf(() => tx.savepoint('a\0b'))).toBe('invalid_request')
    })
    expect(rowsOf(cell)).toEqual([1, 3])
  })

  test('what has a transaction of its own is refused inside of it', async () => {
    const { cell } = await opened()
    await cell.hold(async (tx) => {
      expect(codeOf(() => tx.migrate(['CREATE TABLE u (b)']))).toBe('invalid_request')
      expect((await rejectedBy(tx.commit(() => {}))).code).toBe('invalid_request')
      expect((await rejectedBy(tx.hold(async () => {}))).code).toBe('invalid_request')
      const target = path.join(path.dirname(fs.mkdtempSync('/tmp/cellstore-hold-')), 'never.db')
      expect((await rejectedBy(tx.export(target))).code).toBe('invalid_request')
    })
    expect(codeOf(() => cell.transaction(() => void cell.beginHold()))).toBe('invalid_request')
    for (const options of [{ timeoutMs: 0 }, { timeoutMs: 600_001 }, { other: 1 }])
      expect((await rejectedBy(cell.hold(async () => {}, options))).code).toBe('invalid_request')
  })
})

describe('whatever ends a hold early rolls it back, and each later use says so: nothing is committed on its own', () => {
  /** Begins one that has changed something. */
  function begun(cell: Cell, options: Parameters<Cell['hold']>[1] = {}) {
    const { promise, resolve } = Promise.withResolvers<void>()
    let tx: Cell | undefined
    const held = cell.hold(async (inside) => {
      tx = inside
      inside.sql('INSERT INTO t VALUES (1)')
      inside.kv.put('k', 'held')
      await promise
    }, options)
    held.catch(() => {})
    return { held, finish: resolve, tx: () => tx as Cell }
  }

  test('its time', async () => {
    const { cell, clock } = await opened()
    const { held, tx } = begun(cell, { timeoutMs: 1_000 })
    await turnOfTheLoop()
    clock.advance(1_000)
    expect(await rejectedBy(held)).toMatchObject({ code: 'transaction_timeout', details: { limit: 1_000 } })
    expect(codesOf(tx())).toEqual(new Set(['transaction_timeout']))
    cell.sql('INSERT INTO t VALUES (2)')
    expect({ rows: rowsOf(cell), k: cell.kv.get('k') }).toEqual({ rows: [2] })
  })

  test('its signal', async () => {
    const { cell } = await opened()
    const abort = new AbortController()
    const { held, tx } = begun(cell, { signal: abort.signal })
    await turnOfTheLoop()
    const reason = new Error('enough')
    abort.abort(reason)
    await expect(held).rejects.toBe(reason)
    expect(codesOf(tx())).toEqual(new Set(['transaction_lost']))
    expect(rowsOf(cell)).toEqual([])
  })

  test('a statement that ends the transaction', async () => {
    const { cell } = await opened()
    const held = cell.hold(async (tx) => {
      tx.sql('INSERT INTO t VALUES (1)')
      await turnOfTheLoop()
      expect(codeOf(() => tx.sql('INSERT OR ROLLBACK INTO t VALUES (1)'))).toBe('constraint_violation')
      expect(codesOf(tx)).toEqual(new Set(['sql_error']))
    })
    expect(await rejectedBy(held)).toMatchObject({ code: 'sql_error' })
    expect({ rows: rowsOf(cell), k: cell.kv.get('k') }).toEqual({ rows: [] })
    cell.sql('INSERT INTO t VALUES (2)')
  })

  test('a deletion of the cell', async () => {
    const { cell, store } = await opened()
    const { held, tx } = begun(cell)
    await turnOfTheLoop()
    store.deleteCell(cell.id)
    expect((await rejectedBy(held)).code).toBe('transaction_lost')
    expect(codesOf(tx())).toEqual(new Set(['transaction_lost']))
    expect(codeOf(() => cell.sql('SELECT 1'))).toBe('cell_not_found')
  })

  test('the close of the store, before which what waited is committed', async () => {
    const subject = await opened()
    const { cell } = subject
    const { held, tx } = begun(cell)
    await turnOfTheLoop()
    const waiting = cell.commit(() => cell.sql('INSERT INTO t VALUES (2)'))
    const store = await subject.reopen()
    await waiting
    expect((await rejectedBy(held)).code).toBe('transaction_lost')
    expect(codesOf(tx())).toEqual(new Set(['transaction_lost']))
    expect(rowsOf(store.openCell(cell.id))).toEqual([2])
  })

  test('a rollback after its time is none, and says nothing', async () => {
    const { cell, clock } = await opened()
    const { tx, hold } = cell.beginHold({ timeoutMs: 1_000 })
    tx.sql('INSERT INTO t VALUES (1)')
    // A statement that takes as long lets no timer come.
    const late = clock.monotonic() + 1_000
    clock.monotonic = () => late
    hold.rollback()
    expect(rowsOf(cell)).toEqual([])
  })

  test('more in the log than that may hold', async () => {
    const { cell } = await opened({ limits: { walBytesMax: 5_000_000 }, pageCacheBytes: 65_536 })
    const held = cell.hold(async (tx) => {
      for (let i = 0; i < 20; i++) {
        tx.sql('INSERT INTO t VALUES (randomblob(900000))')
        await turnOfTheLoop()
      }
    })
    expect(await rejectedBy(held)).toMatchObject({
      code: 'transaction_too_large',
      details: { limit: 5_000_000 },
    })
    expect(rowsOf(cell)).toEqual([])
  })

  test('its own end: what comes after that is a mistake', async () => {
    const { cell } = await opened()
    let committed: Cell | undefined
    let undone: Cell | undefined
    await cell.hold(async (tx) => {
      committed = tx
    })
    await cell
      .hold(async (tx) => {
        undone = tx
        throw new Error('undone')
      })
      .catch(() => {})
    expect(codesOf(committed as Cell)).toEqual(new Set(['invalid_request']))
    expect(codesOf(undone as Cell)).toEqual(new Set(['invalid_request']))
    expect({ rows: rowsOf(cell), k: cell.kv.get('k') }).toEqual({ rows: [] })
  })

  test('a full disk of cells: the pool leaves a held cell open', async () => {
    const { cell, store } = await opened({ openCellsMax: 1 })
    const { held, finish } = begun(cell)
    await turnOfTheLoop()
    for (let i = 0; i < 5; i++) store.createCell().kv.put('k', 'v')
    finish()
    await held
    expect(rowsOf(cell)).toEqual([1])
  })
})

test('holds, commits and changes in any order give what they give one after the other (invariant 8)', async () => {
  const { cell, clock } = await opened()
  cell.sql('DROP TABLE t')
  cell.sql('CREATE TABLE t (a)')
  const step = fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom('begin', 'insert', 'turn', 'outside', 'waiting') },
    { weight: 1, arbitrary: fc.constantFrom('commit', 'rollback', 'late', 'savepoint', 'back') },
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      cell.sql('DELETE FROM t')
      const committed: number[] = []
      let open:
        | { rows: number[]; saved: number[] | undefined; hold: ReturnType<Cell['beginHold']> }
        | undefined
      const waiting: number[] = []
      const answers: Promise<unknown>[] = []
      let n = 0
      const insert = (into: Cell, value: number) => into.sql('INSERT INTO t VALUES (?)', [value])
      const end = () => {
        open = undefined
      }
      for (const each of [...steps, 'rollback', 'turn']) {
        n++
        const value = n
        if (each === 'begin' && open === undefined) {
          committed.push(...waiting.splice(0))
          open = { rows: [], saved: undefined, hold: cell.beginHold({ timeoutMs: 1_000 }) }
        } else if (each === 'insert' && open !== undefined) {
          insert(open.hold.tx, value)
          open.rows.push(value)
        } else if (each === 'savepoint' && open !== undefined) {
          open.hold.tx.savepoint('s')
          open.saved = [...open.rows]
        } else if (each === 'back' && open?.saved !== undefined) {
          open.hold.tx.rollbackTo('s')
          open.rows = [...open.saved]
        } else if (each === 'outside') {
          if (open !== undefined) expect(codeOf(() => insert(cell, value))).toBe('busy')
          else {
            insert(cell, value)
            committed.push(value)
          }
        } else if (each === 'waiting') {
          answers.push(cell.commit(() => insert(cell, value)))
          waiting.push(value)
        } else if (each === 'turn') {
          for (let turn = 0; turn < 3; turn++) await turnOfTheLoop()
          if (open === undefined) committed.push(...waiting.splice(0))
        } else if (each === 'commit' && open !== undefined) {
          open.hold.hold.commit()
          committed.push(...open.rows)
          end()
        } else if (each === 'rollback' && open !== undefined) {
          open.hold.hold.rollback()
          end()
        } else if (each === 'late' && open !== undefined) {
          clock.advance(1_000)
          const { tx } = open.hold
          expect(codeOf(() => insert(tx, value))).toBe('transaction_timeout')
          end()
        }
        const rows = cell.sql('SELECT a FROM t ORDER BY rowid', [], { rowMode: 'array' }).rows.flat()
        expect(rows).toEqual(committed)
        if (open !== undefined) {
          const inside = open.hold.tx.sql('SELECT a FROM t ORDER BY rowid', [], { rowMode: 'array' }).rows
          expect(inside.flat()).toEqual([...committed, ...open.rows])
        }
      }
      await Promise.all(answers)
      expect(cell.sql('SELECT a FROM t', [], { rowMode: 'array' }).rows).toHaveLength(committed.length)
    }),
    { numRuns: 150, seed: SEED },
  )
})
