import { describe, expect, test } from 'vitest'
import type { Cell, Migration } from '../../src/store/open/cell.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { codeOf, rejectedBy, thrownBy } from '../support/thrown.ts'

/** SQLite's procedure for a change of the schema beyond ALTER TABLE, which rebuilds a table that others refer to. */
const REBUILD = `CREATE TABLE new_parent (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
  INSERT INTO new_parent (id, name) SELECT id, name FROM parent;
  DROP TABLE parent;
  ALTER TABLE new_parent RENAME TO parent;`

const ACTIONS = [
  '',
  'ON DELETE CASCADE',
  'ON DELETE SET NULL',
  'ON DELETE RESTRICT',
  'DEFERRABLE INITIALLY DEFERRED',
]

async function cellWithFamily(action = 'ON DELETE CASCADE'): Promise<Cell> {
  const { cell } = await openTestCell()
  cell.exec(`CREATE TABLE parent (id INTEGER PRIMARY KEY, name TEXT);
    CREATE TABLE child (id INTEGER PRIMARY KEY, p REFERENCES parent ${action});
    INSERT INTO parent VALUES (1, 'Ann'), (2, 'Bob');
    INSERT INTO child VALUES (10, 1), (20, 2)`)
  return cell
}

const children = (cell: Cell) =>
  cell.sql('SELECT p FROM child ORDER BY id', [], { rowMode: 'array' }).rows.flat()
const keysOf = (cell: Cell) => cell.prepare<number>('PRAGMA foreign_keys').pluck().get()
const versionOf = (cell: Cell) => cell.prepare<number>('PRAGMA user_version').pluck().get()
const orphan = (cell: Cell) => codeOf(() => cell.sql('INSERT INTO child VALUES (30, 3)'))

