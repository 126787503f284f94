import { describe, expect, test } from 'vitest'
import type { Cell } from '../../src/store/open/cell.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { codeOf, thrownBy } from '../support/thrown.ts'

function rows(cell: Cell): unknown[] {
  return cell.sql('SELECT a FROM t ORDER BY a', [], { rowMode: 'array' }).rows.flat()
}

async function cellWithTable(): Promise<Cell> {
  const { cell } = await openTestCell()
  cell.sql('CREATE TABLE t (a PRIMARY KEY)')
  return cell
}

describe('both or neither', () => {
  test('SQL and KV are committed together, and the value of the function is returned', async () => {
    const cell = await cellWithTable()
    const value = cell.transaction(() => {
      cell.sql('INSERT INTO t VALUES (1)')
      cell.kv.put('k', 'v')
      return cell.kv.incr('n', 5)
    })
    expect(value).toBe(5)
    expect({ rows: rows(cell), k: cell.kv.get('k'), n: cell.kv.get('n') }).toEqual({
      rows: [1],
      k: 'v',
      n: '5',
    })
  })

  test('when the function throws nothing remains, and what it threw is thrown', async () => {
    const cell = await cellWithTable()
    cell.kv.put('k', 'before')
    const thrown = new Error('mine')
    const work = () => {
      cell.sql('INSERT INTO t VALUES (1)')
      cell.sql('CREATE TABLE u (b)')
      cell.kv.put('k', 'after')
      cell.kv.put([{ key: 'm', value: 'x' }])
      throw thrown
    }
    expect(() => cell.transaction(work as () => unknown)).toThrow(thrown)
    expect({ rows: rows(cell), k: cell.kv.get('k'), m: cell.kv.get('m') }).toEqual({ rows: [], k: 'before' })
    expect(codeOf(() => cell.sql('SELECT * FROM u'))).toBe('sql_error')
  })

  test('an error that the function catches undoes only its own statement', async () => {
    const cell = await cellWithTable()
    cell.transaction(() => {
      cell.sql('INSERT INTO t VALUES (1)')
      expect(codeOf(() => cell.sql('INSERT INTO t VALUES (2), (1)'))).toBe('constraint_violation')
      cell.sql('INSERT INTO t VALUES (3)')
    })
    expect(rows(cell)).toEqual([1, 3])
  })

  test('a deferred foreign key that is broken at the end undoes it all', async () => {
    const { cell } = await openTestCell()
    cell.sql('CREATE TABLE p (id INTEGER PRIMARY KEY)')
    cell.sql('CREATE TABLE c (p REFERENCES p DEFERRABLE INITIALLY DEFERRED)')
    const error = thrownBy(() => cell.transaction(() => cell.sql('INSERT INTO c VALUES (1)')))
    expect(error).toMatchObject({
      code: 'constraint_violation',
      details: { sqliteCode: 'SQLITE_CONSTRAINT_FOREIGNKEY' },
    })
    expect(cell.sql('SELECT * FROM c').rows).toEqual([])
    cell.transaction(() => {
      cell.sql('INSERT INTO c VALUES (1)')
      cell.sql('INSERT INTO p VALUES (1)')
    })
    expect(cell.sql('SELECT * FROM c').rows).toEqual([{ p: 1 }])
  })
})

describe('a transaction inside another', () => {
  test('is undone alone when it throws', async () => {
    const cell = await cellWithTable()
    cell.transaction(() => {
      cell.sql('INSERT INTO t VALUES (1)')
      expect(() =>
        cell.transaction(() => {
          cell.sql('INSERT INTO t VALUES (2)')
          cell.kv.put('k', 'v')
          throw new Error('inner')
        }),
      ).toThrow('inner')
      cell.transaction(() => cell.transaction(() => cell.sql('INSERT INTO t VALUES (3)')))
    })
    expect({ rows: rows(cell), k: cell.kv.get('k') }).toEqual({ rows: [1, 3] })
  })

  test('is undone with the outer one', async () => {
    const cell = await cellWithTable()
    const work = () => {
      cell.transaction(() => cell.sql('INSERT INTO t VALUES (1)'))
      throw new Error('outer')
    }
    expect(() => cell.transaction(work as () => unknown)).toThrow('outer')
    expect(rows(cell)).toEqual([])
  })

  test('twenty deep, each third one failing', async () => {
    const cell = await cellWithTable()
    const nest = (depth: number) => {
      cell.sql('INSERT INTO t VALUES (?)', [depth])
      try {
        if (depth < 20) cell.transaction(() => nest(depth + 1))
      } finally {
        if (depth % 7 === 0) expect(cell.sql('SELECT count(*) AS n FROM t').rows).not.toEqual([{ n: 0 }])
      }
      if (depth === 9) throw new Error('nine')
    }
    cell.transaction(() => {
      cell.sql('INSERT INTO t VALUES (0)')
      expect(() => cell.transaction(() => nest(1))).toThrow('nine')
    })
    expect(rows(cell)).toEqual([0])
  })

  test('one of another cell is a transaction of that cell', async () => {
    const { store, cell } = await openTestCell()
    const other = store.createCell()
    expect(() =>
      cell.transaction(() => {
        cell.kv.put('k', 'v')
        other.transaction(() => other.kv.put('k', 'v'))
        throw new Error('mine')
      }),
    ).toThrow('mine')
    expect([cell.kv.get('k'), other.kv.get('k')]).toEqual([undefined, 'v'])
  })
})

