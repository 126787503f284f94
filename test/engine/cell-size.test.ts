import fs from 'node:fs'
import { describe, expect, test } from 'vitest'
import { StorePaths } from '../../src/engine/cell-path.ts'
import { openTestCell } from '../fixtures/open-test-store.ts'
import { codeOf, thrownBy } from '../fixtures/thrown.ts'

const LIMIT = 262_144

describe('a cell that is full', () => {
  test('refuses what would make it larger, with the limit; reads and deletes still work, and make room', async () => {
    const { cell, directory } = await openTestCell({ limits: { cellBytesMax: LIMIT } })
    cell.sql('CREATE TABLE t (a INTEGER PRIMARY KEY, b)')
    let rows = 0
    const fill = () => {
      for (;;) {
        cell.sql('INSERT INTO t (b) VALUES (zeroblob(3000))')
        rows++
      }
    }
    expect(thrownBy(fill)).toMatchObject({
      code: 'cell_full',
      details: { limit: LIMIT, sqliteCode: 'SQLITE_FULL' },
    })
    expect(rows).toBeGreaterThan(40)
    expect(codeOf(() => cell.kv.put('k', 'x'.repeat(5_000)))).toBe('cell_full')
    expect(cell.sql('SELECT count(*) AS n FROM t').rows).toEqual([{ n: rows }])
    expect(cell.kv.get('k')).toBeUndefined()
    expect(cell.sql('DELETE FROM t WHERE a % 2').changes).toBeGreaterThan(20)
    cell.kv.put('k', 'x'.repeat(5_000))
    cell.sql('INSERT INTO t (b) VALUES (zeroblob(3000))')
    expect(fs.statSync(new StorePaths(directory).cell(cell.id).database).size).toBeLessThanOrEqual(LIMIT)
  })

  test('holds the limit again after it was opened again', async () => {
    const test = await openTestCell({ limits: { cellBytesMax: LIMIT } })
    await test.reopen()
    const cell = test.store.openCell(test.cell.id)
    cell.sql('CREATE TABLE t (b)')
    expect(codeOf(() => cell.sql('INSERT INTO t VALUES (zeroblob(300000))'))).toBe('cell_full')
  })

  test('with a limit below its size still serves reads and deletes', async () => {
    const test = await openTestCell()
    test.cell.sql('CREATE TABLE t (b)')
    test.cell.sql('INSERT INTO t VALUES (zeroblob(500000)), (zeroblob(1000))')
    await test.reopen({ limits: { cellBytesMax: LIMIT } })
    const cell = test.store.openCell(test.cell.id)
    expect(codeOf(() => cell.sql('INSERT INTO t VALUES (zeroblob(100000))'))).toBe('cell_full')
    expect(cell.sql('DELETE FROM t WHERE length(b) > 1000').changes).toBe(1)
    cell.sql('INSERT INTO t VALUES (zeroblob(100000))')
    expect(cell.sql('SELECT sum(length(b)) AS n FROM t').rows).toEqual([{ n: 101_000 }])
  })

  test('does not keep another cell from growing', async () => {
    const { cell, store } = await openTestCell({ limits: { cellBytesMax: LIMIT } })
    const other = store.createCell()
    expect(codeOf(() => cell.kv.put('k', 'x'.repeat(400_000)))).toBe('cell_full')
    other.kv.put('k', 'x'.repeat(100_000))
  })
})