describe('A step of migrate()', () => {
  test.each(ACTIONS)('rebuilds a parent table, and its children stay as they are: %s', async (action) => {
    const cell = await cellWithFamily(action)
    const rebuild: Migration[] = [REBUILD, (each) => void each.exec(REBUILD), 'SELECT 1']
    expect(cell.migrate(rebuild)).toEqual({ from: 0, to: 3 })
    expect([children(cell), keysOf(cell), orphan(cell)]).toEqual([[1, 2], 1, 'constraint_violation'])
    expect(cell.sql('SELECT * FROM parent WHERE id = 1').rows).toEqual([{ id: 1, name: 'Ann', city: null }])
    expect(cell.sql('PRAGMA foreign_key_check').rows).toEqual([])
  })

  test.each<[string, Migration]>([
    ['a script', 'DELETE FROM parent WHERE id = 2'],
    ['a function', (cell) => cell.sql('DELETE FROM parent WHERE id = 2')],
  ])(
    'that leaves a row without its parent fails as a whole and names both tables: %s',
    async (_, orphaning) => {
      const cell = await cellWithFamily()
      const error = thrownBy(() => cell.migrate(['CREATE TABLE t (a)', orphaning]))
      expect(error).toMatchObject({
        code: 'constraint_violation',
        message: expect.stringMatching(/^Migration 2: .*rowid 20 .*"child" .*"parent"/),
        details: { sqliteCode: 'SQLITE_CONSTRAINT_FOREIGNKEY' },
      })
      expect([versionOf(cell), children(cell), keysOf(cell)]).toEqual([1, [1, 2], 1])
      expect(orphan(cell)).toBe('constraint_violation')
    },
  )

  test('names the table of a row without a rowid, and of a parent that is gone', async () => {
    const cell = await cellWithFamily()
    const lost =
      'CREATE TABLE lost (a PRIMARY KEY REFERENCES nowhere) WITHOUT ROWID; INSERT INTO lost VALUES (1)'
    expect(thrownBy(() => cell.migrate([lost])).message).toMatch(/^Migration 1: .*"lost".*"nowhere"/)
  })

  test('with keys that match no unique column fails, and names both tables', async () => {
    const cell = await cellWithFamily()
    expect(thrownBy(() => cell.migrate(['CREATE TABLE c (n REFERENCES parent (name))']))).toMatchObject({
      code: 'sql_error',
      message: expect.stringMatching(/^Migration 1: .*"c" referencing "parent"/),
    })
    expect(versionOf(cell)).toBe(0)
  })

  test.each<[string, Migration]>([
    [
      'throws',
      () => {
        throw new CellFailure()
      },
    ],
    ['ends its transaction', (cell) => cell.sql('INSERT OR ROLLBACK INTO child VALUES (10, 1)')],
    [
      'ends it and hides the error',
      (cell) => void codeOf(() => cell.sql('INSERT OR ROLLBACK INTO child VALUES (10, 1)')),
    ],
    ['returns a promise', (() => Promise.resolve()) as unknown as Migration],
  ])('that %s leaves foreign keys on', async (_, step) => {
    const cell = await cellWithFamily()
    expect(() => cell.migrate([step])).toThrow()
    expect([keysOf(cell), orphan(cell), versionOf(cell)]).toEqual([1, 'constraint_violation', 0])
  })

  test('that changes nothing else leaves prepared statements with their foreign keys', async () => {
    const cell = await cellWithFamily()
    const insert = cell.prepare('INSERT INTO child (p) VALUES (?)')
    const remove = cell.prepare('DELETE FROM parent WHERE id = ?')
    insert.run(1)
    cell.migrate([() => void expect(codeOf(() => insert.run('x', 'y'))).toBe('param_count_mismatch')])
    expect(codeOf(() => insert.run(3))).toBe('constraint_violation')
    remove.run(1)
    expect(children(cell)).toEqual([2])
    // In a step they have none: the same statement leaves the children, and the step fails.
    expect(codeOf(() => cell.migrate(['SELECT 1', () => remove.run(2)]))).toBe('constraint_violation')
    expect(children(cell)).toEqual([2])
  })

  test('of a program that has turned foreign keys off itself is not checked, and they stay off', async () => {
    const cell = await cellWithFamily()
    cell.sql('PRAGMA foreign_keys = OFF')
    cell.sql('INSERT INTO child VALUES (30, 3)')
    expect(cell.migrate([REBUILD])).toEqual({ from: 0, to: 1 })
    expect([keysOf(cell), children(cell)]).toEqual([0, [1, 2, 3]])
  })

  test('can mend rows that had no parent before it', async () => {
    const cell = await cellWithFamily()
    cell.sql('PRAGMA foreign_keys = OFF')
    cell.sql('INSERT INTO child VALUES (30, 3)')
    cell.sql('PRAGMA foreign_keys = ON')
    expect(codeOf(() => cell.migrate(['CREATE TABLE t (a)']))).toBe('constraint_violation')
    expect(cell.migrate(['CREATE TABLE t (a); DELETE FROM child WHERE p = 3'])).toEqual({ from: 0, to: 1 })
  })
})

class CellFailure extends Error {}

/** What sets it, in any spelling; SQLite ignores each of them inside a transaction. */
const SETS = [
  'PRAGMA foreign_keys = OFF',
  'PRAGMA foreign_keys = ON',
  'pragma FOREIGN_KEYS(0)',
  'PRAGMA main."foreign_keys"=no',
  '/* first */ PRAGMA foreign_keys/**/= 1;',
  'EXPLAIN PRAGMA foreign_keys = OFF',
]

const MEND = /does nothing inside a transaction.*migrate\(\)/

