import Database from 'better-sqlite3'
import { describe, expect, onTestFinished, test } from 'vitest'
import { DEFAULT_LIMITS } from '../../../src/base/options/limits.ts'
import { openConnection } from '../../../src/engine/sqlite.ts'
import { PreparedStatements } from '../../../src/engine/statements/prepared-statements.ts'
import { openTestDatabase } from '../../support/open-test-database.ts'
import { codeOf } from '../../support/thrown.ts'

describe('cached statements follow the schema', () => {
  function prepared() {
    const database = openTestDatabase()
    database.sql('CREATE TABLE t (a, b)')
    database.sql('INSERT INTO t VALUES (1, 2)')
    const all = () => database.sql('SELECT * FROM t')
    expect(all().columns).toEqual(['a', 'b'])
    return { database, all }
  }

  test('after ALTER TABLE', () => {
    const { database, all } = prepared()
    database.sql('ALTER TABLE t RENAME COLUMN a TO c')
    expect(all().rows).toEqual([{ c: 1, b: 2 }])
    database.sql("ALTER TABLE t ADD COLUMN d DEFAULT 'x'")
    expect(all().rows).toEqual([{ c: 1, b: 2, d: 'x' }])
    database.sql('ALTER TABLE t DROP COLUMN b')
    expect(all().rows).toEqual([{ c: 1, d: 'x' }])
  })

  test('after DROP and CREATE', () => {
    const { database, all } = prepared()
    database.sql('DROP TABLE t')
    expect(codeOf(all)).toBe('sql_error')
    database.sql('CREATE TABLE t (z, y)')
    expect(all()).toMatchObject({ columns: ['z', 'y'], rows: [] })
  })

  test('after a schema change that was rolled back', () => {
    const { database, all } = prepared()
    const undone = () =>
      database.transaction(() => {
        database.sql('ALTER TABLE t RENAME COLUMN a TO c')
        expect(all().columns).toEqual(['c', 'b'])
        throw new Error('undo')
      })
    expect(undone).toThrow('undo')
    expect(all()).toMatchObject({ columns: ['a', 'b'], rows: [{ a: 1, b: 2 }] })
  })

  test('after a schema change whose transaction went on after an inner one was rolled back', () => {
    const { database, all } = prepared()
    const undone = () =>
      database.transaction(() => {
        database.sql('ALTER TABLE t RENAME COLUMN a TO c')
        const inner = () =>
          database.transaction(() => {
            database.sql('ALTER TABLE t RENAME COLUMN c TO d')
            expect(all().columns).toEqual(['d', 'b'])
            throw new Error('inner')
          })
        expect(inner).toThrow('inner')
        expect(all().columns).toEqual(['c', 'b'])
        throw new Error('outer')
      })
    expect(undone).toThrow('outer')
    expect(all()).toMatchObject({ columns: ['a', 'b'], rows: [{ a: 1, b: 2 }] })
  })

  test('after the same number of schema changes was rolled back and made otherwise', () => {
    const { database, all } = prepared()
    const rename = (to: string) => database.sql(`ALTER TABLE t RENAME COLUMN a TO ${to}`)
    const undone = () =>
      database.transaction(() => {
        rename('c')
        all()
        throw new Error('undo')
      })
    expect(undone).toThrow('undo')
    rename('d')
    expect(all().columns).toEqual(['d', 'b'])
  })

  test('after a schema change by another program, with rows and without', () => {
    const { database, all } = prepared()
    const foreign = new Database(database.path)
    foreign.exec('ALTER TABLE t RENAME COLUMN a TO c')
    expect(all()).toMatchObject({ columns: ['c', 'b'], rows: [{ c: 1, b: 2 }] })
    foreign.exec('DELETE FROM t; ALTER TABLE t RENAME COLUMN b TO d')
    expect(all()).toMatchObject({ columns: ['c', 'd'], rows: [] })
    foreign.exec('INSERT INTO t VALUES (5, 6); ALTER TABLE t ADD COLUMN e')
    expect(all().rows).toEqual([{ c: 5, d: 6, e: null }])
    expect(database.sql('SELECT * FROM t', [], { rowMode: 'array' }).rows).toEqual([[5, 6, null]])
    foreign.close()
  })

  test('where the second of two equal names comes or goes', () => {
    const { database } = prepared()
    database.sql('CREATE TABLE u (x)')
    database.sql('INSERT INTO u VALUES (7)')
    const join = () => database.sql('SELECT * FROM t, u').rows
    expect(join()).toEqual([{ a: 1, b: 2, x: 7 }])
    database.sql('ALTER TABLE u RENAME COLUMN x TO a')
    expect(join()).toEqual([{ a: 1, b: 2, a_2: 7 }])
  })

  test('where a table comes to be without rowid', () => {
    const database = openTestDatabase()
    const insert = () => database.sql("INSERT INTO t VALUES ('x')").lastInsertRowid
    database.sql('CREATE TABLE t (k PRIMARY KEY)')
    expect(insert()).toBe(1)
    database.sql('DROP TABLE t')
    database.sql('CREATE TABLE t (k PRIMARY KEY) WITHOUT ROWID')
    expect(insert()).toBeNull()
  })

  test('after another database was attached or detached', () => {
    const { database } = prepared()
    database.sql("ATTACH ':memory:' AS other")
    database.sql('CREATE TABLE other.v (a)')
    const all = () => database.sql('SELECT * FROM v').columns
    expect(all()).toEqual(['a'])
    database.sql('DETACH other')
    expect(codeOf(all)).toBe('sql_error')
  })
})

test('ten thousand different statements leave a cell as usable as before', () => {
  const database = openTestDatabase()
  for (let i = 0; i < 10_000; i++) {
    expect(database.sql(`SELECT ${i} AS n`).rows).toEqual([{ n: i }])
  }
})

test('a long text is not kept prepared, and many of some length push each other out: prepared they take megabytes', () => {
  const connection = openConnection(openTestDatabase().path)
  onTestFinished(() => void connection.close())
  const statements = new PreparedStatements(connection, { limits: DEFAULT_LIMITS }, () => false)
  const find = (n: number, length: number) =>
    statements.find(`SELECT 7 WHERE ${n} IN (${'1,'.repeat(length / 2)}1)`, 'tenant')
  const isKept = (length: number, others: number) => {
    const first = find(0, length)
    for (let i = 1; i <= others; i++) find(i, length)
    return find(0, length) === first
  }
  expect([isKept(100_000, 0), isKept(10_000, 0), isKept(10_000, 20), isKept(100, 60)]).toEqual([
    false,
    true,
    false,
    true,
  ])
})

test('a statement that was prepared as trusted is still held to the policy for a tenant', () => {
  const database = openTestDatabase({ sqlPolicy: 'trusted' })
  const sql = 'SELECT count(*) AS n FROM _cell_meta'
  expect(database.sql(sql).rows).toHaveLength(1)
  for (let i = 0; i < 3; i++) {
    expect(codeOf(() => database.sql(sql, [], { policy: 'tenant' }))).toBe('statement_not_allowed')
    expect(database.sql(sql, [], { policy: 'trusted' }).rows).toHaveLength(1)
  }
})
