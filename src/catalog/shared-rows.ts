import type { CellDatabase } from '../engine/cell-database.ts'
import type { Statement } from '../engine/sqlite.ts'

/** A row that several nodes have, as a change has left it. */
export interface SharedRow {
  table: string
  /** The values of its primary key, in a JSON array. */
  key: string
  /** Its columns in JSON, bytes in hexadecimal; those that are NULL are left out. Null if the change has deleted the row. */
  content: string | null
}

/** Which rows the nodes share. */
export interface SharedTables {
  tables: readonly string[]
  /** Of `meta`, the rows with these keys. */
  metaKeys: readonly string[]
}

type Values = Record<string, string | number | Buffer | null>

interface Table {
  name: string
  /** In SQL, of a row that begins with this: `new.`, for example. */
  isShared: (row: string) => string
  primaryKey: readonly string[]
  columns: readonly { name: string; isBytes: boolean }[]
  find: Statement
  remove: Statement
  insert: Statement
}

/** Rows that {@link SharedRows.all} reads at once. */
const PAGE_ROWS = 1_000

/**
 * Notes with triggers of the connection which of the shared rows are changed, and writes rows as another node has left them.
 */
export class SharedRows {
  readonly #database: CellDatabase
  readonly #tables: ReadonlyMap<string, Table>
  readonly #captured: Statement
  readonly #forget: Statement

  constructor(database: CellDatabase, { tables, metaKeys }: SharedTables) {
    this.#database = database
    const keys = metaKeys.map((key) => `'${key}'`).join(', ')
    const shared = [
      ...tables.map((name) => this.#table(name, () => 'TRUE')),
      this.#table('meta', (row) => `${row}key IN (${keys})`),
    ]
    this.#tables = new Map(shared.map((table) => [table.name, table]))
    database.exec(`
      CREATE TEMP TABLE captured (name TEXT, key TEXT, PRIMARY KEY (name, key)) STRICT, WITHOUT ROWID;
      ${shared.map(triggersOf).join('')}`)
    this.#captured = database.prepare('SELECT name, key FROM temp.captured').raw()
    this.#forget = database.prepare('DELETE FROM temp.captured')
  }

  /** The rows that were changed since the last call, in the transaction that has changed them. */
  take(): SharedRow[] {
    const captured = this.#captured.all() as [string, string][]
    this.#forget.run()
    return captured.map(([name, key]) => {
      const table = this.#tables.get(name) as Table
      const found = table.find.get(...valuesOfKey(key)) as Values | undefined
      return { table: name, key, content: found === undefined ? null : encode(table, found) }
    })
  }

  /** Leaves rows as they are said to be, in a transaction. Those of tables that are not shared are passed over. */
  write(rows: readonly SharedRow[]): void {
    // Of rows that have changed places, all must go before one comes.
    for (const { table, key } of rows) this.#tables.get(table)?.remove.run(...valuesOfKey(key))
    for (const { table: name, content } of rows) {
      const table = this.#tables.get(name)
      if (table !== undefined && content !== null) table.insert.run(decode(table, content))
    }
    this.#forget.run()
  }

  /** All rows, some at a time. */
  *all(): Generator<SharedRow[]> {
    for (const table of this.#tables.values()) {
      const { name, primaryKey, isShared } = table
      const columns = primaryKey.join(', ')
      const places = primaryKey.map(() => '?').join(', ')
      const page = (where: string) =>
        this.#database.prepare(
          `SELECT * FROM ${name} WHERE ${isShared('')} AND ${where} ORDER BY ${columns} LIMIT ${PAGE_ROWS}`,
        )
      const next = page(`(${columns}) > (${places})`)
      let rows = page('TRUE').all() as Values[]
      while (rows.length > 0) {
        yield rows.map((row) => ({ table: name, key: keyOf(table, row), content: encode(table, row) }))
        rows = next.all(...valuesOfKey(keyOf(table, rows.at(-1) as Values))) as Values[]
      }
    }
  }

  /** Removes all rows, in a transaction. */
  clear(): void {
    for (const { name, isShared } of this.#tables.values())
      this.#database.exec(`DELETE FROM ${name} WHERE ${isShared('')}`)
    this.#forget.run()
  }

  #table(name: string, isShared: Table['isShared']): Table {
    const info = this.#database.prepare(`PRAGMA main.table_info(${name})`).all() as {
      name: string
      type: string
      pk: number
    }[]
    const primaryKey = info
      .filter(({ pk }) => pk > 0)
      .sort((a, b) => a.pk - b.pk)
      .map((column) => column.name)
    const where = primaryKey.map((column) => `${column} = ?`).join(' AND ')
    const columns = info.map((column) => ({ name: column.name, isBytes: column.type === 'BLOB' }))
    const prepare = (sql: string) => this.#database.prepare(sql)
    return {
      name,
      isShared,
      primaryKey,
      columns,
      find: prepare(`SELECT * FROM ${name} WHERE ${where}`),
      remove: prepare(`DELETE FROM ${name} WHERE ${where}`),
      insert: prepare(
        `INSERT INTO ${name} (${columns.map((each) => each.name).join(', ')})
         VALUES (${columns.map((each) => `@${each.name}`).join(', ')})`,
      ),
    }
  }
}

function triggersOf({ name, primaryKey, isShared }: Table): string {
  const capture = (row: string) => {
    const values = primaryKey.map((column) => row + column).join(', ')
    return `INSERT OR IGNORE INTO captured SELECT '${name}', json_array(${values}) WHERE ${isShared(row)};`
  }
  return `
    CREATE TEMP TRIGGER captured_${name}_inserted AFTER INSERT ON main.${name} BEGIN ${capture('new.')} END;
    CREATE TEMP TRIGGER captured_${name}_deleted AFTER DELETE ON main.${name} BEGIN ${capture('old.')} END;
    CREATE TEMP TRIGGER captured_${name}_updated AFTER UPDATE ON main.${name}
      BEGIN ${capture('old.')} ${capture('new.')} END;`
}

function keyOf({ primaryKey }: Table, row: Values): string {
  return JSON.stringify(primaryKey.map((column) => row[column]))
}

function valuesOfKey(key: string): (string | number)[] {
  return JSON.parse(key) as (string | number)[]
}

function encode({ columns }: Table, row: Values): string {
  const content: Record<string, string | number> = {}
  for (const { name } of columns) {
    const value = row[name] ?? null
    if (value !== null) content[name] = Buffer.isBuffer(value) ? value.toString('hex') : value
  }
  return JSON.stringify(content)
}

/** Columns that a newer version has added are not known here; those that an older one has not written are NULL. */
function decode({ columns }: Table, content: string): Values {
  const given = JSON.parse(content) as Record<string, string | number>
  return Object.fromEntries(
    columns.map(({ name, isBytes }) => {
      const value = given[name] ?? null
      return [name, isBytes && typeof value === 'string' ? Buffer.from(value, 'hex') : value]
    }),
  )
}
