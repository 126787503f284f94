import type { Connection, Statement } from '../sqlite.ts'
import type { BoundParams } from '../statements/parameters.ts'
import type { PreparedStatement } from '../statements/prepared-statements.ts'

/** What a statement can write. */
export interface Written {
  /** Names of tables; null: any of them. */
  tables: readonly string[] | null
  /** It can write entries, and does not say which. */
  keys: boolean
  /** SQLite counts every row that it changes. */
  isCounted: boolean
}

const ANY_TABLE: Written = { tables: null, keys: false, isCounted: false }
const ANYTHING: Written = { tables: null, keys: true, isCounted: false }

const TABLES = 'SELECT rootpage, tbl_name FROM main.sqlite_schema WHERE rootpage > 0'
const VIRTUAL = "SELECT name, sql FROM main.sqlite_schema WHERE type = 'table' AND rootpage = 0"
const NAMES = "SELECT name FROM main.sqlite_schema WHERE type = 'table'"

const KV_TABLE = '_cell_kv'
/** Written for a table with AUTOINCREMENT, even by an INSERT that inserts nothing. */
const SEQUENCES = 'sqlite_sequence'
const RESERVED = /^_cell/i
/** Modules of SQLite: each writes its own tables, which have its name before theirs, and no others. */
const KNOWN_MODULE = /^fts[345]$|^rtree(_i32)?$|^geopoly$/i
const MODULE = /\busing\s+["'`[]?(\w+)/i

/** Columns of EXPLAIN. */
type Opcode = [address: number, opcode: string, p1: number, p2: number, p3: number]

/**
 * Finds the tables that a statement can write in SQLite's own code for it: that opens each b-tree for writing, also for
 * triggers and for the actions of foreign keys. So it may name more tables than rows are changed in, and never fewer.
 */
export class WrittenTables {
  readonly #connection: Connection
  readonly #known = new WeakMap<PreparedStatement, { version: number; written: Written }>()
  #roots: { version: number; tables: Map<number, string> } | undefined

  constructor(connection: Connection) {
    this.#connection = connection
  }

  /** @param version of the schema, and of the settings with which statements are compiled */
  of(prepared: PreparedStatement, bound: BoundParams, version: number): Written {
    const known = this.#known.get(prepared)
    if (known?.version === version) return known.written
    const written = prepared.changesRows ? this.#find(prepared, bound, version) : ANY_TABLE
    this.#known.set(prepared, { version, written })
    return written
  }

  #find({ statement }: PreparedStatement, bound: BoundParams, version: number): Written {
    try {
      const listing: Statement = this.#connection.prepare(`EXPLAIN ${statement.source}`).raw()
      return this.#read(listing.all(...bound) as Opcode[], version)
    } catch {
      return ANYTHING
    }
  }

  #read(listing: readonly Opcode[], version: number): Written {
    const roots = this.#rootsOf(version)
    const written = new Set<string | undefined>()
    let isVirtual = false
    for (const [, opcode, p1, p2, p3] of listing) {
      // The database is the second operand of Clear, and the third of OpenWrite: 0 is the cell, 1 what is temporary.
      if (opcode === 'OpenWrite' && p3 === 0) written.add(roots.get(p2))
      else if (opcode === 'Clear' && p2 === 0) written.add(roots.get(p1))
      else if (opcode === 'VUpdate') isVirtual = true
    }
    if (written.has(undefined)) return ANYTHING
    const names = [...(written as Set<string>)]
    const virtual = isVirtual ? this.#virtualTables() : []
    const tables = names.filter((name) => !RESERVED.test(name))
    return {
      tables: virtual === null ? null : [...new Set([...tables, ...virtual])],
      keys: names.includes(KV_TABLE),
      isCounted: !names.includes(SEQUENCES),
    }
  }

  /** The code does not name the virtual table that it writes. @returns all of them and their own; null: any */
  #virtualTables(): string[] | null {
    const found = this.#connection.prepare(VIRTUAL).raw().all() as [name: string, sql: string][]
    if (found.some(([, sql]) => !KNOWN_MODULE.test(MODULE.exec(sql)?.[1] ?? ''))) return null
    const names = this.#connection.prepare(NAMES).pluck().all() as string[]
    const virtual = found.map(([name]) => name.toLowerCase())
    const isOf = (name: string) => virtual.some((each) => name === each || name.startsWith(`${each}_`))
    return names.filter((name) => isOf(name.toLowerCase()))
  }

  #rootsOf(version: number): Map<number, string> {
    if (this.#roots?.version !== version) {
      const rows = this.#connection.prepare(TABLES).raw().all() as [number, string][]
      this.#roots = { version, tables: new Map(rows) }
    }
    return (this.#roots as { tables: Map<number, string> }).tables
  }
}
