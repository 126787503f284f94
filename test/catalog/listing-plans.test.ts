import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { openTestStore } from '../support/open-test-store.ts'

const INDEX = 'deleted_names'

/** How SQLite finds the deleted cells of a name, of an account and of all. */
function plansIn(directory: string): string[] {
  const catalog = new Database(new StorePaths(directory).catalog)
  const planOf = (filter: string) =>
    catalog
      .prepare(
        `EXPLAIN QUERY PLAN SELECT * FROM cells WHERE deleted_at IS NOT NULL AND number > 0 ${filter} ORDER BY number LIMIT 101`,
      )
      .all() as { detail: string }[]
  const plans = ["AND account_id = 'a' AND name = 'n'", "AND name = 'n'"].map(
    (filter) => planOf(filter)[0]?.detail ?? '',
  )
  catalog.close()
  return plans
}

test('deleted cells of a name are looked up, also in the catalog of an earlier version', async () => {
  const opened = await openTestStore()
  const looksUp = [
    expect.stringContaining(`SEARCH cells USING INDEX ${INDEX} (name=? AND account_id=?`),
    expect.stringContaining(`SEARCH cells USING INDEX ${INDEX} (name=?`),
  ]
  await opened.store.close()
  expect(plansIn(opened.directory)).toEqual(looksUp)
  const catalog = new Database(new StorePaths(opened.directory).catalog)
  catalog.exec(`DROP INDEX ${INDEX}`)
  catalog.close()
  await opened.reopen()
  await opened.store.close()
  expect(plansIn(opened.directory)).toEqual(looksUp)
})

test.each([
  ['of an account', 'NOT NULL', 'account_id IS ?', 'deleted_pages (account_id=? AND number>?)'],
  [
    'of a name and an account',
    'NOT NULL',
    'account_id IS ? AND name = ?',
    'deleted_names (name=? AND account_id=? AND number>?)',
  ],
  ['that exist of an account', 'NULL', 'account_id IS ?', 'cells_by_account (account_id=? AND number>?)'],
  [
    'that exist of a name and an account',
    'NULL',
    'account_id IS ? AND name = ?',
    'named_cells (name=? AND account_id=? AND number>?)',
  ],
])(
  'cells %s are looked up in their order, also where the account is none',
  async (_, deleted, filter, index) => {
    const opened = await openTestStore()
    await opened.store.close()
    const catalog = new Database(new StorePaths(opened.directory).catalog)
    const sql = `SELECT * FROM cells WHERE deleted_at IS ${deleted} AND number > ? AND ${filter} ORDER BY number LIMIT ?`
    const values = [...sql.matchAll(/[?]/g)].map(() => null)
    const plan = catalog.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values) as { detail: string }[]
    catalog.close()
    expect(plan.map(({ detail }) => detail)).toEqual([`SEARCH cells USING INDEX ${index}`])
  },
)
