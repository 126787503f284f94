import { LruCache } from '../../base/lru-cache.ts'
import type { SqlTokens } from '../sql-policy/sql-lexer.ts'
import type { StatementHead } from '../sql-policy/sql-statement.ts'
import type { SqlToken } from '../sql-policy/sql-token.ts'
import type { Connection, Statement } from '../sqlite.ts'
import { decodeInteger } from './rows.ts'

/**
 * Whether an INSERT inserted a row, and which: SQLite answers with the rowid of the last INSERT that did, which may be
 * another statement's.
 */
export interface InsertRowid {
  /** Before the statement runs. */
  begin(): void
  /** After it. @param rowid what SQLite answers @returns the row's, or null if there is none */
  end(changes: number, rowid: bigint): number | bigint | null
}

const NO_ROWID: InsertRowid = { begin() {}, end: () => null }

const PLAIN: InsertRowid = {
  begin() {},
  end: (changes, rowid) => (changes > 0 ? decodeInteger(rowid) : null),
}

/** Each spelling of a table's name is one. */
const TABLES_MAX = 1_000

/** Finds the {@link InsertRowid} for each statement of one connection. */
export class InsertRowids {
  readonly #connection: Connection
  readonly #tables = new LruCache<Table | null>(TABLES_MAX)
  #list: Statement | undefined

  constructor(connection: Connection) {
    this.#connection = connection
  }

  of(tokens: SqlTokens, head: StatementHead): InsertRowid {
    if (head.explain || (head.verb !== 'INSERT' && head.verb !== 'REPLACE')) return NO_ROWID
    const target = insertTarget(tokens, head.verbIndex)
    const table = target && this.#find(target)
    if (table === undefined) return PLAIN
    if (table.withoutRowid) return NO_ROWID
    return mentionsConflict(tokens) ? new UpsertRowid(this.#connection, table) : PLAIN
  }

  /** The schema has changed. */
  clear(): void {
    this.#tables.clear()
  }

  #find(target: Target): Table | undefined {
    const key = JSON.stringify(target)
    const known = this.#tables.get(key)
    if (known !== undefined) return known ?? undefined
    const table = this.#describe(target)
    this.#tables.set(key, table ?? null)
    return table
  }

  /** @returns undefined for anything but a table whose rows can be looked up */
  #describe({ schema, name }: Target): Table | undefined {
    this.#list ??= this.#connection.prepare(TABLE_LIST).raw() as Statement
    const rows = this.#list.all(name) as [string, string, number][]
    // An unqualified name means the TEMP table first, then the cell's own, as SQLite lists them.
    const wanted = schema?.toLowerCase()
    const row = rows.find(([where]) => wanted === undefined || where.toLowerCase() === wanted)
    if (row === undefined || row[1] !== 'table') return undefined
    return { schema: row[0], name, withoutRowid: row[2] !== 0 }
  }
}

interface Target {
  schema: string | undefined
  name: string
}

/** Of `INSERT [OR word] INTO [schema .] name`. */
function insertTarget(tokens: SqlTokens, verbIndex: number): Target | undefined {
  const into = tokens.is(verbIndex + 1, 'OR') ? verbIndex + 3 : verbIndex + 1
  if (!tokens.is(into, 'INTO')) return undefined
  const first = identifier(tokens.at(into + 1))
  if (first === undefined) return undefined
  if (!tokens.is(into + 2, '.')) return { schema: undefined, name: first }
  const name = identifier(tokens.at(into + 3))
  return name === undefined ? undefined : { schema: first, name }
}

function identifier(token: SqlToken | undefined): string | undefined {
  if (token?.kind === 'word') return token.text
  if (token?.kind !== 'quoted' && token?.kind !== 'string') return undefined
  const quote = token.text.charAt(0)
  const inner = token.text.slice(1, -1)
  return quote === '[' ? inner : inner.replaceAll(quote + quote, quote)
}

interface Table {
  schema: string
  name: string
  withoutRowid: boolean
}

/** Behind `temp.` no table of a cell can take the place of these functions. */
const TABLE_LIST = 'SELECT schema, type, wr FROM temp.pragma_table_list(?)'
const COLUMNS = 'SELECT lower(name) FROM temp.pragma_table_xinfo(?, ?)'

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** True for every upsert. It may also be true for a join with a column called `conflict`, which does no harm. */
function mentionsConflict(tokens: SqlTokens): boolean {
  for (let i = 0; tokens.at(i) !== undefined; i++)
    if (tokens.is(i, 'CONFLICT') && tokens.is(i - 1, 'ON')) return true
  return false
}

/**
 * `ON CONFLICT … DO UPDATE` counts as a change and leaves the old rowid in place. If that is what SQLite answers
 * again, the row was inserted only if it did not exist before and exists now.
 */
class UpsertRowid implements InsertRowid {
  readonly #last: Statement
  readonly #findRow: Statement | undefined
  #before = 0n
  #wasThere = false

  constructor(connection: Connection, { schema, name }: Table) {
    this.#last = connection.prepare('SELECT last_insert_rowid()').pluck().safeIntegers()
    const columns = connection.prepare(COLUMNS).pluck().all(name, schema) as string[]
    // Each of its three names may be the name of a column.
    const rowid = ['rowid', 'oid', '_rowid_'].find((candidate) => !columns.includes(candidate))
    if (rowid === undefined) return
    const table = `${quoted(schema)}.${quoted(name)}`
    this.#findRow = connection.prepare(`SELECT 1 FROM ${table} WHERE ${rowid} = ?`).pluck()
  }

  begin(): void {
    this.#before = this.#last.get() as bigint
    this.#wasThere = this.#rowExists()
  }

  end(changes: number, rowid: bigint): number | bigint | null {
    if (changes === 0) return null
    const inserted = rowid !== this.#before || (!this.#wasThere && this.#rowExists())
    return inserted ? decodeInteger(rowid) : null
  }

  #rowExists(): boolean {
    return this.#findRow?.get(this.#before) !== undefined
  }
}
