import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import type { Cell } from '../../src/store/open/cell.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { codeOf, rejectedBy } from '../support/thrown.ts'
import { commitsIn } from '../support/wal-commits.ts'

async function cellWithTable(): Promise<Cell> {
  const { cell } = await openTestCell()
  cell.sql('CREATE TABLE t (a PRIMARY KEY)')
  return cell
}

function rows(cell: Cell): unknown[] {
  return cell.sql('SELECT a FROM t ORDER BY rowid', [], { rowMode: 'array' }).rows.flat()
}

function insert(cell: Cell, value: number | string): Promise<number> {
  return cell.commit(() => cell.sql('INSERT INTO t VALUES (?)', [value]).changes)
}

describe('a group', () => {
  test('resolves each with what its work returned, in the order in which they came', async () => {
    const cell = await cellWithTable()
    const order: number[] = []
    const results = await Promise.all(
      Array.from({ length: 50 }, async (_, i) => {
        const value = await cell.commit(() => {
          cell.sql('INSERT INTO t VALUES (?)', [i])
          return cell.kv.incr('n')
        })
        order.push(i)
        return value
      }),
    )
    expect(results).toEqual(Array.from({ length: 50 }, (_, i) => i + 1))
    expect(order).toEqual(Array.from({ length: 50 }, (_, i) => i))
    expect(rows(cell)).toEqual(order)
  })

  test('is one transaction, so that it costs one fsync', async () => {
    const { cell, directory } = await openTestCell()
    cell.kv.put('warm', 'up')
    const wal = new StorePaths(directory).cell(cell.id).wal
    const before = commitsIn(wal)
    await Promise.all(Array.from({ length: 100 }, (_, i) => cell.commit(() => cell.kv.put(`k${i}`, 'v'))))
    expect(commitsIn(wal) - before).toBe(1)
  })

  test('of more than 512 is all carried out', async () => {
    const cell = await cellWithTable()
    const counts = await Promise.all(Array.from({ length: 1_300 }, (_, i) => insert(cell, i)))
    expect(counts.every((changes) => changes === 1)).toBe(true)
    expect(rows(cell)).toEqual(Array.from({ length: 1_300 }, (_, i) => i))
  })

  test('work may queue more work', async () => {
    const cell = await cellWithTable()
    const inner: Promise<number>[] = []
    await cell.commit(() => {
      inner.push(insert(cell, 2))
      cell.sql('INSERT INTO t VALUES (1)')
    })
    await Promise.all(inner)
    expect(rows(cell)).toEqual([1, 2])
  })

  test('transactions inside of it are savepoints', async () => {
    const cell = await cellWithTable()
    await Promise.all([
      cell.commit(() => {
        cell.sql('INSERT INTO t VALUES (1)')
        expect(() =>
          cell.transaction(() => {
            cell.sql('INSERT INTO t VALUES (2)')
            throw new Error('inner')
          }),
        ).toThrow('inner')
      }),
      insert(cell, 3),
    ])
    expect(rows(cell)).toEqual([1, 3])
  })

  test('functions that return a promise are refused', async () => {
    const cell = await cellWithTable()
    const work = async () => {
      cell.sql('INSERT INTO t VALUES (1)')
    }
    const both = await Promise.allSettled([cell.commit(work as () => unknown), insert(cell, 2)])
    expect(both.map(({ status }) => status)).toEqual(['rejected', 'fulfilled'])
    expect(rows(cell)).toEqual([2])
  })

  test('of a closed store is refused', async () => {
    const { store, cell } = await openTestCell()
    cell.kv.put('k', 'v')
    await store.close()
    expect(await rejectedBy(cell.commit(() => cell.kv.get('k')))).toMatchObject({ code: 'store_closed' })
  })

  test('that is queued when the store closes is still carried out', async () => {
    const test = await openTestCell()
    const queued = [1, 2, 3].map(() => test.cell.commit(() => test.cell.kv.incr('n')))
    const closed = test.store.close()
    expect(await Promise.all(queued)).toEqual([1, 2, 3])
    await closed
    const store = await test.reopen()
    expect(store.openCell(test.cell.id).kv.get('n')).toBe('3')
  })

  test('that is queued when the cell is deleted is still answered', async () => {
    const { store, cell } = await openTestCell()
    const queued = [1, 2].map(() => cell.commit(() => cell.kv.incr('n')))
    store.deleteCell(cell.id)
    expect(await Promise.all(queued)).toEqual([1, 2])
    expect(await rejectedBy(cell.commit(() => cell.kv.incr('n')))).toMatchObject({ code: 'cell_not_found' })
  })
})

