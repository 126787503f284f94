import fs from 'node:fs'
import { describe, expect, test } from 'vitest'
import { openTestDatabase } from '../support/open-test-database.ts'

/** Files that this process has open and that have no name any more, as SQLite's temporary ones. */
function namelessFiles(): number {
  const names = fs.readdirSync('/proc/self/fd').map((fd) => {
    try {
      return fs.readlinkSync(`/proc/self/fd/${fd}`)
    } catch {
      return ''
    }
  })
  return names.filter((name) => name.endsWith(' (deleted)')).length
}

const ROWS = 'WITH RECURSIVE c (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 60000)'

/** Statements that set aside more than the page cache holds; `look()` is called when they have. */
const STATEMENTS: Record<string, string> = {
  'a sort': `SELECT max(look()) FROM (${ROWS} SELECT randomblob(400) AS x FROM c ORDER BY x LIMIT -1 OFFSET 1)`,
  'a DISTINCT': `SELECT max(i), look() FROM (${ROWS} SELECT DISTINCT randomblob(400), i FROM c)`,
  'a materialised CTE': `WITH m AS MATERIALIZED (${ROWS} SELECT i, randomblob(400) AS b FROM c)
    SELECT max(look()) FROM (SELECT 1 FROM m AS a JOIN m AS b ON a.i = b.i LIMIT 10)`,
}

describe.runIf(process.platform === 'linux')('what a statement sets aside', () => {
  test.each(Object.keys(STATEMENTS))('%s: goes to files, or stays in memory', (name) => {
    const seen = (['files', 'memory'] as const).map((temporary) => {
      const database = openTestDatabase({ temporary, pageCacheBytes: 65_536 })
      const before = namelessFiles()
      let [calls, most] = [0, 0]
      database.defineFunction('look', () => {
        calls++
        if (calls === 1 || calls % 20_000 === 0) most = Math.max(most, namelessFiles() - before)
        return most
      })
      database.sql(STATEMENTS[name] as string)
      return most > 0
    })
    expect(seen).toEqual([true, false])
  })

  test('is in memory also for what a savepoint may have to bring back', () => {
    const seen = (['files', 'memory'] as const).map((temporary) => {
      const database = openTestDatabase({ temporary, pageCacheBytes: 65_536, durability: 'relaxed' })
      database.sql('CREATE TABLE t (a INTEGER PRIMARY KEY, b)')
      database.sql(`INSERT INTO t (b) ${ROWS} SELECT zeroblob(400) FROM c`)
      const before = namelessFiles()
      return database.transaction(() =>
        database.transaction(() => {
          database.sql('UPDATE t SET b = randomblob(400)')
          return namelessFiles() > before
        }),
      )
    })
    expect(seen).toEqual([true, false])
  })
})
