import { type Connection, openInMemory } from '../sqlite.ts'
import { isSqliteError } from '../sqlite-errors.ts'
import { invalidDatabase } from './database-header.ts'
import { type ObjectName, shownObject } from './imported-schema.ts'

interface StoredObject extends ObjectName {
  table: string
  sql: string
}

/** Without SQLite's own objects, and without the tables that virtual tables make. */
const OBJECTS = `
  WITH made (name) AS (SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'shadow')
  SELECT CASE WHEN type = 'table' AND rootpage = 0 THEN 'virtual table' ELSE type END AS type, name, tbl_name AS "table", sql
  FROM main.sqlite_schema
  WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite#_%' ESCAPE '#' AND tbl_name NOT IN made ORDER BY rowid`

/** What another build of SQLite has and this one has not; a text in double quotes is a column here. */
const MISSING = /^(no such (column|function|collation sequence)|unknown function)/
/** The owner's functions and extensions are not in the thread that imports: what they add is not missing. */
const MISSING_TEXT = /^no such column/

/**
 * Finds what another program's SQLite could use, and this one can't: a text in double quotes, a function or a collation that is
 * missing here. Of a table or an index the import would fail without its name; with a default, a view or a trigger, each use of it
 * would. All objects are made anew in an empty database, and nothing runs there.
 *
 * @param isCell the database is an export: its views and triggers are as they were in the cell
 * @throws `invalid_database` with the object's name
 */
export function checkObjects(
  connection: Connection,
  { isCell, hasOwners }: { isCell: boolean; hasOwners: boolean },
): void {
  const objects = connection.prepare(OBJECTS).all() as StoredObject[]
  const of = (type: StoredObject['type']) => objects.filter((object) => object.type === type)
  const missing = hasOwners ? MISSING_TEXT : MISSING
  const scratch = openInMemory()
  const create = ({ sql }: StoredObject) => void scratch.prepare(sql).run()
  const compile = (object: StoredObject, statements: readonly string[]) => {
    for (const sql of statements) attempt(object, () => scratch.prepare(sql), missing)
  }
  try {
    // One whose module is not here stays out of reach, and says so when it is used.
    for (const object of of('virtual table')) attempt(object, () => create(object), NOTHING)
    for (const object of [...of('table'), ...of('index')]) attempt(object, () => create(object), ANYTHING)
    if (isCell) return
    for (const object of of('table')) compile(object, changesOf(scratch, object.name))
    for (const object of of('view')) attempt(object, () => create(object), NOTHING)
    for (const object of of('view')) compile(object, [`SELECT * FROM ${quoted(object.name)}`])
    for (const object of of('trigger')) {
      attempt(object, () => create(object), NOTHING)
      compile(object, changesOf(scratch, object.table))
      // So that the next one's error is its own.
      scratch.exec(`DROP TRIGGER IF EXISTS ${quoted(object.name)}`)
    }
  } finally {
    scratch.close()
  }
}

const NOTHING = /(?!)/
const ANYTHING = /^/

/** @param refused messages of SQLite for which the database is refused @throws `invalid_database` */
function attempt(object: StoredObject, run: () => unknown, refused: RegExp): void {
  try {
    run()
  } catch (error) {
    if (!isSqliteError(error) || !error.code.startsWith('SQLITE_ERROR')) throw error
    if (refused.test(error.message))
      throw invalidDatabase(`${shownObject(object)} can't be used here (${error.message})`, error)
  }
}

/** Statements whose code has all that a table computes, and its triggers. */
function changesOf(scratch: Connection, name: string): string[] {
  const columns = scratch
    .prepare('SELECT name FROM pragma_table_xinfo(?) WHERE hidden = 0')
    .pluck()
    .all(name) as string[]
  const set = columns.map((column) => `${quoted(column)} = ${quoted(column)}`).join()
  const table = quoted(name)
  return [`INSERT INTO ${table} DEFAULT VALUES`, `UPDATE ${table} SET ${set}`, `DELETE FROM ${table}`]
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