describe('functions that return a promise', () => {
  test('are refused, and what they did before their first await is undone', async () => {
    const cell = await cellWithTable()
    const work = async () => {
      cell.sql('INSERT INTO t VALUES (1)')
    }
    expect(codeOf(() => cell.transaction(work as () => unknown))).toBe('invalid_request')
    // biome-ignore lint/suspicious/noThenProperty: a thenable of somebody else's making
    expect(codeOf(() => cell.transaction((): unknown => ({ then() {} })))).toBe('invalid_request')
    expect(codeOf(() => cell.transaction(() => cell.transaction(work as () => unknown)))).toBe(
      'invalid_request',
    )
    expect(rows(cell)).toEqual([])
  })

  test('and reject are no unhandled rejection', async () => {
    const cell = await cellWithTable()
    const work = async () => {
      throw new Error('nobody awaits this')
    }
    expect(codeOf(() => cell.transaction(work as () => unknown))).toBe('invalid_request')
    // An unhandled rejection is reported in a later turn, and fails the run.
    await new Promise((resolve) => setImmediate(resolve))
  })
})

/** Statements that end the whole transaction, on a table t that holds row 1. */
const ENDERS = [
  'INSERT OR ROLLBACK INTO t VALUES (1)',
  'UPDATE OR ROLLBACK t SET a = 1 WHERE a = 2',
  'INSERT INTO banned VALUES (1)',
  'INSERT OR ROLLBACK INTO t VALUES (1) RETURNING a',
]

async function cellWithEnders(): Promise<Cell> {
  const cell = await cellWithTable()
  cell.sql('CREATE TABLE banned (a)')
  cell.sql("CREATE TRIGGER ban BEFORE INSERT ON banned BEGIN SELECT RAISE(ROLLBACK, 'banned'); END")
  cell.sql('INSERT INTO t VALUES (1), (2)')
  return cell
}

describe('a statement that ends the whole transaction (invariant 6)', () => {
  test.each(ENDERS)('%s: nothing after it is committed, and the cell is usable afterwards', async (ender) => {
    const cell = await cellWithEnders()
    const seen: unknown[] = []
    const work = () => {
      cell.sql('INSERT INTO t VALUES (10)')
      seen.push(codeOf(() => cell.sql(ender)))
      seen.push(codeOf(() => cell.sql('INSERT INTO t VALUES (11)')))
      seen.push(codeOf(() => cell.sql('SELECT 1')))
      seen.push(codeOf(() => cell.kv.put('k', 'v')))
      seen.push(codeOf(() => cell.kv.incr('n')))
      seen.push(codeOf(() => cell.kv.get('k')))
      seen.push(codeOf(() => cell.transaction(() => cell.sql('INSERT INTO t VALUES (12)'))))
    }
    expect(thrownBy(() => cell.transaction(work as () => unknown))).toMatchObject({ code: 'sql_error' })
    expect(seen).toEqual(['constraint_violation', ...Array(6).fill('sql_error')])
    expect({ rows: rows(cell), k: cell.kv.get('k'), n: cell.kv.get('n') }).toEqual({ rows: [1, 2] })
    cell.sql('INSERT INTO t VALUES (13)')
    expect(cell.transaction(() => cell.kv.incr('n'))).toBe(1)
    expect(rows(cell)).toEqual([1, 2, 13])
  })

  test.each(ENDERS)('%s inside an inner transaction ends the outer one too', async (ender) => {
    const cell = await cellWithEnders()
    const work = () => {
      cell.sql('INSERT INTO t VALUES (10)')
      expect(codeOf(() => cell.transaction(() => cell.sql(ender)))).toBe('constraint_violation')
      expect(codeOf(() => cell.sql('INSERT INTO t VALUES (11)'))).toBe('sql_error')
      return 'swallowed'
    }
    expect(codeOf(() => cell.transaction(work as () => unknown))).toBe('sql_error')
    expect(rows(cell)).toEqual([1, 2])
  })

  test('outside a transaction it is an error like any other', async () => {
    const cell = await cellWithEnders()
    for (const ender of ENDERS) expect(codeOf(() => cell.sql(ender))).toBe('constraint_violation')
    cell.sql('INSERT INTO t VALUES (3)')
    expect(rows(cell)).toEqual([1, 2, 3])
  })

  test('a full cell that ends it inside a KV call is noticed too', async () => {
    const { cell } = await openTestCell({ limits: { cellBytesMax: 262_144, valueBytesMax: 1_000_000 } })
    cell.sql('CREATE TABLE t (a)')
    const work = () => {
      cell.sql('INSERT INTO t VALUES (1)')
      for (const key of ['a', 'b']) {
        expect(codeOf(() => cell.kv.put([{ key, value: 'x'.repeat(500_000) }]))).not.toBe('internal')
      }
      // If SQLite rolled everything back, this must not be a transaction of its own.
      try {
        cell.sql('INSERT INTO t VALUES (2)')
      } catch {}
      throw new Error('undo')
    }
    expect(() => cell.transaction(work as () => unknown)).toThrow()
    expect(cell.sql('SELECT * FROM t').rows).toEqual([])
  })
})

describe('SQL for transactions', () => {
  test.each([
    'BEGIN',
    'begin immediate',
    'COMMIT',
    'END',
    'ROLLBACK',
    'SAVEPOINT a',
    'RELEASE a',
    'ROLLBACK TO a',
    '/* */ BEGIN',
    '; BEGIN',
    'EXPLAIN BEGIN',
  ])('%s is refused also where SQL is trusted, in and outside a transaction', async (sql) => {
    const { cell } = await openTestCell({ sqlPolicy: 'trusted' })
    expect(codeOf(() => cell.sql(sql))).toBe('statement_not_allowed')
    expect(codeOf(() => cell.transaction(() => cell.sql(sql)))).toBe('statement_not_allowed')
    expect(cell.transaction(() => cell.kv.incr('n'))).toBe(1)
  })
})
