import Database from 'better-sqlite3'
import { expect, test } from 'vitest'
import { StorePaths } from '../../src/base/store-paths.ts'
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
