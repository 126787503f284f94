import fs from 'node:fs'
import type { Connection } from './sqlite.ts'

/** `integrity_check` also compares each index with its table, and takes several times as long. */
export type PageCheck = 'quick_check' | 'integrity_check'

/**
 * SQLite's check of every page of a database, for damage that no checksum of ours shows.
 *
 * @returns the first problem, or undefined
 * @throws SQLite's error for a file that it can't read at all
 */
export function findDamage(connection: Connection, check: PageCheck = 'quick_check'): string | undefined {
  // A CHECK may call a function whose result differs per connection (total_changes(), random()): that is not damage.
  connection.pragma('ignore_check_constraints = ON')
  if (isWhole(connection, check)) return undefined
  return problemsOfTables(connection, check)[0]
}

/** A name that a virtual table may take for one of its own tables, as suffixes of its name. */
const SHADOW_SUFFIXES =
  "'_data', '_idx', '_content', '_docsize', '_config', '_segments', '_segdir', '_stat', '_node', '_parent', '_rowid'"
const SHADOW_VIEWS = `
  SELECT view.name FROM sqlite_schema AS view JOIN sqlite_schema AS owner
  ON view.type = 'view' AND owner.type = 'table' AND owner.rootpage = 0
  AND lower(substr(view.name, 1, length(owner.name))) = lower(owner.name)
  AND lower(substr(view.name, length(owner.name) + 1)) IN (${SHADOW_SUFFIXES})`

/** SQLite tests the type of these columns' values, also in its quick check, and has to compute them for that. */
const VIRTUAL_COLUMN = `
  SELECT 1 FROM sqlite_schema AS owner JOIN pragma_table_xinfo(owner.name) AS own
  WHERE owner.type = 'table' AND owner.rootpage > 0 AND own.hidden = 2`
const INDEXED_EXPRESSION = `
  SELECT 1 FROM sqlite_schema AS owner JOIN pragma_index_xinfo(owner.name) AS own
  WHERE owner.type = 'index' AND own.cid = -2`
const PARTIAL_INDEX = `
  SELECT 1 FROM sqlite_schema AS owner JOIN pragma_index_list(owner.name) AS own
  WHERE owner.type = 'table' AND owner.rootpage > 0 AND own.partial`

/** The name of a view that a virtual table would read as its own table. Only a file that was made elsewhere can have one. */
export function shadowView(connection: Connection): string | undefined {
  return connection.prepare(SHADOW_VIEWS).pluck().get() as string | undefined
}

/**
 * Whether the check may run expressions of the schema: those of generated columns, of indexes and of views that virtual tables
 * read. They can take hours, and all memory, on a database of a few pages.
 */
export function mayRunExpressions(connection: Connection, check: PageCheck): boolean {
  const wanted =
    check === 'quick_check' ? [VIRTUAL_COLUMN] : [VIRTUAL_COLUMN, INDEXED_EXPRESSION, PARTIAL_INDEX]
  return [SHADOW_VIEWS, ...wanted].some((query) => connection.prepare(query).get() !== undefined)
}

const READ_BYTES = 1_048_576

/**
 * Reads a file to its end. SQLite may report a page that the disk can't read as damaged, so believe damage only of a file
 * that can be read. No connection of this process may have the file open (invariant 4).
 *
 * @throws the system's error
 */
export function assertReadable(file: string): void {
  const fd = fs.openSync(file, 'r')
  try {
    const bytes = Buffer.allocUnsafe(READ_BYTES)
    let at = 0
    for (let read = -1; read !== 0; at += read) read = fs.readSync(fd, bytes, 0, READ_BYTES, at)
  } finally {
    fs.closeSync(fd)
  }
}

function isWhole(connection: Connection, check: PageCheck): boolean {
  try {
    return connection.pragma(`${check}(1)`, { simple: true }) === 'ok'
  } catch (error) {
    if (isExpressionError(error)) return false
    throw error
  }
}

/**
 * The problems of the tables that have pages. A check of the whole database also asks the virtual tables: but a search index
 * that is not filled yet is not damage, and the live cell had it too. Nor is a generated column that fails.
 */
function problemsOfTables(connection: Connection, check: PageCheck): string[] {
  const tables = connection
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")
    .pluck()
    .all()
  return ['sqlite_schema', ...(tables as string[])].flatMap((table) => {
    try {
      const rows = connection.pragma(`${check}("${table.replaceAll('"', '""')}")`) as Record<string, string>[]
      return rows.flatMap((row) => Object.values(row)).filter((finding) => finding !== 'ok')
    } catch (error) {
      if (isExpressionError(error)) return []
      throw error
    }
  })
}

/** Damage has codes of its own (SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_IOERR). */
function isExpressionError(error: unknown): boolean {
  return (
    error instanceof Error &&
    'code' in error &&
    (error.code === 'SQLITE_ERROR' || error.code === 'SQLITE_TOOBIG')
  )
}
