import { expect, test } from 'vitest'
import type { Cell } from '../../src/store/open/cell.ts'
import { openTestCell } from '../support/open-test-store.ts'
import { rejectedBy } from '../support/thrown.ts'

/** Foreign keys that are judged only at COMMIT: a neighbour of the group could repair them, or break them (invariant 8). */

const insertParent = (cell: Cell) => cell.commit(() => cell.sql('INSERT INTO parent VALUES (5)').changes)

test('A table with deferred foreign keys that is made in a group is not repaired by a neighbour', async () => {
  const { cell } = await openTestCell()
  cell.sql('CREATE TABLE parent (id INTEGER PRIMARY KEY)')
  const child = cell.commit(() => {
    cell.sql('CREATE TABLE child (p REFERENCES parent DEFERRABLE INITIALLY DEFERRED)')
    cell.sql('INSERT INTO child VALUES (5)')
  })
  const parent = insertParent(cell)
  expect((await rejectedBy(child)).code).toBe('constraint_violation')
  expect(await parent).toBe(1)
  expect(cell.sql("SELECT name FROM sqlite_schema WHERE name = 'child'").rows).toEqual([])
})

test('Foreign keys that one piece of work defers are repaired by no neighbour', async () => {
  const { cell } = await openTestCell()
  cell.exec('CREATE TABLE parent (id INTEGER PRIMARY KEY); CREATE TABLE child (p REFERENCES parent)')
  const child = cell.commit(() => {
    cell.sql('PRAGMA defer_foreign_keys = ON')
    cell.sql('INSERT INTO child VALUES (5)')
  })
  const parent = insertParent(cell)
  expect((await rejectedBy(child)).code).toBe('constraint_violation')
  expect(await parent).toBe(1)
  expect(cell.sql('SELECT p FROM child').rows).toEqual([])
})

test('Foreign keys that one piece of work defers are judged at once for its neighbours, also if it fails', async () => {
  const { cell } = await openTestCell()
  cell.exec('CREATE TABLE parent (id INTEGER PRIMARY KEY); CREATE TABLE child (p REFERENCES parent)')
  const deferring = cell.commit(() => {
    cell.sql('PRAGMA defer_foreign_keys = ON')
    throw new Error('given up')
  })
  const child = cell.commit(() => {
    cell.sql('INSERT INTO child VALUES (5)')
    cell.sql('INSERT INTO parent VALUES (5)')
  })
  const other = cell.commit(() => cell.kv.put('k', 'v').created)
  await expect(deferring).rejects.toThrow('given up')
  expect((await rejectedBy(child)).code).toBe('constraint_violation')
  expect(await other).toBe(true)
})

test('Keys that one piece of work defers are not repaired if a neighbour has the deferral taken back', async () => {
  const { cell } = await openTestCell()
  cell.exec('CREATE TABLE parent (id INTEGER PRIMARY KEY); CREATE TABLE child (p REFERENCES parent)')
  const child = cell.commit(() => {
    cell.sql('PRAGMA defer_foreign_keys = ON')
    cell.sql('INSERT INTO child VALUES (5)')
  })
  const other = cell.commit(() => cell.sql('PRAGMA defer_foreign_keys = OFF').changes)
  expect((await rejectedBy(child)).code).toBe('constraint_violation')
  expect(await other).toBe(0)
  expect(cell.sql('SELECT p FROM child').rows).toEqual([])
})

test('A table with deferred foreign keys that is made in a group is not dropped by a neighbour', async () => {
  const { cell } = await openTestCell()
  cell.sql('CREATE TABLE parent (id INTEGER PRIMARY KEY)')
  const child = cell.commit(() => {
    cell.sql('CREATE TABLE child (p REFERENCES parent DEFERRABLE INITIALLY DEFERRED)')
    cell.sql('INSERT INTO child VALUES (5)')
  })
  const drop = cell.commit(() => cell.sql('DROP TABLE child').changes)
  expect((await rejectedBy(child)).code).toBe('constraint_violation')
  expect((await rejectedBy(drop)).code).toBe('sql_error')
})
