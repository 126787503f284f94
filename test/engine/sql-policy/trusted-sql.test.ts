import { describe, expect, test } from 'vitest'
import type { Cell } from '../../../src/store/open/cell.ts'
import { openTestCell } from '../../support/open-test-store.ts'
import { codeOf, thrownBy } from '../../support/thrown.ts'

async function cellWithData(): Promise<Cell> {
  const { cell } = await openTestCell()
  cell.kv.put('k', 'v')
  cell.sql('CREATE TABLE t (a, b)')
  cell.sql('INSERT INTO t VALUES (1, 2)')
  return cell
}

function expectWorking(cell: Cell): void {
  expect(cell.kv.get('k')).toBe('v')
  cell.kv.put('k', 'w', { ttlSeconds: 5 })
  cell.kv.put('k', 'v')
  cell.kv.delete('other')
  expect(cell.sql('SELECT key, value FROM cell_kv').rows).toEqual([{ key: 'k', value: 'v' }])
  cell.sql('CREATE TABLE IF NOT EXISTS later (a)')
}

describe("trusted SQL does not change the engine's tables", () => {
  test.each([
    'DROP TABLE _cell_kv',
    'drop table if exists "_CELL_kv"',
    'DROP TABLE main.[_cell_meta]',
    "DROP TABLE '_cell_kv'",
    'EXPLAIN DROP TABLE _cell_kv',
    'DROP INDEX _cell_kv_expiry',
    'ALTER TABLE _cell_kv RENAME TO mine',
    'ALTER TABLE _cell_kv DROP COLUMN value',
    'ALTER TABLE t RENAME TO _cell_mine',
    'CREATE TABLE _cell_more (a)',
    'CREATE TEMP TABLE _cell_kv (key, value, expires_at)',
    'CREATE TABLE u (a REFERENCES _cell_kv (key))',
    'CREATE INDEX i ON _cell_kv (value)',
    'CREATE VIEW _cell_view AS SELECT 1',
    'CREATE VIEW temp._cell_view AS SELECT 1',
    'CREATE TRIGGER r BEFORE DELETE ON _cell_kv BEGIN SELECT RAISE(ABORT, 0); END',
    'CREATE TRIGGER r AFTER INSERT ON t BEGIN DELETE FROM _cell_kv; END',
    'INSERT INTO _cell_kv VALUES (1, 2, 3)',
    'INSERT OR REPLACE INTO main."_cell_kv" VALUES (1, 2, 3)',
    'REPLACE INTO _cell_meta VALUES (1, 2)',
    'WITH x AS (SELECT 1) INSERT INTO _cell_kv SELECT 1, 2, 3 FROM x',
    'UPDATE _cell_meta SET value = 2',
    "UPDATE OR IGNORE '_cell_kv' SET value = 'x'",
    'DELETE FROM _cell_kv',
    'WITH x AS (SELECT 1) DELETE FROM main . _cell_kv WHERE key IN x',
    'PRAGMA query_only = 1',
    'PRAGMA writable_schema = 1',
    'PRAGMA schema_version = 7',
  ])('%s', async (sql) => {
    const cell = await cellWithData()
    expect(codeOf(() => cell.sql(sql))).toBe('statement_not_allowed')
    expectWorking(cell)
  })

  test.each([
    'DELETE FROM sqlite_schema',
    "UPDATE sqlite_schema SET sql = NULL WHERE name = '_cell_kv'",
    'PRAGMA writable_schema',
    'DROP VIEW IF EXISTS temp.cell_kv',
  ])('nor does %s break the cell', async (sql) => {
    const cell = await cellWithData()
    try {
      cell.sql(sql)
    } catch {
      // SQLite may refuse it.
    }
    expectWorking(cell)
  })
})

describe("trusted SQL may read the engine's tables", () => {
  test.each([
    'SELECT * FROM _cell_kv',
    'INSERT INTO t SELECT key, value FROM _cell_kv',
    'UPDATE t SET a = (SELECT count(*) FROM _cell_kv)',
    'DELETE FROM t WHERE b IN (SELECT value FROM _cell_kv)',
    'CREATE VIEW keys AS SELECT key FROM _cell_kv',
    'CREATE TEMP VIEW keys (k) AS SELECT key FROM main._cell_kv',
    "SELECT '_cell_kv' AS name, 'DROP TABLE _cell_kv' AS text",
    "INSERT INTO t VALUES ('_cellar', 'into _cell_kv')",
    'PRAGMA table_info(_cell_kv)',
    'PRAGMA query_only',
    'ANALYZE _cell_kv',
  ])('%s', async (sql) => {
    const cell = await cellWithData()
    cell.sql(sql)
    expectWorking(cell)
  })
})

describe('tools of an ordinary database leave a working cell', () => {
  test('a loop that drops all tables', async () => {
    const cell = await cellWithData()
    const names = cell
      .sql("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
      .rows.map(({ name }) => String(name))
    expect(names).toEqual(['_cell_kv', '_cell_meta', 't'])
    const refused = names.filter((name) => {
      try {
        cell.sql(`DROP TABLE "${name}"`)
        return false
      } catch (error) {
        expect(error).toMatchObject({ code: 'statement_not_allowed' })
        return true
      }
    })
    expect(refused).toEqual(['_cell_kv', '_cell_meta'])
    expectWorking(cell)
    expect(codeOf(() => cell.sql('SELECT * FROM t'))).toBe('sql_error')
  })

  test('in one transaction, such a loop changes nothing', async () => {
    const cell = await cellWithData()
    const dropAll = () =>
      cell.transaction(() => {
        const { rows } = cell.sql("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name DESC")
        for (const { name } of rows) cell.sql(`DROP TABLE "${String(name)}"`)
      })
    expect(thrownBy(dropAll).code).toBe('statement_not_allowed')
    expect(cell.sql('SELECT a FROM t').rows).toEqual([{ a: 1 }])
    expectWorking(cell)
  })

  // The statements that Kysely 0.28 sends, with its two bookkeeping tables.
  test("Kysely's migrator and introspector", async () => {
    const cell = await cellWithData()
    cell.sql(
      'create table if not exists "kysely_migration" ("name" varchar(255) not null primary key, "timestamp" varchar(255) not null)',
    )
    cell.sql(
      'create table if not exists "kysely_migration_lock" ("id" varchar(255) not null primary key, "is_locked" integer default 0 not null)',
    )
    cell.sql('insert into "kysely_migration_lock" ("id", "is_locked") values (?, ?)', ['migration_lock', 0])
    const introspect = () =>
      cell.sql(
        `with "table_list" as (select "name", "sql", "type" from "sqlite_master" where "type" in (?, ?) and "name" not like ? order by "name")
         select "tl"."name" as "table", "p"."cid", "p"."name", "p"."type", "p"."notnull", "p"."dflt_value", "p"."pk"
         from "table_list" as "tl", pragma_table_info(tl.name) as p order by "tl"."name", "p"."cid"`,
        ['table', 'view', 'sqlite_%'],
      ).rows
    const columns = introspect().map(({ table, name }) => `${String(table)}.${String(name)}`)
    expect(columns).toContain('t.a')
    expect(columns).toContain('kysely_migration_lock.is_locked')
    cell.sql('alter table "t" add column "c" text')
    cell.sql('alter table "t" rename to "u"')
    expect(introspect().map(({ name }) => name)).toContain('c')
    expectWorking(cell)
  })
})
