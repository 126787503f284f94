import { decodeInteger } from './rows.ts'
import type { SqlTokens } from './sql-lexer.ts'
import type { StatementHead } from './sql-shape.ts'
import type { SqlToken } from './sql-token.ts'
import type { Connection, Statement } from './sqlite.ts'

/**
 * Whether an INSERT inserted a row, and which: SQLite itself answers with the rowid of the last INSERT that did, which
 * may be another statement's.
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

export function insertRowid(connection: Connection, tokens: SqlTokens, head: StatementHead): InsertRowid {
  if (head.shape.explain || (head.verb !== 'INSERT' && head.verb !== 'REPLACE')) return NO_ROWID
  const target = insertTarget(tokens, head.verbIndex)
  if (target === undefined) return PLAIN
  const table = describeTable(connection, target)
  if (table?.withoutRowid) return NO_ROWID
  return table !== undefined && mentionsConflict(tokens) ? new UpsertRowid(connection, table) : PLAIN
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
  /** As SQL spells it, quoted. */
  sql: string
  withoutRowid: boolean
  /** A name for the rowid that no column of the table has taken. */
  rowid: string | undefined
}

/** @returns undefined for what is no table that a row can be looked up in */
function describeTable(connection: Connection, { schema, name }: Target): Table | undefined {
  const rows = connection.prepare('SELECT schema, type, wr FROM pragma_table_list(?)').raw().all(name) as [
    string,
    string,
    number,
  ][]
  // An unqualified name means the TEMP table first, then the cell's own, as SQLite lists them.
  const wanted = schema?.toLowerCase()
  const row = rows.find(([where]) => wanted === undefined || where.toLowerCase() === wanted)
  if (row === undefined || row[1] !== 'table') return undefined
  const columns = connection
    .prepare('SELECT lower(name) FROM pragma_table_xinfo(?, ?)')
    .pluck()
    .all(name, row[0]) as string[]
  return {
    sql: `${quoted(row[0])}.${quoted(name)}`,
    withoutRowid: row[2] !== 0,
    rowid: ['rowid', 'oid', '_rowid_'].find((candidate) => !columns.includes(candidate)),
  }
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** An upsert says so; so might a column called `conflict` in a join, which does no harm. */
function mentionsConflict(tokens: SqlTokens): boolean {
  for (let i = 0; tokens.at(i) !== undefined; i++)
    if (tokens.is(i, 'CONFLICT') && tokens.is(i - 1, 'ON')) return true
  return false
}

/**
 * `ON CONFLICT … DO UPDATE` counts as a change and leaves the old rowid in place. If that is what SQLite answers
 * again, the row was inserted only if it was not there before and is there now.
 */
class UpsertRowid implements InsertRowid {
  readonly #last: Statement
  readonly #exists: Statement | undefined
  #before = 0n
  #wasThere = false

  constructor(connection: Connection, { sql, rowid }: Table) {
    this.#last = connection.prepare('SELECT last_insert_rowid()').pluck().safeIntegers()
    if (rowid !== undefined)
      this.#exists = connection.prepare(`SELECT 1 FROM ${sql} WHERE ${rowid} = ?`).pluck()
  }

  begin(): void {
    this.#before = this.#last.get() as bigint
    this.#wasThere = this.#isThere()
  }

  end(changes: number, rowid: bigint): number | bigint | null {
    if (changes === 0) return null
    const inserted = rowid !== this.#before || (!this.#wasThere && this.#isThere())
    return inserted ? decodeInteger(rowid) : null
  }

  #isThere(): boolean {
    return this.#exists?.get(this.#before) !== undefined
  }
}
