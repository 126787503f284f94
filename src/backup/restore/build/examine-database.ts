import { findDamage, mayTakeLong } from '../../../engine/files/quick-check.ts'
import type { Connection } from '../../../engine/sqlite.ts'
import { corrupt } from '../../archive/backup-errors.ts'
import { withDatabase } from './restore-database.ts'

/** What a database holds, as far as it can be counted. */
export interface DatabaseContents {
  tableCount: number
  /** Of all tables. */
  rowCount: number
  /** By name; at most 1,000 of them. */
  tables: { name: string; rows: number }[]
}

/** A result must stay small, however many tables somebody makes. */
const TABLES_MAX = 1_000

/**
 * Counts the rows of a restored database, table by table; with `deep` after SQLite's integrity_check: then each index has as
 * many entries as its table has rows.
 *
 * @param leavesLongChecks does nothing where the schema may make the check take long
 * @returns undefined if it did nothing
 * @throws `backup_corrupt`
 */
export function examineDatabase(
  file: string,
  member: string,
  deep: boolean,
  leavesLongChecks = false,
): DatabaseContents | undefined {
  return withDatabase(file, member, (connection) => {
    if (deep && leavesLongChecks && mayTakeLong(connection, 'integrity_check')) return undefined
    if (deep) {
      const problem = findDamage(connection, 'integrity_check')
      if (problem !== undefined) throw corrupt(member, `SQLite finds it damaged (${problem})`)
    }
    return contentsOf(connection)
  })
}

function contentsOf(connection: Connection): DatabaseContents {
  const contents: DatabaseContents = { tableCount: 0, rowCount: 0, tables: [] }
  const names = connection
    .prepare(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0 AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name",
    )
    .pluck()
    .all() as string[]
  for (const name of names) {
    const count = connection.prepare(`SELECT count(*) FROM "${name.replaceAll('"', '""')}"`).pluck()
    const rows = count.get() as number
    contents.tableCount++
    contents.rowCount += rows
    if (contents.tables.length < TABLES_MAX) contents.tables.push({ name, rows })
  }
  return contents
}
