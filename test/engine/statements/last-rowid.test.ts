import { expect, test } from 'vitest'
import { openTestCell } from '../../support/open-test-store.ts'
import { codeOf, thrownBy } from '../../support/thrown.ts'

const LAST = 9223372036854775807n

async function atTheEnd() {
  const { cell } = await openTestCell({ limits: { cellBytesMax: 262_144 } })
  cell.sql('CREATE TABLE ended (id INTEGER PRIMARY KEY AUTOINCREMENT, b)')
  cell.sql('CREATE TABLE fine (id INTEGER PRIMARY KEY AUTOINCREMENT, b)')
  cell.sql('INSERT INTO ended VALUES (?, ?)', [LAST, 'x'])
  return cell
}

test.each([
  'INSERT INTO ended (b) VALUES (1)',
  'INSERT INTO ended (b) VALUES (1) RETURNING id',
  'INSERT INTO fine (b) VALUES (1)',
])('%s: a table at its last rowid is named, and no cell is called full', async (statement) => {
  const cell = await atTheEnd()
  cell.sql('CREATE TRIGGER copy AFTER INSERT ON fine BEGIN INSERT INTO ended (b) VALUES (new.b); END')
  const expected = {
    code: 'sql_error',
    message: expect.stringContaining('"ended"'),
    details: { sqliteCode: 'SQLITE_FULL' },
  }
  expect(thrownBy(() => cell.sql(statement))).toMatchObject(expected)
  expect(thrownBy(() => cell.transaction(() => cell.sql(statement)))).toMatchObject(expected)
  cell.sql('DELETE FROM sqlite_sequence')
  expect(thrownBy(() => cell.sql(statement))).toMatchObject(expected)
  cell.sql('DELETE FROM ended')
  cell.sql("INSERT INTO sqlite_sequence VALUES ('ended', 7)")
  cell.sql(statement)
  expect(cell.sql('SELECT id FROM ended').rows).toEqual([{ id: 8 }])
})

test('A table at its last rowid does not hide that the cell is full', async () => {
  const cell = await atTheEnd()
  expect(codeOf(() => cell.sql('INSERT INTO fine (b) VALUES (zeroblob(300000))'))).toBe('cell_full')
  expect(codeOf(() => cell.kv.put('k', 'x'.repeat(300_000)))).toBe('cell_full')
})

test('A table that only speaks of AUTOINCREMENT does not hide that the cell is full', async () => {
  const { cell } = await openTestCell({ limits: { cellBytesMax: 262_144 } })
  cell.sql('CREATE TABLE plain (id INTEGER PRIMARY KEY /* no autoincrement */, b)')
  expect(codeOf(() => cell.sql('INSERT INTO plain (b) VALUES (zeroblob(300000))'))).toBe('cell_full')
})
