import { LruCache } from '../../base/lru-cache.ts'
import type { Limits } from '../../base/options/limits.ts'
import { CellError } from '../../errors.ts'
import type { CellDatabaseSettings, SqlPolicy } from '../cell-settings.ts'
import { checkForeignKeyPragma } from '../sql-policy/foreign-key-pragmas.ts'
import type { OwnersNames } from '../sql-policy/owners-names.ts'
import { checkStatement } from '../sql-policy/sql-policy.ts'
import { SqlStatement, type SqlText, type StatementVerb } from '../sql-policy/sql-statement.ts'
import { checkTrustedStatement } from '../sql-policy/trusted-sql.ts'
import type { Connection, Statement } from '../sqlite.ts'
import { type InsertRowid, InsertRowids } from './insert-rowid.ts'
import { Placeholders } from './placeholders.ts'
import { distinctColumns } from './rows.ts'

/** A column of a statement's rows. */
export interface ColumnDescription {
  /** Several columns can have the same. */
  name: string
  /** As the table declares it; null for what no table has. */
  type: string | null
}

/** A caller's prepared statement, with what is needed to run it. */
export interface PreparedStatement {
  readonly statement: Statement
  /** It gives rows. */
  readonly reader: boolean
  /** A query: when it has succeeded, the connection is certainly as it was, and its rows need no second look. */
  readonly onlyReads: boolean
  /** The same statement with rows as objects: only where no column of a row would hide another, and once it is asked for. */
  readonly asObjects: (() => Statement) | undefined
  /** INSERT, REPLACE, UPDATE or DELETE: SQLite counts its changes. */
  readonly changesRows: boolean
  /** DELETE or DROP: it makes room. */
  readonly deletes: boolean
  /** Other statements may have other columns after it. */
  readonly changesSchema: boolean
  /** CREATE or ALTER: the schema's text may be longer after it. */
  readonly growsSchema: boolean
  /** It opens a file of the caller's, or makes one: only trusted SQL may. */
  readonly opensFile: 'ATTACH' | 'VACUUM' | undefined
  /** It may have foreign keys judged only at the COMMIT: a table with such keys, or PRAGMA defer_foreign_keys. */
  readonly defersKeys: boolean
  /** ALTER: it may change the text of other things in the schema, too. */
  readonly renames: boolean
  readonly insertRowid: InsertRowid
  /** Only of a statement with numbered ones. */
  readonly placeholders: Placeholders | undefined
  /** EXPLAIN: its rows are SQLite's code for a statement. */
  readonly isListing: boolean
  /** PRAGMA optimize: it changes the database, although SQLite calls it read-only. */
  readonly changesUnseen: boolean
  /** Distinct names of the columns, as of {@link schemaVersion}. */
  columns: string[]
  /** The columns as SQLite tells of them; only once somebody has asked. */
  described?: ColumnDescription[] | undefined
  schemaVersion: number
  /** It has passed the tenants' policy: one that was prepared as trusted has not. */
  tenantSafe: boolean
}

/** About 8 MiB. */
const CACHED_WEIGHT = 128
const CHARACTERS_A_WEIGHT = 1_024
/** A prepared statement takes up to so many bytes for each character of its text, and as many as for some more. */
const BYTES_A_CHARACTER = 64
const CHARACTERS_MORE = 32

/** As a statement, or as a table-valued function. */
const OPTIMIZE = /\bpragma(_|\b.*\b)optimize/is

/** DEFERRABLE INITIALLY DEFERRED, or the PRAGMA: more texts than those that do, and none less. */
const DEFERS = /defer/i

const CHANGES_ROWS: ReadonlySet<StatementVerb> = new Set(['INSERT', 'REPLACE', 'UPDATE', 'DELETE'])
const QUERIES: ReadonlySet<StatementVerb> = new Set(['SELECT', 'VALUES'])
/** ATTACH and DETACH change what a name means. */
const CHANGES_SCHEMA: ReadonlySet<StatementVerb> = new Set([
  'CREATE',
  'DROP',
  'ALTER',
  'ATTACH',
  'DETACH',
  'VACUUM',
])

