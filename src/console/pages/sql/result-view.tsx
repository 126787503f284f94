import type { SqlValue } from '../../../client/index.ts'
import { CopyButton } from '../../parts/copy-button.tsx'
import { counted, span } from '../../parts/format.ts'
import { type Column, PagedTable } from '../../parts/paged-table.tsx'
import { QueryPlan } from './query-plan.tsx'
import type { Result } from './script.ts'
import { ValueCell } from './value-cell.tsx'
import { toCsv, toJson } from './values.ts'

const SQL_SHOWN = 120

/** What one statement answered. */
export function ResultView({ result, at }: { result: Result; at: number }) {
  const { sql, columns, rows, changes, ms } = result
  const isPlan = /^explain\s+query\s+plan\b/i.test(sql)
  const facts = [
    ...(columns.length > 0 ? [counted(rows.length, 'row')] : []),
    ...(changes > 0 ? [`${counted(changes, 'row')} changed`] : []),
    ...(columns.length === 0 && changes === 0 ? ['done'] : []),
    ...(ms === null ? [] : [span(ms)]),
  ]
  return (
    <section class="result" aria-label={`Result ${at + 1}`}>
      <div class="result-head">
        <code class="result-sql" title={sql}>
          {sql.slice(0, SQL_SHOWN).replaceAll(/\s+/g, ' ')}
        </code>
        <span class="muted">{facts.join(' · ')}</span>
        {rows.length > 0 && !isPlan && (
          <span class="row-buttons">
            <CopyButton label="Copy CSV" text={() => toCsv(columns, rows)} />
            <CopyButton label="Copy JSON" text={() => toJson(columns, rows)} />
          </span>
        )}
      </div>
      {isPlan ? <QueryPlan rows={rows} /> : columns.length > 0 && <Rows result={result} at={at} />}
    </section>
  )
}

function Rows({ result: { columns, rows }, at }: { result: Result; at: number }) {
  const shown = columns.map(
    (name, column): Column<SqlValue[]> => ({
      name,
      isNumber: rows.length > 0 && rows.every((row) => isNumeric(row[column] ?? null)),
      cell: (row) => <ValueCell value={row[column] ?? null} column={name} />,
    }),
  )
  return <PagedTable label={`Rows of result ${at + 1}`} rows={rows} columns={shown} keyOf={(_, row) => row} />
}

/** An integer beyond ±(2^53−1) comes as its digits. */
function isNumeric(value: SqlValue): boolean {
  return (
    value === null || typeof value === 'number' || (typeof value === 'string' && /^-?\d{16,19}$/.test(value))
  )
}
