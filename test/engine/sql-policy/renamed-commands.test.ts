import { expect, test } from 'vitest'
import { openTestStore } from '../../support/open-test-store.ts'
import { thrownBy } from '../../support/thrown.ts'

const policy = 'tenant'
const trigger = (columns: string) =>
  `CREATE TRIGGER tr AFTER INSERT ON q BEGIN INSERT INTO a(${columns}) VALUES ('crisismerge', 1999); END`

test.each([
  ['a search table', 'CREATE VIRTUAL TABLE a USING fts5(x)', 'b, rank', 'ALTER TABLE a RENAME TO b'],
  ['a column', 'CREATE TABLE a (b, rank)', 'b, rank', 'ALTER TABLE a RENAME COLUMN b TO a'],
  ['the other column', 'CREATE TABLE a (a, c)', 'a, c', 'ALTER TABLE a RENAME c TO "RANK"'],
])(
  'To rename %s makes no setting of a search table out of what a trigger writes',
  async (_, create, columns, rename) => {
    const { store } = await openTestStore()
    const cell = store.createCell()
    const run = (sql: string) => cell.sql(sql, [], { policy })
    run('CREATE TABLE q (n)')
    run(create)
    run(trigger(columns))
    expect(thrownBy(() => run(rename))).toMatchObject({ code: 'statement_not_allowed' })
    expect(run("SELECT sql FROM sqlite_schema WHERE name = 'tr'").rows).toEqual([{ sql: trigger(columns) }])
    run('DROP TRIGGER tr')
    run(rename)
  },
)
