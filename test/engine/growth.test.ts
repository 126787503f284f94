import { describe, expect, test } from 'vitest'
import { openTestCell } from '../support/open-test-store.ts'
import { codeOf, thrownBy } from '../support/thrown.ts'

async function cellWithRows() {
  const { cell } = await openTestCell()
  cell.sql('CREATE TABLE t (a INTEGER PRIMARY KEY, b)')
  cell.sql(
    'WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50) INSERT INTO t SELECT i, zeroblob(3000) FROM n',
  )
  return cell
}

const pages = 'SELECT page_count AS n FROM pragma_page_count'

describe('A cell that may not grow', () => {
  test.each([0, 'none'] as const)(
    'serves reads and deletions, and what fits into the room that they leave (%s)',
    async (growth) => {
      const cell = await cellWithRows()
      const before = cell.sql(pages).rows
      cell.limitGrowth(growth)
      expect(codeOf(() => cell.sql('INSERT INTO t (b) VALUES (zeroblob(9000))'))).toBe('cell_full')
      expect(codeOf(() => cell.kv.put('k', 'x'.repeat(9_000)))).toBe('cell_full')
      expect(cell.sql('SELECT count(*) AS n FROM t').rows).toEqual([{ n: 50 }])
      expect(cell.sql('DELETE FROM t WHERE a <= 10').changes).toBe(10)
      cell.kv.put('k', 'x'.repeat(9_000))
      expect(cell.sql(pages).rows).toEqual(before)
      cell.limitGrowth('any')
      cell.sql('INSERT INTO t (b) VALUES (zeroblob(90000))')
    },
  )

  test('has room for a deletion that needs some, unless even that is too much', async () => {
    const cell = await cellWithRows()
    cell.sql('CREATE TABLE gone (b)')
    cell.sql('CREATE TRIGGER keep AFTER DELETE ON t BEGIN INSERT INTO gone VALUES (old.b); END')
    cell.sql('CREATE INDEX i ON gone (b)')
    cell.limitGrowth('none')
    expect(codeOf(() => cell.sql('DELETE FROM t WHERE a <= 10'))).toBe('cell_full')
    cell.limitGrowth(0)
    expect(cell.sql('DELETE FROM t WHERE a <= 10').changes).toBe(10)
  })
})

describe('A cell that may grow by some bytes', () => {
  const insert = (bytes: number) => `INSERT INTO t (b) VALUES (zeroblob(${bytes}))`

  test('grows by as many and no more, from the size that it has when they are set', async () => {
    const cell = await cellWithRows()
    for (let i = 0; i < 3; i++) {
      cell.limitGrowth(100_000)
      expect(cell.sql(insert(45_000)).changes).toBe(1)
      expect(thrownBy(() => cell.sql(insert(100_000)))).toMatchObject({
        code: 'cell_full',
        details: { sqliteCode: 'SQLITE_FULL', limit: 100_000 },
      })
    }
    cell.limitGrowth(300_000)
    expect(cell.sql(insert(250_000)).changes).toBe(1)
    cell.limitGrowth(0)
    expect(codeOf(() => cell.sql(insert(9_000)))).toBe('cell_full')
    cell.limitGrowth('any')
    expect(cell.sql(insert(900_000)).changes).toBe(1)
  })

  test('is never larger than a cell may be, and then names that bound', async () => {
    const { cell } = await openTestCell({ limits: { cellBytesMax: 400_000 } })
    cell.sql('CREATE TABLE t (a INTEGER PRIMARY KEY, b)')
    cell.limitGrowth(10_000_000)
    expect(cell.sql(insert(200_000)).changes).toBe(1)
    for (const growth of [10_000_000, 'any'] as const) {
      cell.limitGrowth(growth)
      expect(thrownBy(() => cell.sql(insert(300_000)))).toMatchObject({
        code: 'cell_full',
        details: { limit: 400_000 },
      })
    }
  })
})
