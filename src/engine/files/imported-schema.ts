import { CellError } from '../../errors.ts'
import type { SqlPolicy } from '../cell-settings.ts'
import type { OwnersNames } from '../sql-policy/owners-names.ts'
import { SqlTokens } from '../sql-policy/sql-lexer.ts'
import { checkStatement } from '../sql-policy/sql-policy.ts'
import { statementsOf } from '../sql-policy/sql-script.ts'
import { SqlStatement } from '../sql-policy/sql-statement.ts'
import { checkTrustedStatement } from '../sql-policy/trusted-sql.ts'
import type { Connection } from '../sqlite.ts'
import { invalidDatabase } from './database-header.ts'

/** What the schema of an imported database may hold. Plain data, because another thread checks it. */
export interface SchemaRules {
  /** Whose SQL may have made it. */
  policy: SqlPolicy
  /** What tenants can't use of the owner's functions; undefined: they have none. */
  owners?: OwnersNames | undefined
  schemaBytesMax: number
  /** The SQL of the engine's own tables and indexes. */
  reserved: string
}

/** How an object is called in errors. */
export interface ObjectName {
  type: string
  name: string
}

interface SchemaRow extends ObjectName {
  table: string
  sql: string | null
}

const SCHEMA = 'SELECT type, name, tbl_name AS "table", sql FROM main.sqlite_schema'
const RESERVED = /^_cell/i
/** As SQLite writes them. It reads others, too: but VACUUM leaves out what has its type in capitals. */
const TYPES: ReadonlySet<unknown> = new Set(['table', 'index', 'view', 'trigger'])
/** Tables that SQLite makes for itself, word for word: another object of such a name would pass as one. */
const OF_SQLITE: ReadonlySet<string> = new Set(
  [
    'CREATE TABLE sqlite_sequence(name,seq)',
    'CREATE TABLE sqlite_stat1(tbl,idx,stat)',
    'CREATE TABLE sqlite_stat4(tbl,idx,neq,nlt,ndlt,sample)',
  ].map(normalized),
)
/** The column of a table that had none (kv/queries.ts: addVersions). */
const VERSION_DEFAULT = / DEFAULT \d+(?= \) STRICT)/

/**
 * Checks every object of a schema as if its creator had sent it as a statement: what the policy refuses cannot come in as a file
 * either.
 *
 * @returns whether the database has the engine's own tables: then it is an export of a cell
 * @throws `invalid_database` with the object's name
 */
export function checkImportedSchema(connection: Connection, rules: SchemaRules): boolean {
  const rows = connection.prepare(SCHEMA).all() as SchemaRow[]
  if (!rows.every(isSchemaRow)) throw invalidDatabase('A row of its schema is not as SQLite writes them')
  const bytes = rows.reduce((sum, { sql }) => sum + Buffer.byteLength(sql ?? ''), 0)
  if (bytes > rules.schemaBytesMax) {
    const why = `The schema has ${bytes} bytes of SQL text, and a cell may have ${rules.schemaBytesMax} (limits.schemaBytesMax)`
    throw invalidDatabase(why)
  }
  const reserved = new Set([...statementsOf(rules.reserved)].map(({ sql }) => normalized(sql)))
  const expected = [...reserved].filter((sql) => sql.startsWith('CREATE')).length
  let found = 0
  for (const row of rows) {
    if (!RESERVED.test(row.name) && !RESERVED.test(row.table)) checkObject(row, rules)
    else if (row.sql !== null && reserved.has(normalized(row.sql).replace(VERSION_DEFAULT, ''))) found++
    else
      throw invalidDatabase(
        `${shownObject(row)} ${howReserved(row)} of the engine’s own, which start with _cell`,
      )
  }
  if (found !== 0 && found !== expected)
    throw invalidDatabase('The engine’s own tables, which start with _cell, are not complete')
  return found > 0
}

/** Of a row that has a reserved name, or is on a table that has one. */
function howReserved({ name }: SchemaRow): string {
  return RESERVED.test(name) ? 'has a name' : 'is on a table'
}

/** SQLite reads a name or a definition from any value, a blob for example. */
function isSchemaRow({ type, name, table, sql }: { [column in keyof SchemaRow]: unknown }): boolean {
  return (
    TYPES.has(type) &&
    typeof name === 'string' &&
    typeof table === 'string' &&
    (sql === null || typeof sql === 'string')
  )
}

function checkObject(row: SchemaRow, { policy, owners }: SchemaRules): void {
  if (/^sqlite_/i.test(row.name)) {
    // An index without SQL is that of a UNIQUE or a PRIMARY KEY.
    if (row.sql === null ? row.type === 'index' : OF_SQLITE.has(normalized(row.sql))) return
    throw invalidDatabase(`${shownObject(row)} has a name of SQLite’s own`)
  }
  const statement = new SqlStatement(row.sql ?? '')
  const tokens = statement.takeTokens()
  const { head } = statement
  if (head.verb !== 'CREATE' || head.explain) throw invalidDatabase(`${shownObject(row)} has no definition`)
  try {
    if (policy === 'tenant') checkStatement(tokens, head, owners)
    else checkTrustedStatement(tokens, head)
  } catch (error) {
    if (!(error instanceof CellError)) throw error
    throw invalidDatabase(
      `${shownObject(row)} is not allowed here: ${error.message.replace(/\.$/, '')}`,
      error,
    )
  }
}

/** A name can be long, and hold anything. */
export function shownObject({ type, name }: ObjectName): string {
  return `The ${type} ${JSON.stringify(name.slice(0, 100).toWellFormed())}`
}

/** The same for texts that differ only in blanks and comments. */
function normalized(sql: string): string {
  const tokens = new SqlTokens(sql)
  const words: string[] = []
  for (let token = tokens.next(); token !== undefined; token = tokens.next()) words.push(token.text)
  return words.join(' ')
}
