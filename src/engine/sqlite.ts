import Database from 'better-sqlite3'
import { assertSupportedRuntime } from '../base/machine/runtime.ts'
import { CellError } from '../errors.ts'

/** The only file that imports the driver; the rest of the engine sees these types. */
export type DriverConnection = Database.Database
/** What all but the opening needs of one. */
export type Connection = Pick<
  DriverConnection,
  'name' | 'open' | 'inTransaction' | 'prepare' | 'function' | 'backup' | 'pragma'
> & {
  exec(sql: string): unknown
  close(): unknown
}
export type Statement = Database.Statement<unknown[], unknown>

/** Earlier releases could corrupt a database while its write-ahead log was reset (sqlite.org/wal.html, "WAL-reset bug"). */
const SQLITE_VERSION_MIN = [3, 51, 3] as const

let versionChecked = false

/** A new database in memory, to find out what SQLite takes. */
export function openInMemory(): DriverConnection {
  assertSupportedRuntime()
  return new Database(':memory:')
}

/**
 * Opens an existing database file. It never waits for a lock: one connection writes a cell (invariant 3), so only another
 * program can hold one, and waiting for it would stall every other cell.
 *
 * @param options.readonly writes neither the database nor its log, not even at the close
 * @throws `unsupported_runtime` on a Node that the driver would crash; SQLite's own errors
 */
export function openConnection(path: string, { readonly = false } = {}): DriverConnection {
  assertSupportedRuntime()
  const connection = new Database(path, { fileMustExist: true, timeout: 0, readonly })
  if (!versionChecked) checkVersion(connection)
  return connection
}

/**
 * Closes a connection without the checkpoint that SQLite makes at the close of the last connection to a file: a read-only
 * one, which makes none, is closed after it.
 *
 * @returns false if no such connection could be opened; then this one is still open
 */
export function closeLeavingLog(connection: Connection): boolean {
  let guard: Connection | undefined
  try {
    guard = openConnection(connection.name, { readonly: true })
    // Takes a shared lock: the checkpoint at the close would need an exclusive one.
    guard.prepare('SELECT count(*) FROM sqlite_schema').get()
    connection.close()
    return true
  } catch {
    return false
  } finally {
    guard?.close()
  }
}

function checkVersion(connection: Connection): void {
  const version = connection.prepare('SELECT sqlite_version()').pluck().get() as string
  const parts = version.split('.').map(Number)
  for (const [i, min] of SQLITE_VERSION_MIN.entries()) {
    const part = parts[i] ?? 0
    if (part > min) break
    if (part < min) {
      connection.close()
      throw new CellError(
        'unsupported_runtime',
        `This build of better-sqlite3 carries SQLite ${version}; cellstore needs ${SQLITE_VERSION_MIN.join('.')} or newer.`,
      )
    }
  }
  versionChecked = true
}

/** The file format's read and write versions in the header: 1 for a rollback journal, 2 for WAL (sqlite.org/fileformat2). */
const VERSION_BYTES = [18, 19]

/** The bytes of an empty database with the given schema, by default in WAL mode: a new cell is written as a file in one go. */
export function databaseImage(schema: string, { wal = true } = {}): Buffer {
  assertSupportedRuntime()
  const connection = new Database(':memory:')
  try {
    connection.exec(schema)
    const image = Buffer.from(connection.serialize())
    for (const at of VERSION_BYTES) image[at] = wal ? 2 : 1
    return image
  } finally {
    connection.close()
  }
}
