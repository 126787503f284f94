import { isUtf8 } from 'node:buffer'
import { open } from 'node:fs/promises'
import { CellError } from '../../errors.ts'
import { PAGE_BYTES } from '../cell-settings.ts'
import { type Connection, openConnection } from '../sqlite.ts'
import { isSqliteError } from '../sqlite-errors.ts'
import { checkHeader, invalidDatabase, setJournalMode } from './database-header.ts'
import { checkObjects } from './imported-objects.ts'
import { checkImportedSchema, type SchemaRules } from './imported-schema.ts'
import { falseShadow, findDamage } from './quick-check.ts'

const SEARCH_CONFIGS =
  "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'shadow' AND lower(name) LIKE '%#_config' ESCAPE '#'"
const TENANTS_SETTINGS = "'version', 'rank', 'secure-delete'"

/** The planner's statistics, and how many rows ANALYZE makes at most for a table or an index. */
const STATISTICS = [
  ['sqlite_stat1', 1],
  ['sqlite_stat4', 24],
] as const

/** What a database must be to become a cell. Plain data, because another thread checks it. */
export interface ImportRules extends SchemaRules {
  cellBytesMax: number
  /** Finds an entry that the KV API would have refused; undefined row: all are right. */
  wrongEntry: string
}

/**
 * Makes the file of a cell of any SQLite database: checks it, and has SQLite write its content into a new file. So the cell
 * has no page that our SQLite did not write, whatever the page size and the journal mode were; rowids stay.
 *
 * @param source is changed, and of no use afterwards. Nobody else has it open
 * @param target does not exist yet. After a failure, the caller removes it
 * @throws `invalid_database`, `cell_full`; failures of the disk, as system errors or as SQLite's
 */
export async function importDatabase(source: string, target: string, rules: ImportRules): Promise<void> {
  await checkHeader(source)
  // Of a database in WAL mode the log is not here, and SQLite must not make one.
  await setJournalMode(source, 'rollback')
  try {
    rebuild(source, target, rules)
  } catch (error) {
    // The process of an import has a limit of its own: it is the database that needs more.
    if (isSqliteError(error) && /NOMEM$/.test(error.code))
      throw invalidDatabase('Its check took too much memory', error)
    if (isSqliteError(error) && isFinding(error.code))
      throw invalidDatabase(`SQLite cannot read it (${error.message})`, error)
    throw error
  }
  const size = await setJournalMode(target, 'wal')
  checkSize(size, rules)
  await using handle = await open(target, 'r+')
  await handle.sync()
}

function rebuild(source: string, target: string, rules: ImportRules): void {
  const isCell = within(source, (connection) => {
    connection.exec('PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA cache_size = -512')
    const hasReserved = checkImportedSchema(connection, rules)
    checkStatistics(connection)
    if (rules.policy === 'tenant') checkSearchTables(connection)
    const shadow = falseShadow(connection)
    if (shadow !== undefined)
      throw invalidDatabase(
        `${JSON.stringify(shadow.name.slice(0, 100))} is a ${shadow.type === 'view' ? 'view' : 'virtual table'} in place of a table that a virtual table made`,
      )
    checkObjects(connection, { isCell: hasReserved, hasOwners: rules.owners !== undefined })
    const problem = findDamage(connection, 'integrity_check')
    if (problem !== undefined) throw invalidDatabase(`SQLite finds the database damaged (${problem})`)
    if (hasReserved) checkReserved(connection, rules)
    connection.exec(`PRAGMA synchronous = OFF; PRAGMA auto_vacuum = NONE; PRAGMA page_size = ${PAGE_BYTES}`)
    connection.prepare('VACUUM INTO ?').run(target)
    return hasReserved
  })
  within(target, (connection) => {
    connection.exec('PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY')
    // What else is there belongs to the cell that was exported.
    // The index came in as it was, and no check finds entries of a partial index that its table does not have.
    if (isCell) connection.exec("DELETE FROM _cell_meta WHERE key <> 'schema_version'; REINDEX main._cell_kv")
    else connection.exec(rules.reserved)
  })
}

/** SQLite reads all of them whenever it opens the cell: two million rows take seconds. @throws `invalid_database` */
function checkStatistics(connection: Connection): void {
  const count = (from: string) => connection.prepare(`SELECT count(*) FROM ${from}`).pluck().get() as number
  const objects = count('main.sqlite_schema')
  for (const [table, rowsEach] of STATISTICS) {
    // Its row in the schema can say another name.
    if (count(`pragma_table_list WHERE schema = 'main' AND name = '${table}'`) === 0) continue
    if (count(`main.${table}`) > rowsEach * objects)
      throw invalidDatabase(`${table} has more rows than ANALYZE makes. Run ANALYZE, which writes it anew`)
  }
}

/** FTS5 keeps its settings in a table. Of its commands that set them, the policy leaves tenants two. */
function checkSearchTables(connection: Connection): void {
  for (const name of connection.prepare(SEARCH_CONFIGS).pluck().all() as string[]) {
    const table = `"${name.replaceAll('"', '""')}"`
    const setting = connection.prepare(`SELECT k FROM main.${table} WHERE k NOT IN (${TENANTS_SETTINGS})`)
    if (setting.get() !== undefined)
      throw invalidDatabase(
        `The table ${JSON.stringify(name.slice(0, 100))} has settings of FTS5 that are not allowed here`,
      )
  }
}

function checkReserved(connection: Connection, { reserved, wrongEntry }: ImportRules): void {
  const version = connection
    .prepare("SELECT value FROM _cell_meta WHERE key = 'schema_version'")
    .pluck()
    .get()
  const known = Number(/\('schema_version', (\d+)\)/.exec(reserved)?.[1])
  // A text '2' is not the number.
  if (version !== known)
    throw invalidDatabase(
      `The schema version of the exported cell is ${String(version)}; this version of cellstore knows ${known}`,
    )
  if (connection.prepare(wrongEntry).get() !== undefined || !isUnicode(connection))
    throw invalidDatabase(
      'The database has a KV entry whose key, value or time to live is over a limit, or whose text is not Unicode',
    )
}

/** SQLite takes any bytes for a text. Keys that are no text would look alike: a listing could not go on after one. */
function isUnicode(connection: Connection): boolean {
  const texts = connection.prepare('SELECT CAST(key AS BLOB), CAST(value AS BLOB) FROM main._cell_kv').raw()
  for (const text of texts.iterate() as IterableIterator<Buffer[]>)
    if (!text.every((each) => isUtf8(each))) return false
  return true
}

function within<T>(file: string, work: (connection: Connection) => T): T {
  const connection = openConnection(file)
  try {
    return work(connection)
  } finally {
    connection.close()
  }
}

/** What SQLite says of the file, and not of the disk or the memory. */
function isFinding(code: string): boolean {
  return /^SQLITE_(ERROR|CORRUPT|NOTADB|FORMAT|SCHEMA|MISMATCH|CONSTRAINT|TOOBIG|PROTOCOL|READONLY)/.test(
    code,
  )
}

/** @param bytes of the new file, complete or not: it never shrinks @throws `cell_full` */
export function checkSize(bytes: number, { cellBytesMax: limit }: ImportRules): void {
  if (bytes <= limit) return
  throw new CellError(
    'cell_full',
    `The database takes ${bytes} bytes or more here, and a cell may have ${limit} (limits.cellBytesMax). Nothing was imported.`,
    { limit, usage: bytes },
  )
}
