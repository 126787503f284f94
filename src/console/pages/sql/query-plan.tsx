import type { SqlValue } from '../../../client/index.ts'

/** The rows of EXPLAIN QUERY PLAN (id, parent, unused, detail) as the tree that they are. */
export function QueryPlan({ rows }: { rows: readonly SqlValue[][] }) {
  if (rows.length === 0) return <p class="muted">SQLite has no plan for this: it reads no table.</p>
  return <Steps rows={rows} parent={0} />
}

function Steps({ rows, parent }: { rows: readonly SqlValue[][]; parent: SqlValue }) {
  const steps = rows.filter(([, of]) => of === parent)
  if (steps.length === 0) return null
  return (
    <ul class="plan">
      {steps.map(([id = null, , , detail = '']) => (
        <li key={String(id)}>
          <code class={/^SCAN\b/.test(String(detail)) ? 'scan' : ''}>{String(detail)}</code>
          <Steps rows={rows} parent={id} />
        </li>
      ))}
    </ul>
  )
}
