import fs from 'node:fs'
import { expect, test } from 'vitest'
import { findDamage, findDamageOfPages } from '../../src/engine/files/quick-check.ts'
import { openConnection } from '../../src/engine/sqlite.ts'
import { unsafe } from '../support/database-files.ts'

test.each([
  ['two tables', ''],
  ['two tables beside a search table', 'CREATE VIRTUAL TABLE f USING fts5 (a, content=missing);'],
  ['two tables beside one with a computed column', 'CREATE TABLE c (x, y AS (x + 1));'],
])('finds the page that %s share: each tree looks whole by itself', (_what, more) => {
  const file = unsafe(`CREATE TABLE a (x); CREATE TABLE b (x); ${more}
    UPDATE sqlite_schema SET rootpage = 2 WHERE name IN ('a', 'b')`)
  const connection = openConnection(file)
  try {
    for (const check of ['quick_check', 'integrity_check'] as const)
      expect(findDamage(connection, check)).toBe('2nd reference to page 2')
    expect(findDamageOfPages(connection)).toMatch(/2nd reference to page 2/)
  } finally {
    connection.close()
  }
})

test('takes no page that nothing refers to for damage: it holds no row', () => {
  const file = unsafe(
    'CREATE TABLE a (x); CREATE TABLE b (x); INSERT INTO a VALUES (randomblob(9000)); DROP TABLE b',
  )
  // The file's header, by https://www.sqlite.org/fileformat.html: the first page of the list of free ones, and their number.
  const handle = fs.openSync(file, 'r+')
  fs.writeSync(handle, Buffer.alloc(8), 0, 8, 32)
  fs.closeSync(handle)
  const connection = openConnection(file)
  try {
    expect(connection.pragma('quick_check', { simple: true })).toMatch(/never used/)
    for (const check of ['quick_check', 'integrity_check'] as const)
      expect(findDamage(connection, check)).toBeUndefined()
  } finally {
    connection.close()
  }
})
