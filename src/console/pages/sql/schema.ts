import { type Client, isProblem } from '../../../client/index.ts'

export interface SchemaColumn {
  name: string
  type: string
  isKey: boolean
  isRequired: boolean
}

export interface SchemaTable {
  kind: string
  name: string
  sql: string
  columns: SchemaColumn[]
  indexes: { name: string; sql: string | null }[]
}

const OBJECTS = 'SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name'
const COLUMNS = `SELECT m.name AS of, c.name, c.type, c.pk, c."notnull" AS required
  FROM sqlite_schema m JOIN pragma_table_xinfo(m.name) c WHERE m.type IN ('table', 'view') ORDER BY m.name, c.cid`
/** A view whose table is gone has no columns, and would fail all of the above. */
const COLUMNS_OF_TABLES = COLUMNS.replace("IN ('table', 'view')", "= 'table'")
const SIZES = 'SELECT name, sum(pgsize) AS bytes FROM dbstat WHERE aggregate = TRUE GROUP BY name'

/** The engine's own tables, and SQLite's. */
const OF_OTHERS = /^(_cell|sqlite_)/i

/** What can be named in statements, beside tables: the entries of the KV interface. */
export const KV_VIEW = { name: 'cell_kv', columns: ['key', 'value', 'expires_at'] }

export async function loadSchema(client: Client, id: string, signal: AbortSignal): Promise<SchemaTable[]> {
  const read = <R>(sql: string) => client.sql<R>({ id, sql }, { signal })
  type ColumnRow = { of: string; name: string; type: string; pk: number; required: number }
  const [objects, columns] = await Promise.all([
    read<{ type: string; name: string; tbl_name: string; sql: string | null }>(OBJECTS),
    read<ColumnRow>(COLUMNS).catch((error: unknown) => {
      if (isProblem(error, 'sql_error')) return read<ColumnRow>(COLUMNS_OF_TABLES)
      throw error
    }),
  ])
  return objects.rows
    .filter(({ type, name }) => (type === 'table' || type === 'view') && !OF_OTHERS.test(name))
    .map(({ type, name, sql }) => ({
      kind: type,
      name,
      sql: sql ?? '',
      columns: columns.rows
        .filter(({ of }) => of === name)
        .map((column) => ({
          name: column.name,
          type: column.type,
          isKey: column.pk > 0,
          isRequired: column.required !== 0,
        })),
      indexes: objects.rows
        .filter((each) => each.tbl_name === name && (each.type === 'index' || each.type === 'trigger'))
        .map((each) => ({ name: each.name, sql: each.sql })),
    }))
}

/** Bytes by name of table and index. SQLite reads every page of the cell for it. */
export async function loadSizes(
  client: Client,
  id: string,
  signal: AbortSignal,
): Promise<Map<string, number>> {
  const { rows } = await client.sql<{ name: string; bytes: number }>({ id, sql: SIZES }, { signal })
  return new Map(rows.map(({ name, bytes }) => [name, bytes]))
}
