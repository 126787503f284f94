import { describe, expect, test } from 'vitest'
import type { Cell } from '../../src/store/open/cell.ts'
import { openTestCell, openTestStore } from '../support/open-test-store.ts'
import { tempDirectory } from '../support/temp-directory.ts'
import { codeOf, thrownBy } from '../support/thrown.ts'

async function cellWithUsers(): Promise<Cell> {
  const { cell } = await openTestCell()
  cell.exec(`
    CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT, age INTEGER);
    INSERT INTO users VALUES (1, 'Ann', 31), (2, 'Bob', 45), (3, 'Cleo', 27);
  `)
  return cell
}

describe('the methods of a prepared statement', () => {
  test('get gives the first row, and undefined if there is none', async () => {
    const statement = (await cellWithUsers()).prepare('SELECT name, age FROM users WHERE id >= ? ORDER BY id')
    expect([statement.get(2), statement.get([3]), statement.get(4)]).toEqual([
      { name: 'Bob', age: 45 },
      { name: 'Cleo', age: 27 },
      undefined,
    ])
  })

  test('all gives all rows, and run what has changed', async () => {
    const cell = await cellWithUsers()
    expect(cell.prepare('INSERT INTO users (name, age) VALUES (?, ?)').run('Dan', 50)).toEqual({
      changes: 1,
      lastInsertRowid: 4,
    })
    const older = cell.prepare<{ name: string }>('SELECT name FROM users WHERE age > :age ORDER BY age')
    expect(older.all({ age: 40 })).toEqual([{ name: 'Bob' }, { name: 'Dan' }])
    expect(cell.prepare('DELETE FROM users WHERE age > ?').run(40)).toEqual({
      changes: 2,
      lastInsertRowid: null,
    })
  })

  test('pluck and raw choose the form of a row for get, all and iterate', async () => {
    const statement = (await cellWithUsers()).prepare<unknown>('SELECT name, age FROM users ORDER BY id')
    const forms = () => [statement.get(), statement.all()[1], [...statement.iterate()][2]]
    expect(statement.pluck()).toBe(statement)
    expect(forms()).toEqual(['Ann', 'Bob', 'Cleo'])
    statement.raw()
    expect(forms()).toEqual([
      ['Ann', 31],
      ['Bob', 45],
      ['Cleo', 27],
    ])
    statement.raw(false)
    expect(forms()[0]).toEqual({ name: 'Ann', age: 31 })
    expect(statement.pluck().pluck(false).get()).toEqual({ name: 'Ann', age: 31 })
  })

  test('values come back as from sql(): exact integers, byte arrays, columns of one name', async () => {
    const cell = await cellWithUsers()
    const sql = "SELECT 9007199254740993 AS big, 7 AS small, x'0102' AS bytes, NULL AS none, 1.5 AS real"
    const twice = 'SELECT 1 AS a, 2 AS a'
    const odd = 'SELECT 1 AS "__proto__", 2 AS b'
    for (const text of [sql, twice, odd]) {
      const [row] = cell.sql(text).rows
      const statement = cell.prepare(text)
      expect(statement.get()).toStrictEqual(row)
      expect(cell.get(text)).toStrictEqual(row)
      expect([...statement.iterate()]).toStrictEqual([row])
    }
    expect(cell.prepare(sql).get()).toStrictEqual({
      big: 9007199254740993n,
      small: 7,
      bytes: Uint8Array.of(1, 2),
      none: null,
      real: 1.5,
    })
  })

  test.each<[got: string, params: unknown[]]>([
    ['integer 1', [1]],
    ['text x', ['x']],
    ['null null', [null]],
    ['integer 2', [[2]]],
    ['real 1.0', [{ type: 'real', value: 1 }]],
    ['blob A', [Uint8Array.of(65)]],
    ['integer 3', [3n]],
    ['integer 4', [{ 1: 4 }]],
    ['integer 1', [true]],
  ])('a lone argument is a value, a list or an object of names: %s', async (got, params) => {
    const { cell } = await openTestCell()
    const statement = cell.prepare("SELECT typeof(?1) || ' ' || ifnull(CAST(?1 AS TEXT), 'null')").pluck()
    expect(statement.get(...(params as [number]))).toBe(got)
  })

  test('a missing, an undefined and a superfluous value are refused', async () => {
    const statement = (await cellWithUsers()).prepare('SELECT * FROM users WHERE id = ?')
    expect([
      codeOf(() => statement.get()),
      codeOf(() => statement.get(1, 2)),
      codeOf(() => statement.get(undefined as unknown as null)),
    ]).toEqual(['param_count_mismatch', 'param_count_mismatch', 'invalid_parameter'])
  })

  test('RETURNING: get gives the first row and makes all of the change', async () => {
    const cell = await cellWithUsers()
    expect(cell.prepare('UPDATE users SET age = age + 1 RETURNING age').pluck().get()).toBe(32)
    expect(cell.prepare('SELECT sum(age) FROM users').pluck().get()).toBe(31 + 45 + 27 + 3)
    expect(cell.prepare('DELETE FROM users WHERE id < 3 RETURNING id').run().changes).toBe(2)
  })

  test('get of a statement without rows is refused before it has run', async () => {
    const cell = await cellWithUsers()
    const statement = cell.prepare('DELETE FROM users')
    expect([statement.reader, cell.prepare('SELECT 1').reader]).toEqual([false, true])
    expect(thrownBy(() => statement.get())).toMatchObject({
      code: 'invalid_request',
      message: 'The statement gives no rows: use cell.sql(), or run() of a prepared statement.',
    })
    expect(codeOf(() => cell.get('DELETE FROM users'))).toBe('invalid_request')
    expect(cell.get('SELECT count(*) AS n FROM users')).toEqual({ n: 3 })
  })

  test('a wrong text is refused by prepare, and a tenant’s by the policy', async () => {
    const { cell } = await openTestCell()
    expect([
      codeOf(() => cell.prepare('SELEC 1')),
      codeOf(() => cell.prepare('SELECT 1; SELECT 2')),
      codeOf(() => cell.prepare('BEGIN')),
      codeOf(() => cell.prepare('SELECT * FROM _cell_kv', { policy: 'tenant' })),
    ]).toEqual(['sql_error', 'multiple_statements', 'statement_not_allowed', 'statement_not_allowed'])
  })

  test('limits bound a result', async () => {
    const cell = await cellWithUsers()
    const statement = cell.prepare('SELECT * FROM users', { limits: { rowsMax: 2, bytesMax: 1_000 } })
    expect(codeOf(() => statement.all())).toBe('result_too_large')
    expect(codeOf(() => statement.iterate().next())).toBe('result_too_large')
    expect(statement.get()).toMatchObject({ id: 1 })
  })
})

