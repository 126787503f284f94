import { expect, test } from 'vitest'
import { findDamage, findDamageOfPages } from '../../src/engine/quick-check.ts'
import { openConnection } from '../../src/engine/sqlite.ts'
import { unsafe } from '../support/database-files.ts'

test.each([
  ['two tables', ''],
  ['two tables beside a search table', 'CREATE VIRTUAL TABLE f USING fts5 (a, content=missing);'],
])('finds the page that %s share: each tree looks whole by itself', (_what, more) => {
  const file = unsafe(`CREATE TABLE a (x); CREATE TABLE b (x); ${more}
    UPDATE sqlite_schema SET rootpage = 2 WHERE name IN ('a', 'b')`)
  const connection = openConnection(file)
  try {
    for (const check of ['quick_check', 'integrity_check'] as const)
      expect(findDamage(connection, check)).toMatch(/2nd reference to page 2/)
    if (more === '') expect(findDamageOfPages(connection)).toMatch(/2nd reference to page 2/)
  } finally {
    connection.close()
  }
})