describe.each(SETS)('%s', (sql) => {
  test.each<[string, (cell: Cell) => unknown]>([
    ['exec()', (cell) => thrownBy(() => cell.exec(`SELECT 1; ${sql}`))],
    ['transaction()', (cell) => thrownBy(() => cell.transaction(() => cell.sql(sql)))],
    ['prepare() in transaction()', (cell) => thrownBy(() => cell.transaction(() => cell.prepare(sql)))],
    [
      'a statement that was prepared before',
      (cell) => {
        const statement = cell.prepare(sql)
        cell.sql('PRAGMA foreign_keys = ON')
        return thrownBy(() => cell.transaction(() => statement.run()))
      },
    ],
    ['commit()', (cell) => rejectedBy(cell.commit(() => cell.sql(sql)))],
    ['a script of migrate()', (cell) => thrownBy(() => cell.migrate([`${sql}; ${REBUILD}`]))],
    ['a function of migrate()', (cell) => thrownBy(() => cell.migrate([(each) => each.sql(sql)]))],
  ])('is refused in %s, and the message says what to do', async (_, refused) => {
    const cell = await cellWithFamily()
    expect(await refused(cell)).toMatchObject({
      code: 'statement_not_allowed',
      message: expect.stringMatching(MEND),
    })
    expect([children(cell), keysOf(cell)]).toEqual([[1, 2], 1])
  })
})

describe('PRAGMA foreign_keys', () => {
  test('can be read in a transaction, and set outside of one', async () => {
    const cell = await cellWithFamily()
    expect(cell.transaction(() => cell.sql('PRAGMA foreign_keys').rows)).toEqual([{ foreign_keys: 1 }])
    cell.sql('PRAGMA foreign_keys = OFF')
    cell.exec(REBUILD)
    cell.sql('PRAGMA foreign_keys = ON')
    expect([children(cell), orphan(cell)]).toEqual([[1, 2], 'constraint_violation'])
  })

  test('is refused to tenants with what they can use', async () => {
    const cell = await cellWithFamily()
    const error = thrownBy(() => cell.sql('PRAGMA foreign_keys = OFF', [], { policy: 'tenant' }))
    expect([error.code, error.message]).toEqual([
      'statement_not_allowed',
      expect.stringMatching(/PRAGMA defer_foreign_keys = ON.*batch/),
    ])
  })
})

describe.each(['tenant', 'trusted'] as const)('PRAGMA defer_foreign_keys of the policy %s', (policy) => {
  const asPolicy = { policy }
  const deferred = (cell: Cell) => cell.prepare<number>('PRAGMA defer_foreign_keys').pluck().get()

  test.each(['ON', '1', 'true', 'OFF', '0', '(yes)'])(
    '%s works in a transaction, and ends with it',
    async (value) => {
      const cell = await cellWithFamily('')
      const sql = `PRAGMA defer_foreign_keys ${value.startsWith('(') ? value : `= ${value}`}`
      cell.transaction(() => {
        cell.sql(sql, [], asPolicy)
        expect(deferred(cell)).toBe(/OFF|0/.test(value) ? 0 : 1)
      })
      expect([deferred(cell), orphan(cell)]).toEqual([0, 'constraint_violation'])
    },
  )

  test('is refused outside of a transaction, where it would last until some later statement (invariant 6)', async () => {
    const cell = await cellWithFamily('')
    const statement = cell.transaction(() => cell.prepare('PRAGMA defer_foreign_keys = ON', asPolicy))
    for (const run of [
      () => cell.sql('PRAGMA defer_foreign_keys = ON', [], asPolicy),
      () => cell.prepare('PRAGMA defer_foreign_keys = ON', asPolicy),
      () => statement.run(),
    ]) {
      expect(thrownBy(run)).toMatchObject({
        code: 'statement_not_allowed',
        message: expect.stringMatching(/until the end of a transaction.*batch/),
      })
      expect([deferred(cell), orphan(cell)]).toEqual([0, 'constraint_violation'])
    }
    expect(cell.sql('PRAGMA defer_foreign_keys', [], asPolicy).rows).toEqual([{ defer_foreign_keys: 0 }])
  })

  test('is over with a transaction that fails', async () => {
    const cell = await cellWithFamily('')
    const fail = () => {
      cell.sql('PRAGMA defer_foreign_keys = ON', [], asPolicy)
      cell.sql('DELETE FROM parent', [], asPolicy)
    }
    expect(codeOf(() => cell.transaction(fail))).toBe('constraint_violation')
    expect([deferred(cell), orphan(cell), children(cell)]).toEqual([0, 'constraint_violation', [1, 2]])
  })
})
