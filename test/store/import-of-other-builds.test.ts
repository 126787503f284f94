import { describe, expect, test } from 'vitest'
import { foreign, leftOvers, place, unsafe } from '../support/database-files.ts'
import { openTestCell, openTestStore } from '../support/open-test-store.ts'
import { rejectedBy } from '../support/thrown.ts'

/**
 * Other builds of SQLite take a text in double quotes, and have functions and collations of their program. An object with one of
 * these can't be used in a cell: the import names it.
 */

/** A database with what this build would not create: ‹…› becomes a text in double quotes, `lower(` a function, NOCASE a collation. */
function elsewhere(schema: string): string {
  const rewritten = `replace(replace(replace(replace(sql, '‹', '"'), '›', '"'), 'lower(', 'of_a_program('), 'NOCASE', 'of_a_program')`
  const file = schema.replaceAll(/"(\w+)"/g, "'‹$1›'")
  return unsafe(
    `CREATE TABLE log (a); CREATE TABLE t (x); ${file};
     UPDATE sqlite_schema SET sql = replace(replace(${rewritten}, '''"', '"'), '"''', '"') WHERE sql IS NOT NULL`,
  )
}

const TEXT = /no such column: "Y"/
const FUNCTION = /(no such|unknown) function: of_a_program/
const COLLATION = /no such collation sequence: of_a_program/

const NAMED: [what: string, object: string, schema: string, why: RegExp][] = [
  ['a text in a CHECK', 'table "o"', 'CREATE TABLE o (b TEXT CHECK (b IN ("Y", "N")))', TEXT],
  ['a text in a generated column', 'table "o"', 'CREATE TABLE o (b, g AS (b || "Y"))', TEXT],
  ['a text in a partial index', 'index "o"', 'CREATE INDEX o ON t (x) WHERE x = "Y"', TEXT],
  ['a text in an index', 'index "o"', 'CREATE INDEX o ON t (x || "Y")', TEXT],
  ['a text in a view', 'view "o"', 'CREATE VIEW o AS SELECT x, "Y" AS y FROM t', TEXT],
  ['a text in a trigger', 'trigger "o"', trigger('AFTER INSERT ON t', '"Y"'), TEXT],
  [
    'a text in the WHEN of a trigger',
    'trigger "o"',
    trigger('AFTER UPDATE OF x ON t WHEN new.x = "Y"', '1'),
    TEXT,
  ],
  [
    'a text in a trigger of a view',
    'trigger "o"',
    `CREATE VIEW v AS SELECT x FROM t; ${trigger('INSTEAD OF DELETE ON v', '"Y"')}`,
    TEXT,
  ],
  ['a function in a CHECK', 'table "o"', 'CREATE TABLE o (b CHECK (lower(b)))', FUNCTION],
  ['a function in a generated column', 'table "o"', 'CREATE TABLE o (b, g AS (lower(b)) STORED)', FUNCTION],
  ['a function in a default', 'table "o"', 'CREATE TABLE o (a, b DEFAULT (lower(1)))', FUNCTION],
  ['a function in an index', 'index "o"', 'CREATE INDEX o ON t (lower(x))', FUNCTION],
  ['a function in a partial index', 'index "o"', "CREATE INDEX o ON t (x) WHERE lower(x) = 'y'", FUNCTION],
  ['a function in a view', 'view "o"', 'CREATE VIEW o AS SELECT lower(x) AS l FROM t', FUNCTION],
  ['a function in a trigger', 'trigger "o"', trigger('AFTER DELETE ON t', 'lower(old.x)'), FUNCTION],
  ['a collation of a column', 'table "o"', 'CREATE TABLE o (b TEXT COLLATE NOCASE)', COLLATION],
  [
    'a collation of a primary key',
    'table "o"',
    'CREATE TABLE o (b TEXT PRIMARY KEY COLLATE NOCASE)',
    COLLATION,
  ],
  ['a collation of a CHECK', 'table "o"', "CREATE TABLE o (b CHECK (b > 'x' COLLATE NOCASE))", COLLATION],
  ['a collation of an index', 'index "o"', 'CREATE INDEX o ON t (x COLLATE NOCASE)', COLLATION],
  [
    'a collation of a view',
    'view "o"',
    'CREATE VIEW o AS SELECT x FROM t ORDER BY x COLLATE NOCASE',
    COLLATION,
  ],
  [
    'a collation of a trigger',
    'trigger "o"',
    trigger("AFTER INSERT ON t WHEN new.x > 'x' COLLATE NOCASE", '1'),
    COLLATION,
  ],
]

function trigger(event: string, value: string): string {
  return `CREATE TRIGGER o ${event} BEGIN INSERT INTO log VALUES (${value}); END`
}

describe.each(['trusted', 'tenant'] as const)('An import with the policy %s', (sqlPolicy) => {
  test.each(NAMED)('names the object with %s: %s', async (_what, object, schema, why) => {
    const test = await openTestStore()
    // Others of its kind are not to blame.
    const file = elsewhere(
      `CREATE INDEX i ON log (a); ${trigger('AFTER INSERT ON t', '1').replace('o', 'fine')}; ${schema}`,
    )
    const refused = await rejectedBy(test.store.importCell(file, { sqlPolicy }))
    expect([refused.code, refused.message]).toEqual(['invalid_database', expect.stringMatching(why)])
    expect(refused.message).toContain(`The ${object} `)
    expect(leftOvers(test, 0)).toEqual([])
  })
})

describe('An import takes', () => {
  test('a default in double quotes, which is a text everywhere, and what refers to a table that is gone', async () => {
    const { store } = await openTestStore()
    const file = foreign(`CREATE TABLE t (a, b DEFAULT "Y"); CREATE VIEW v AS SELECT * FROM gone;
      CREATE TRIGGER r AFTER DELETE ON t BEGIN DELETE FROM gone; END`)
    const cell = await store.importCell(file)
    cell.sql('INSERT INTO t (a) VALUES (1)')
    expect(cell.get('SELECT * FROM t')).toEqual({ a: 1, b: 'Y' })
  })

  test('an export of a cell with a view that does not work in the cell either', async () => {
    const { cell, store } = await openTestCell()
    cell.exec('CREATE TABLE t (a); CREATE VIEW v AS SELECT "Y" AS y FROM t')
    const file = place()
    await cell.export(file)
    const copy = await store.importCell(file)
    expect(copy.sql('SELECT name FROM sqlite_schema WHERE type = ?', ['view']).rows).toEqual([{ name: 'v' }])
  })

  test('a view with a function of the owner, and a table of a module that this store has not', async () => {
    const { store } = await openTestStore({ functions: { secret: () => 42 } })
    const view = foreign('CREATE TABLE t (a); CREATE VIEW v AS SELECT secret(a) AS s FROM t')
    expect((await store.importCell(view)).name).toBeNull()
    const module = unsafe(
      `CREATE TABLE t (a); INSERT INTO sqlite_schema VALUES ('table', 'm', 'm', 0, 'CREATE VIRTUAL TABLE m USING none(a)')`,
    )
    const cell = await store.importCell(module)
    expect(cell.sql('SELECT * FROM t').rows).toEqual([])
  })
})
