import { Failure } from '../../parts/failure.tsx'
import { bytes } from '../../parts/format.ts'
import { type Loaded, useLoad } from '../../parts/use-load.ts'
import { useSession } from '../../parts/use-session.ts'
import { loadSizes, type SchemaTable } from './schema.ts'

/** Up to this size all pages of a cell are read at once, to know which table takes how much. */
const SIZED_BYTES_MAX = 64 * 1_048_576

interface SchemaTreeProps {
  id: string
  schema: Loaded<SchemaTable[]>
  sizeBytes: number | undefined
  /** Writes a statement into the editor. */
  onPick: (sql: string) => void
}

/** Tables and views, with columns, indexes and sizes. */
export function SchemaTree({ id, schema, sizeBytes, onPick }: SchemaTreeProps) {
  const { client } = useSession()
  const names = schema.data?.map(({ name }) => name)
  const isSmall = sizeBytes !== undefined && sizeBytes <= SIZED_BYTES_MAX
  const sizes = useLoad(
    async (signal) => (isSmall ? await loadSizes(client, id, signal) : new Map<string, number>()),
    [id, isSmall, names],
  )
  const sizeOf = (name: string) => {
    const size = sizes.data?.get(name)
    return size === undefined ? null : <span class="muted size">{bytes(size)}</span>
  }
  return (
    <aside class="schema" aria-label="Schema">
      <h2>Schema</h2>
      <Failure error={schema.error} />
      {schema.data?.length === 0 && <p class="muted">There is no table yet.</p>}
      <ul hidden={!schema.data?.length}>
        {schema.data?.map((table) => (
          <li key={table.name}>
            <details>
              <summary title={table.sql}>
                <span class="schema-name">{table.name}</span>
                {table.kind === 'view' && <span class="badge">view</span>}
                {sizeOf(table.name)}
              </summary>
              <ul class="schema-parts">
                {table.columns.map((column) => (
                  <li key={column.name}>
                    <span class="schema-name">{column.name}</span>
                    <span class="muted">
                      {column.type.toLowerCase()}
                      {column.isKey && ' · key'}
                      {column.isRequired && ' · not null'}
                    </span>
                  </li>
                ))}
                {table.indexes.map((index) => (
                  <li key={index.name} title={index.sql ?? undefined}>
                    <span class="schema-name">{index.name}</span>
                    <span class="muted">
                      {index.sql === null
                        ? 'index'
                        : /trigger/i.test(index.sql.slice(0, 20))
                          ? 'trigger'
                          : 'index'}
                    </span>
                    {sizeOf(index.name)}
                  </li>
                ))}
              </ul>
              <button type="button" class="quiet" onClick={() => onPick(selectAll(table.name))}>
                Show rows<span class="off-screen"> of {table.name}</span>
              </button>
            </details>
          </li>
        ))}
      </ul>
    </aside>
  )
}

function selectAll(table: string): string {
  const name = /^[a-z_][a-z0-9_]*$/i.test(table) ? table : `"${table.replaceAll('"', '""')}"`
  return `SELECT * FROM ${name} LIMIT 500`
}