/** The statements of callers, each prepared once while it is in use. */
export class PreparedStatements {
  readonly #connection: Connection
  readonly #limits: Limits
  readonly #owners: OwnersNames | undefined
  readonly #beforePrepare: (sql: string) => boolean
  readonly #cache = new LruCache<PreparedStatement>(CACHED_WEIGHT, (sql) =>
    Math.ceil(sql.length / CHARACTERS_A_WEIGHT),
  )
  readonly #inserts: InsertRowids
  readonly #schemaVersion: Statement
  /** Version of the schema that the descriptions of tables belong to. */
  #knownVersion: number | undefined
  #schemaTouched = false
  /** Another one after each change of the schema or of a setting: the code that SQLite makes of a text may differ then. */
  version = 0

  /** @param beforePrepare called with each text that has passed the policy; returns true if it made anything in the schema */
  constructor(
    connection: Connection,
    { limits, ownerFunctions }: Pick<CellDatabaseSettings, 'limits' | 'ownerFunctions'>,
    beforePrepare: (sql: string) => boolean,
  ) {
    this.#connection = connection
    this.#limits = limits
    this.#owners = ownerFunctions?.refused
    this.#beforePrepare = beforePrepare
    this.#inserts = new InsertRowids(connection)
    this.#schemaVersion = connection.prepare('PRAGMA main.schema_version').pluck()
  }

  /**
   * @param keep whether the same text is likely to come again
   * @throws `sql_too_long`, `invalid_request`, `statement_not_allowed`; SQLite's errors
   */
  find(text: SqlText, policy: SqlPolicy, keep = true): PreparedStatement {
    const cached = this.#cache.get(text instanceof SqlStatement ? text.sql : text)
    const isAllowed = cached !== undefined && (cached.tenantSafe || policy !== 'tenant')
    if (isAllowed) return cached
    const statement = text instanceof SqlStatement ? text : new SqlStatement(text)
    if (cached === undefined) return this.#prepare(statement, policy, keep)
    checkStatement(statement.takeTokens(), statement.head, this.#owners)
    cached.tenantSafe = true
    return cached
  }

  /**
   * Its columns, after it has run. Their names can change: if another program alters the schema, SQLite silently prepares
   * the statement again.
   */
  columns(prepared: PreparedStatement): string[] {
    const version = this.#schemaVersion.get() as number
    if (version !== prepared.schemaVersion) {
      prepared.columns = columnsOf(prepared.statement)
      prepared.described = undefined
      prepared.schemaVersion = version
    }
    return prepared.columns
  }

  /** {@link columns}, with their own names and types. */
  described(prepared: PreparedStatement): ColumnDescription[] {
    if (!prepared.reader) return []
    this.columns(prepared)
    prepared.described ??= prepared.statement.columns().map(({ name, type }) => ({ name, type }))
    return prepared.described
  }

  /** Memory that those in the cache take at most. */
  get bytes(): number {
    let characters = 0
    for (const sql of this.#cache.keys) characters += sql.length + CHARACTERS_MORE
    return BYTES_A_CHARACTER * characters
  }

  /** After a statement that changed the schema. */
  schemaChanged(): void {
    this.#forget()
    this.#schemaTouched = this.#connection.inTransaction
  }

  /** After any rollback: statements that were prepared on the undone schema must go, even if its version is the same. */
  rolledBack(): void {
    if (!this.#schemaTouched) return
    this.#forget()
    this.#schemaTouched = this.#connection.inTransaction
  }

  committed(): void {
    this.#schemaTouched = false
  }

  #forget(): void {
    this.version++
    this.#cache.clear()
    this.#inserts.clear()
  }

  #prepare(text: SqlStatement, policy: SqlPolicy, keep: boolean): PreparedStatement {
    const { sql } = text
    checkText(sql, this.#limits)
    const tokens = text.takeTokens()
    const { head } = text
    const isTenant = policy === 'tenant'
    if (isTenant) checkStatement(tokens, head, this.#owners)
    else checkTrustedStatement(tokens, head)
    const setsKeys = checkForeignKeyPragma(tokens, head, this.#connection.inTransaction)
    // What it makes inside a transaction must be made again if that is rolled back.
    if (this.#beforePrepare(sql)) this.#schemaTouched ||= this.#connection.inTransaction
    const statement: Statement = this.#connection.prepare(sql).safeIntegers()
    const columns = columnsOf(statement)
    if (statement.reader) statement.raw()
    const { explain, verb } = head
    if (verb === 'PRAGMA') this.version++
    const schemaVersion = this.#schemaVersion.get() as number
    // Another program has changed the schema.
    if (schemaVersion !== this.#knownVersion) this.#inserts.clear()
    this.#knownVersion = schemaVersion
    const { reader, readonly: isReadonly } = statement
    const changesUnseen = OPTIMIZE.test(sql)
    const changesSchema = !explain && CHANGES_SCHEMA.has(verb)
    const prepared = {
      statement,
      reader,
      onlyReads: reader && isReadonly && QUERIES.has(verb) && !explain && !changesUnseen,
      asObjects: canBeObjects(statement, columns) ? this.#preparedOnce(sql) : undefined,
      changesRows: !explain && CHANGES_ROWS.has(verb),
      changesSchema,
      opensFile: !explain && (verb === 'ATTACH' || verb === 'VACUUM') ? verb : undefined,
      growsSchema: !explain && (verb === 'CREATE' || verb === 'ALTER'),
      defersKeys: (changesSchema || verb === 'PRAGMA') && DEFERS.test(sql),
      renames: !explain && verb === 'ALTER',
      deletes: !explain && (verb === 'DELETE' || verb === 'DROP'),
      insertRowid: this.#inserts.of(tokens, head),
      // A CREATE has none, but its text may look as if it had.
      placeholders: changesSchema ? undefined : Placeholders.of(tokens),
      isListing: explain,
      changesUnseen,
      columns,
      schemaVersion,
      tenantSafe: isTenant,
    }
    if (keep && !setsKeys) this.#cache.set(sql, prepared)
    return prepared
  }

  #preparedOnce(sql: string): () => Statement {
    let statement: Statement | undefined
    return () => {
      statement ??= this.#connection.prepare(sql).safeIntegers() as Statement
      return statement
    }
  }
}

/** The driver makes objects of rows faster than we can, but a second column of one name would replace the first. */
function canBeObjects(statement: Statement, columns: readonly string[]): boolean {
  if (!statement.reader || columns.includes('__proto__')) return false
  return statement.columns().every(({ name }, i) => name === columns[i])
}

function columnsOf(statement: Statement): string[] {
  return statement.reader ? distinctColumns(statement.columns().map(({ name }) => name)) : []
}

/** @throws `sql_too_long` */
export function checkSqlLength(sql: string, { sqlBytesMax }: Pick<Limits, 'sqlBytesMax'>): void {
  if (sql.length <= sqlBytesMax && Buffer.byteLength(sql) <= sqlBytesMax) return
  throw new CellError(
    'sql_too_long',
    `A statement is at most ${sqlBytesMax} bytes long (limits.sqlBytesMax).`,
    {
      limit: sqlBytesMax,
    },
  )
}

function checkText(sql: string, { sqlBytesMax }: Limits): void {
  if (typeof sql !== 'string') throw new CellError('invalid_request', 'sql is a string.', { field: 'sql' })
  checkSqlLength(sql, { sqlBytesMax })
  if (sql.includes('\0')) {
    // SQLite would stop there and silently run half a statement.
    throw new CellError('invalid_request', 'The SQL text contains a NUL character. Bind it in a parameter.', {
      field: 'sql',
    })
  }
  if (sql.isWellFormed()) return
  throw new CellError(
    'invalid_request',
    'The SQL text contains a lone surrogate, which is not valid Unicode.',
    { field: 'sql' },
  )
}
