import fs from 'node:fs'
import { isError } from '../../base/any-realm.ts'
import type { Connection } from '../sqlite.ts'

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
  const finding = firstFinding(connection, check)
  if (finding === 'ok') return undefined
  // What is found of the trees comes first. Two that share a page look whole one by one.
  const ofTrees = finding?.startsWith(OF_TREES) && !isLeak(finding) ? finding : undefined
  return ofTrees?.slice(OF_TREES.length).trim() ?? problemsOf(connection, check)[0]
}

/** A name that a virtual table may take for one of its own tables, as suffixes of its name. */
const SHADOW_SUFFIXES =
  "'_data', '_idx', '_content', '_docsize', '_config', '_segments', '_segdir', '_stat', '_node', '_parent', '_rowid'"
const FALSE_SHADOW = `
  SELECT object.name, object.type FROM sqlite_schema AS object JOIN sqlite_schema AS owner
  ON (object.type = 'view' OR (object.type = 'table' AND object.rootpage = 0)) AND owner.type = 'table' AND owner.rootpage = 0
  AND lower(substr(object.name, 1, length(owner.name))) = lower(owner.name)
  AND lower(substr(object.name, length(owner.name) + 1)) IN (${SHADOW_SUFFIXES})`

/** SQLite asks each of them for a check of its own, and a search index reads its content for that: it can be any view. */
const VIRTUAL_TABLE = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND rootpage = 0"
/** SQLite looks at each column of each row: a row that was there before its columns takes a few bytes for 2,000 of them, and 30 µs. */
const COLUMNS_MAX = 64
/**
 * Tables whose rows take far longer than their bytes. SQLite tests the type of a column's values, also in its quick check, and has to
 * compute virtual ones for that.
 */
const SLOW_TABLE = `
  SELECT owner.name FROM sqlite_schema AS owner JOIN pragma_table_xinfo(owner.name) AS own
  WHERE owner.type = 'table' AND owner.rootpage > 0 AND (own.hidden = 2 OR own.cid >= ${COLUMNS_MAX})`
const INDEXED_EXPRESSION = `
  SELECT 1 FROM sqlite_schema AS owner JOIN pragma_index_xinfo(owner.name) AS own
  WHERE owner.type = 'index' AND own.cid = -2`
const PARTIAL_INDEX = `
  SELECT 1 FROM sqlite_schema AS owner JOIN pragma_index_list(owner.name) AS own
  WHERE owner.type = 'table' AND owner.rootpage > 0 AND own.partial`

/** What a virtual table would read as its own table, and is none. Only a file that was made elsewhere can have one. */
export function falseShadow(connection: Connection): { name: string; type: 'view' | 'table' } | undefined {
  return connection.prepare(FALSE_SHADOW).get() as ReturnType<typeof falseShadow>
}

/**
 * Whether the database's bytes do not bound how long the check takes. It runs what the schema computes: generated columns, expressions
 * of indexes, and whatever virtual tables read or call. That can take hours, and all memory, on a database of a few pages.
 * Rows of many columns can take a hundred times as long as others.
 */
export function mayTakeLong(connection: Connection, check: PageCheck): boolean {
  const slow = check === 'quick_check' ? [SLOW_TABLE] : [SLOW_TABLE, INDEXED_EXPRESSION, PARTIAL_INDEX]
  return [VIRTUAL_TABLE, ...slow].some((query) => connection.prepare(query).get() !== undefined)
}

/**
 * As {@link findDamage}, for a process in which no check may take long. Of tables with virtual columns, or with many, it reads the
 * b-tree alone, not what the rows hold, and virtual tables have no pages but those of their own tables.
 */
export function findDamageOfPages(connection: Connection): string | undefined {
  if (!mayTakeLong(connection, 'quick_check')) return findDamage(connection)
  connection.pragma('ignore_check_constraints = ON')
  const slow = new Set(connection.prepare(SLOW_TABLE).pluck().all() as string[])
  return problemsOf(connection, 'quick_check', slow)[0] ?? findSharedPage(connection)
}

/** A page that two trees share: each looks whole by itself. Reads each page once, and nothing of what the schema computes. */
function findSharedPage(connection: Connection): string | undefined {
  // A bit for each: a cell can have millions of pages.
  const seen = new Uint8Array(((connection.pragma('page_count', { simple: true }) as number) >> 3) + 1)
  for (const page of connection.prepare('SELECT pageno FROM dbstat').pluck().iterate() as Iterable<number>) {
    const [at, bit] = [page >> 3, 1 << (page & 7)]
    if (((seen[at] ?? 0) & bit) !== 0) return `2nd reference to page ${page}`
    seen[at] = (seen[at] ?? 0) | bit
  }
  return undefined
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

/** The line before what SQLite's check finds of pages, and not of rows. */
const OF_TREES = '*** in database main ***'

/** A page that nothing refers to takes room, and nothing is lost with it. SQLite looks for such pages last. */
function isLeak(finding: string): boolean {
  return /: never used$/.test(finding)
}

/** @returns undefined if an expression of the schema failed */
function firstFinding(connection: Connection, check: PageCheck): string | undefined {
  try {
    return connection.pragma(`${check}(1)`, { simple: true }) as string
  } catch (error) {
    if (isExpressionError(error)) return undefined
    throw error
  }
}

/**
 * The problems of the tables that have pages. A check of the whole database also asks the virtual tables: but a search index
 * that is not filled yet is not damage, and the live cell had it too. Nor is a generated column that fails.
 */
function problemsOf(
  connection: Connection,
  check: PageCheck,
  slow: ReadonlySet<string> = new Set(),
): string[] {
  const tables = connection
    .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND rootpage > 0")
    .pluck()
    .all() as string[]
  return ['sqlite_schema', ...tables].flatMap((table) => {
    const name = `"${table.replaceAll('"', '""')}"`
    try {
      if (slow.has(table)) {
        // Not by an index: that would be the smaller tree.
        connection.prepare(`SELECT count(*) FROM ${name} NOT INDEXED`).get()
        return []
      }
      const rows = connection.pragma(`${check}(${name})`) as Record<string, string>[]
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
    isError(error) && 'code' in error && (error.code === 'SQLITE_ERROR' || error.code === 'SQLITE_TOOBIG')
  )
}
