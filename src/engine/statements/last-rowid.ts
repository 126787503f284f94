import { CellError } from '../../errors.ts'
import type { Connection } from '../sqlite.ts'
import { isSqliteError } from '../sqlite-errors.ts'
import { WrittenTables } from '../watch/written-tables.ts'
import type { BoundParams } from './parameters.ts'
import type { PreparedStatement } from './prepared-statements.ts'

/** No rowid is greater. */
const LAST = 9_223_372_036_854_775_807n

/** More texts than those that have it: a comment, or the name of a column, too. With the first real one comes sqlite_sequence. */
const AUTOINCREMENT = `SELECT name FROM main.sqlite_schema WHERE type = 'table' AND sql LIKE '%autoincrement%'
  AND EXISTS (SELECT 1 FROM main.sqlite_schema WHERE name = 'sqlite_sequence')`
const ENDED = `SELECT 1 FROM main.sqlite_sequence WHERE name = ? AND CAST(seq AS INTEGER) = ${LAST}`
const KEY = 'SELECT name FROM temp.pragma_table_info(?) WHERE pk = 1'

/**
 * SQLite has one code for a full cell, and for a table with AUTOINCREMENT whose last row has the last rowid. Only the tables
 * themselves tell which it was. What the statement, or a transaction that it ended, had done is undone by then: if it was that
 * which took the last rowid, the error stays as it is.
 *
 * @returns what a failed statement throws: the error itself, or one that names the table
 */
export function withoutRowids(
  error: unknown,
  connection: Connection,
  prepared: PreparedStatement,
  bound: BoundParams,
): unknown {
  if (!isSqliteError(error) || error.code !== 'SQLITE_FULL') return error
  const table = endedTable(connection, prepared, bound)
  if (table === undefined) return error
  return new CellError(
    'sql_error',
    `The table "${table}" has AUTOINCREMENT, and a row has had the last rowid (${LAST}). Give the new row a rowid, or remove the row with the last one and lower the table's seq in sqlite_sequence.`,
    { sqliteCode: error.code, cause: error },
  )
}

function endedTable(
  connection: Connection,
  prepared: PreparedStatement,
  bound: BoundParams,
): string | undefined {
  const tables = connection.prepare(AUTOINCREMENT).pluck().all() as string[]
  const ended = tables.filter((table) => hasEnded(connection, table))
  if (ended.length === 0) return undefined
  const written = new WrittenTables(connection).of(prepared, bound, 0).tables
  return ended.find((table) => written?.includes(table))
}

/** `DELETE FROM sqlite_sequence` forgets the sequence, but not the rows. */
function hasEnded(connection: Connection, table: string): boolean {
  if (connection.prepare(ENDED).get(table) !== undefined) return true
  const key = connection.prepare(KEY).pluck().get(table) as string | undefined
  if (key === undefined) return false
  const row = `SELECT 1 FROM main.${quoted(table)} WHERE ${quoted(key)} = ${LAST}`
  return connection.prepare(row).get() !== undefined
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