describe('no request sees its neighbour (invariant 8)', () => {
  test('a failure is the failing one’s own', async () => {
    const cell = await cellWithTable()
    const mine = new Error('mine')
    const settled = await Promise.allSettled([
      insert(cell, 1),
      insert(cell, 1),
      cell.commit(() => {
        cell.sql('INSERT INTO t VALUES (2)')
        cell.kv.put('k', 'v')
        throw mine
      }),
      cell.commit(() => cell.sql('SELEC 1')),
      cell.commit(() => cell.kv.get('k') ?? 'none'),
      insert(cell, 3),
    ])
    expect(settled.map(({ status }) => status)).toEqual([
      'fulfilled',
      'rejected',
      'rejected',
      'rejected',
      'fulfilled',
      'fulfilled',
    ])
    expect(settled[1]).toMatchObject({ reason: { code: 'constraint_violation' } })
    expect((settled[2] as PromiseRejectedResult).reason).toBe(mine)
    expect(settled[4]).toMatchObject({ value: 'none' })
    expect(rows(cell)).toEqual([1, 3])
  })

  test('what has run before a failure runs once more; in the next 64 groups nothing does, and then again', async () => {
    const cell = await cellWithTable()
    const runs: string[] = []
    for (let group = 0; group < 67; group++) {
      const ran = { before: 0, failing: 0, after: 0 }
      const good = (when: 'before' | 'after') =>
        cell.commit(() => {
          ran[when]++
          cell.kv.incr('n')
        })
      const bad = () =>
        cell.commit(() => {
          ran.failing++
          cell.sql('INSERT INTO t VALUES (2)')
          throw new Error('mine')
        })
      const settled = await Promise.allSettled([good('before'), bad(), good('after')])
      expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
      runs.push(Object.values(ran).join())
    }
    expect(runs).toEqual(['2,1,1', ...Array(64).fill('1,1,1'), '2,1,1', '1,1,1'])
    expect(cell.kv.get('n')).toBe(String(2 * 67))
    expect(rows(cell)).toEqual([])
  })

  test('work that queues more work queues it once, whatever fails after it', async () => {
    const cell = await cellWithTable()
    const queued: Promise<unknown>[] = []
    const settled = await Promise.allSettled([
      cell.commit(() => {
        cell.kv.put('a', '1')
        queued.push(cell.commit(() => cell.kv.incr('n')))
      }),
      cell.commit(() => {
        queued.push(cell.commit(() => cell.kv.incr('n')))
        throw new Error('mine')
      }),
    ])
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
    expect(await Promise.all(queued)).toEqual([1, 2])
  })

  test('one that failed because of what a neighbour wrote, whose COMMIT then fails, runs again', async () => {
    const cell = await cellWithTable()
    cell.sql('CREATE TABLE p (id INTEGER PRIMARY KEY)')
    cell.sql('CREATE TABLE c (id INTEGER PRIMARY KEY, p REFERENCES p)')
    const settled = await Promise.allSettled([
      cell.commit(() => {
        cell.sql('PRAGMA defer_foreign_keys = ON')
        cell.sql('INSERT INTO c VALUES (1, 404)')
      }),
      cell.commit(() => void cell.sql('INSERT INTO c VALUES (1, NULL)')),
    ])
    expect(settled.map(({ status }) => status)).toEqual(['rejected', 'fulfilled'])
    expect(cell.sql('SELECT id, p FROM c').rows).toEqual([{ id: 1, p: null }])
  })

  test('a put whose condition fails is told so, and its neighbours are committed', async () => {
    const cell = await cellWithTable()
    const version = cell.kv.put('k', 'v').version
    const settled = await Promise.allSettled([
      insert(cell, 1),
      cell.commit(() => cell.kv.put('k', 'w', { ifVersion: null })),
      cell.commit(() => cell.kv.put('k', 'x', { ifVersion: version })),
    ])
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(rows(cell)).toEqual([1])
    expect(cell.kv.get('k')).toBe('x')
  })

  const ENDER = 'INSERT OR ROLLBACK INTO t VALUES (1)'

  test.each([0, 1, 5, 9])('one that ends the whole transaction is undone alone (at %i of 10)', async (at) => {
    const cell = await cellWithTable()
    cell.sql('INSERT INTO t VALUES (1)')
    const works = Array.from({ length: 10 }, (_, i) =>
      i === at ? cell.commit(() => cell.sql(ENDER)) : insert(cell, 100 + i),
    )
    const settled = await Promise.allSettled(works)
    expect(settled[at]).toMatchObject({ status: 'rejected', reason: { code: 'constraint_violation' } })
    expect(settled.filter(({ status }) => status === 'fulfilled')).toHaveLength(9)
    const others = Array.from({ length: 10 }, (_, i) => 100 + i).filter((_, i) => i !== at)
    expect(rows(cell)).toEqual([1, ...others])
  })

  test('one that ends the transaction and hides the error still fails', async () => {
    const cell = await cellWithTable()
    cell.sql('INSERT INTO t VALUES (1)')
    const swallow = () => {
      cell.sql('INSERT INTO t VALUES (50)')
      expect(codeOf(() => cell.sql(ENDER))).toBe('constraint_violation')
      expect(codeOf(() => cell.sql('INSERT INTO t VALUES (51)'))).toBe('sql_error')
      return 'all is well'
    }
    const [first, second, third] = await Promise.allSettled([
      insert(cell, 2),
      cell.commit(swallow),
      insert(cell, 3),
    ])
    expect([first?.status, second?.status, third?.status]).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(second).toMatchObject({ reason: { code: 'sql_error' } })
    expect(rows(cell)).toEqual([1, 2, 3])
  })

  test('all of them ending it is all of them failing', async () => {
    const cell = await cellWithTable()
    cell.sql('INSERT INTO t VALUES (1)')
    const settled = await Promise.allSettled(
      Array.from({ length: 20 }, () => cell.commit(() => cell.sql(ENDER))),
    )
    for (const each of settled) expect(each).toMatchObject({ reason: { code: 'constraint_violation' } })
    expect(rows(cell)).toEqual([1])
  })

  test('one that breaks a deferred foreign key, which only COMMIT finds out, fails alone', async () => {
    const cell = await cellWithTable()
    cell.sql('CREATE TABLE p (id INTEGER PRIMARY KEY)')
    cell.sql('CREATE TABLE c (p REFERENCES p DEFERRABLE INITIALLY DEFERRED)')
    const settled = await Promise.allSettled([
      insert(cell, 1),
      cell.commit(() => cell.sql('INSERT INTO c VALUES (7)')),
      insert(cell, 2),
    ])
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(settled[1]).toMatchObject({ reason: { code: 'constraint_violation' } })
    expect(rows(cell)).toEqual([1, 2])
  })

  test('one whose full-text index is damaged, which only COMMIT finds out, fails alone', async () => {
    const { cell, directory } = await openTestCell()
    cell.sql('CREATE VIRTUAL TABLE f USING fts5 (a)')
    cell.sql("INSERT INTO f (f, rank) VALUES ('crisismerge', 2)")
    cell.sql("INSERT INTO f VALUES ('alpha')")
    const other = new Database(new StorePaths(directory).cell(cell.id).database).unsafeMode()
    other.exec("UPDATE f_data SET block = x'00000004ffffffff' WHERE id > 10")
    other.close()
    const settled = await Promise.allSettled([
      cell.commit(() => cell.kv.put('a', '1').created),
      cell.commit(() => cell.sql("INSERT INTO f VALUES ('beta')")),
      cell.commit(() => cell.kv.put('b', '2').created),
    ])
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(cell.kv.get(['a', 'b'])).toEqual(['1', '2'])
    cell.sql('DROP TABLE f')
  })

  test('a schema change that is undone leaves no stale column names to the next', async () => {
    const { cell } = await openTestCell()
    cell.sql('CREATE TABLE u (old)')
    cell.sql('INSERT INTO u VALUES (1)')
    const [, after] = await Promise.allSettled([
      cell.commit(() => {
        cell.sql('ALTER TABLE u RENAME COLUMN old TO new')
        expect(cell.sql('SELECT * FROM u').rows).toEqual([{ new: 1 }])
        throw new Error('undo')
      }),
      cell.commit(() => cell.sql('SELECT * FROM u').rows),
    ])
    expect(after).toMatchObject({ value: [{ old: 1 }] })
  })

  test('a full cell fails those that do not fit, and no others', async () => {
    const { cell } = await openTestCell({ limits: { cellBytesMax: 262_144 } })
    const settled = await Promise.allSettled([
      cell.commit(() => cell.kv.put('small', 'v')),
      cell.commit(() => cell.kv.put('large', 'x'.repeat(500_000))),
      cell.commit(() => cell.kv.put('other', 'v')),
    ])
    expect(settled.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(settled[1]).toMatchObject({ reason: { code: 'cell_full' } })
    expect([cell.kv.get('small'), cell.kv.get('large'), cell.kv.get('other')]).toEqual(['v', undefined, 'v'])
  })

  test('nothing is answered before the COMMIT that holds it', async () => {
    const { cell, directory } = await openTestCell()
    cell.kv.put('warm', 'up')
    const wal = new StorePaths(directory).cell(cell.id).wal
    const commits = commitsIn(wal)
    let during = -1
    const first = cell.commit(() => cell.kv.put('a', 'v')).then(() => commitsIn(wal))
    const second = cell.commit(() => {
      during = commitsIn(wal)
    })
    await second
    expect(during).toBe(commits)
    expect(await first).toBe(commits + 1)
  })
})

test('A broken deferred foreign key fails the operation that broke it, not its neighbours in the group (invariant 8)', async () => {
  const { cell } = await openTestCell()
  cell.sql('CREATE TABLE p (a PRIMARY KEY)')
  cell.sql('CREATE TABLE k (p REFERENCES p (a) DEFERRABLE INITIALLY DEFERRED)')
  const child = cell.commit(() => cell.sql('INSERT INTO k VALUES (1)'))
  const parent = cell.commit(() => cell.sql('INSERT INTO p VALUES (1)').changes)
  expect((await rejectedBy(child)).code).toBe('constraint_violation')
  expect(await parent).toBe(1)
  expect(cell.sql('SELECT p FROM k').rows).toEqual([])
})
