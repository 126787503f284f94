import { assertReadable, findDamage, mayTakeLong } from '../../../engine/files/quick-check.ts'
import { assertCell } from '../../../engine/reserved-schema.ts'
import { type Connection, openConnection } from '../../../engine/sqlite.ts'
import { isSqliteError } from '../../../engine/sqlite-errors.ts'
import { CellError, isCellError } from '../../../errors.ts'
import { corrupt, localFailure } from '../../archive/backup-errors.ts'

/** Frames of a log, up to `to`, that come from one object. */
export interface WalPart {
  to: number
  member: string
}

/**
 * Lets SQLite's own recovery apply the log next to a restored database, and checks that it applied every frame: SQLite
 * stops silently at a bad one.
 *
 * @param member the log's name, for the message
 * @param parts of a log that comes from several objects: the one with the first bad frame is named
 * @throws `backup_corrupt`
 */
export function applyLog(file: string, member: string, frames: number, parts: readonly WalPart[] = []): void {
  withDatabase(file, member, (connection) => {
    connection.pragma('journal_mode = WAL')
    // The complete file is fsynced at the end.
    connection.pragma('synchronous = OFF')
    connection.pragma('wal_autocheckpoint = 0')
    connection.prepare('SELECT count(*) FROM sqlite_schema').get()
    const [state] = connection.pragma('wal_checkpoint(NOOP)') as { log: number }[]
    const accepted = state?.log ?? 0
    if (accepted !== frames) {
      const bad = parts.find(({ to }) => to > accepted)?.member ?? member
      throw corrupt(bad, `SQLite accepts ${accepted} of its ${frames} frames`)
    }
    const [done] = connection.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[]
    if (done?.busy !== 0) throw corrupt(member, 'SQLite could not apply it')
  })
}

/**
 * Runs SQLite's check of every page. The bytes are proven already; this finds damage that the database already had when
 * it was backed up.
 *
 * @param member the database's name, for the message
 * @param leavesLongChecks does nothing where the schema may make the check take long
 * @returns whether it was checked
 * @throws `backup_corrupt`
 */
export function proveDatabase(file: string, member: string, leavesLongChecks = false): boolean {
  return withDatabase(file, member, (connection) => {
    if (leavesLongChecks && mayTakeLong(connection, 'quick_check')) return false
    // SQLite reads each page once, so a large cache only costs time: a sixth, measured.
    connection.pragma('cache_size = -512')
    const problem = findDamage(connection)
    if (problem !== undefined) throw corrupt(member, `SQLite finds it damaged (${problem})`)
    return true
  })
}

/**
 * Checks that a restored database is a cell: an installed one that is not would be kept closed.
 *
 * @param member the database's name, for the message
 * @throws `backup_corrupt`
 */
export function proveCell(file: string, member: string): void {
  withDatabase(file, member, (connection) => {
    try {
      assertCell(connection)
    } catch (error) {
      throw isCellError(error) ? corrupt(member, `it cannot be a cell: ${error.message}`, error) : error
    }
  })
}

/** @param file of which nobody else has a connection */
export function withDatabase<T>(file: string, member: string, work: (connection: Connection) => T): T {
  try {
    const connection = openConnection(file)
    try {
      // Nobody else has the file: without shared memory there is one file less to make and to remove for each backup.
      connection.pragma('locking_mode = EXCLUSIVE')
      return work(connection)
    } finally {
      connection.close()
    }
  } catch (error) {
    // Only SQLite's findings mean damage. A full disk, for example, is not the backup's fault.
    const isFinding = error instanceof CellError || isSqliteError(error)
    if (localFailure(error) !== undefined || !isFinding) throw error
    // A disk that cannot read back the new file is not the backup's fault either.
    assertReadable(file)
    if (error instanceof CellError) throw error
    throw corrupt(member, 'SQLite cannot open it', error)
  }
}

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
