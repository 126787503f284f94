import { describe, expect, test } from 'vitest'
import { openTestCell } from '../support/open-test-store.ts'
import { codeOf } from '../support/thrown.ts'

const ALL = 'SELECT key, value, expires_at FROM cell_kv ORDER BY key'

describe('the view cell_kv', () => {
  test.each(['tenant', 'trusted'] as const)(
    'shows a %s the live entries and no others',
    async (sqlPolicy) => {
      const { clock, cell } = await openTestCell({ sqlPolicy })
      cell.kv.put('a', '1')
      cell.kv.put('b', '2', { ttlMs: 1_500 })
      const b = { key: 'b', value: '2', expires_at: clock.now() + 1_500 }
      expect(cell.sql(ALL)).toMatchObject({
        columns: ['key', 'value', 'expires_at'],
        rows: [{ key: 'a', value: '1', expires_at: null }, b],
      })
      clock.step(1_499)
      expect(cell.sql(ALL).rows).toHaveLength(2)
      clock.step(1)
      expect(cell.sql(ALL).rows).toEqual([{ key: 'a', value: '1', expires_at: null }])
    },
  )

  test('joins with tables, in whatever case and quotes its name is written', async () => {
    const { cell } = await openTestCell({ sqlPolicy: 'tenant' })
    cell.kv.put('user:1', 'online')
    cell.sql('CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT)')
    cell.sql("INSERT INTO users VALUES (1, 'Ada'), (2, 'Bob')")
    const names = ['cell_kv', 'CELL_KV', '"Cell_Kv"', '[cell_kv]', '`cell_kv`']
    for (const name of names) {
      const sql = `SELECT u.name, k.value FROM users u LEFT JOIN ${name} k ON k.key = 'user:' || u.id ORDER BY u.id`
      expect(cell.sql(sql).rows).toEqual([
        { name: 'Ada', value: 'online' },
        { name: 'Bob', value: null },
      ])
    }
  })

  test.each([
    "INSERT INTO cell_kv VALUES ('k', 'v', NULL)",
    "UPDATE cell_kv SET value = 'x'",
    'DELETE FROM cell_kv',
  ])('cannot be written: %s', async (sql) => {
    for (const sqlPolicy of ['tenant', 'trusted'] as const) {
      const { cell } = await openTestCell({ sqlPolicy })
      cell.kv.put('k', 'v')
      expect(['sql_error', 'statement_not_allowed']).toContain(codeOf(() => cell.sql(sql)))
      expect(cell.kv.get('k')).toBe('v')
    }
  })

  test.each([
    'DROP VIEW cell_kv',
    'CREATE TABLE cell_kv (a)',
    'CREATE VIEW cell_kv AS SELECT 1',
    'ALTER TABLE cell_kv RENAME TO x',
    'CREATE TRIGGER t INSTEAD OF INSERT ON cell_kv BEGIN SELECT 1; END',
  ])('cannot be changed by a tenant: %s', async (sql) => {
    const { cell } = await openTestCell({ sqlPolicy: 'tenant' })
    cell.kv.put('k', 'v')
    expect(codeOf(() => cell.sql(sql))).toBe('statement_not_allowed')
    expect(cell.sql(ALL).rows).toHaveLength(1)
  })

  test('is there again when the transaction that mentioned it first was rolled back', async () => {
    const { cell } = await openTestCell()
    cell.kv.put('k', 'v')
    const first = () =>
      cell.transaction(() => {
        expect(cell.sql(ALL).rows).toHaveLength(1)
        throw new Error('undo')
      })
    expect(first).toThrow('undo')
    expect(cell.sql(ALL).rows).toHaveLength(1)
  })

  test('is there again when only a savepoint, or one member of a group, was rolled back', async () => {
    const { cell } = await openTestCell()
    cell.kv.put('k', 'v')
    const mention = () => {
      expect(cell.sql(ALL).rows).toHaveLength(1)
      throw new Error('undo')
    }
    const [failed, after] = await Promise.allSettled([
      cell.commit(mention),
      cell.commit(() => cell.sql(ALL).rows.length),
    ])
    expect([failed?.status, after]).toEqual(['rejected', { status: 'fulfilled', value: 1 }])
    cell.transaction(() => {
      expect(() => cell.transaction(mention)).toThrow('undo')
      expect(cell.sql(ALL).rows).toHaveLength(1)
    })
    expect(cell.sql(ALL).rows).toHaveLength(1)
  })

  test('is there after the pool has closed and opened the cell', async () => {
    const { store, cell } = await openTestCell({ openCellsMax: 1 })
    cell.kv.put('k', 'v')
    expect(cell.sql(ALL).rows).toHaveLength(1)
    store.createCell().kv.put('other', 'v')
    expect(cell.sql(ALL).rows).toHaveLength(1)
  })

  test('leaves nothing in the file that another program would stumble over', async () => {
    const { cell } = await openTestCell()
    cell.kv.put('k', 'v')
    cell.sql(ALL)
    const { rows } = cell.sql(
      "SELECT name FROM main.sqlite_schema WHERE name LIKE '%cell_kv%' AND type <> 'index'",
    )
    expect(rows).toEqual([{ name: '_cell_kv' }])
  })
})