describe('iterate', () => {
  test('gives the rows of one state, whatever happens to the cell between two steps', async () => {
    const { cell, store } = await openTestCell({ openCellsMax: 1 })
    cell.exec('CREATE TABLE t (n); INSERT INTO t VALUES (1), (2), (3), (4)')
    const rows = cell.prepare<number>('SELECT n FROM t ORDER BY n').pluck().iterate()
    expect(rows.next().value).toBe(1)
    cell.sql('UPDATE t SET n = n * 10')
    expect(rows.next().value).toBe(2)
    await cell.commit(() => cell.sql('DROP TABLE t'))
    store.createCell().sql('SELECT 1')
    expect(rows.next().value).toBe(3)
    store.deleteCell(cell.id)
    expect([...rows]).toEqual([4])
  })

  test('stops early without a trace: the cell can be changed and closed', async () => {
    const test = await openTestCell()
    const { cell } = test
    cell.exec('CREATE TABLE t (n); INSERT INTO t VALUES (1), (2), (3)')
    for (const row of cell.prepare('SELECT n FROM t').iterate()) {
      cell.sql('INSERT INTO t VALUES (?)', [row['n'] as number])
      break
    }
    await test.reopen()
    expect(test.store.openCell(cell.id).get('SELECT count(*) AS n FROM t')).toEqual({ n: 4 })
  })

  test('reads nothing before its first step, and no more than 64 MiB', async () => {
    const { cell } = await openTestCell()
    const rows = cell
      .prepare(
        'WITH n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 70) SELECT zeroblob(1048576) FROM n',
      )
      .iterate()
    expect(thrownBy(() => rows.next()).details).toEqual({ limit: 64 * 1_048_576 })
  })
})

describe('a prepared statement stays valid', () => {
  test('while the pool closes and reopens the file', async () => {
    const { store } = await openTestStore({ openCellsMax: 1 })
    const cells = [store.createCell(), store.createCell()]
    const statements = cells.map((cell, i) => {
      cell.exec(`CREATE TABLE t (n); INSERT INTO t VALUES (${i})`)
      return cell.prepare('SELECT n FROM t').pluck()
    })
    for (let round = 0; round < 3; round++)
      expect(statements.map((statement) => statement.get())).toEqual([0, 1])
  })

  test('after a change of the schema, whose columns it then has', async () => {
    const cell = await cellWithUsers()
    const all = cell.prepare('SELECT * FROM users WHERE id = ?')
    expect(Object.keys(all.get(1) ?? {})).toEqual(['id', 'name', 'age'])
    cell.sql('ALTER TABLE users RENAME COLUMN age TO years')
    cell.sql('ALTER TABLE users ADD COLUMN city')
    expect(all.get(1)).toEqual({ id: 1, name: 'Ann', years: 31, city: null })
    cell.sql('DROP TABLE users')
    expect(thrownBy(() => all.get(1))).toMatchObject({ code: 'sql_error', message: 'no such table: users' })
  })

  test('after a schema change that was rolled back', async () => {
    const cell = await cellWithUsers()
    const all = cell.prepare('SELECT * FROM users WHERE id = 1')
    const undone = new Error('undone')
    expect(() =>
      cell.transaction(() => {
        cell.sql('ALTER TABLE users ADD COLUMN city')
        expect(Object.keys(all.get() ?? {})).toHaveLength(4)
        throw undone
      }),
    ).toThrow(undone)
    expect(Object.keys(all.get() ?? {})).toHaveLength(3)
  })

  test('after a restore: it reads the restored data', async () => {
    const { cell, store } = await openTestCell({ objectStore: `file://${tempDirectory()}/objects` })
    cell.exec('CREATE TABLE t (n); INSERT INTO t VALUES (1)')
    const { version } = await store.backups.snapshot(cell.id)
    const statement = cell.prepare('SELECT n FROM t').pluck()
    cell.sql('UPDATE t SET n = 2')
    expect(statement.get()).toBe(2)
    await store.backups.restore(cell.id, { version })
    expect(statement.get()).toBe(1)
  })

  test('until the cell is deleted or the store is closed, which the error says', async () => {
    const { store } = await openTestStore()
    const [deleted, closed] = [store.createCell(), store.createCell()]
    const statements = [deleted, closed].map((cell) => cell.prepare('SELECT 1'))
    store.deleteCell(deleted.id)
    await store.close()
    expect(statements.map((statement) => codeOf(() => statement.get()))).toEqual([
      'store_closed',
      'store_closed',
    ])
    expect(statements.map((statement) => codeOf(() => statement.iterate().next()))).toEqual([
      'store_closed',
      'store_closed',
    ])
  })

  test('of a deleted cell says that there is none', async () => {
    const { cell, store } = await openTestCell()
    const statement = cell.prepare('SELECT 1')
    store.deleteCell(cell.id)
    expect(codeOf(() => statement.get())).toBe('cell_not_found')
  })
})
