import type { SqlDocument } from './admin/documents.ts'
import { formatTable } from './text-table.ts'

const CELL_CHARS_MAX = 200

/** The answer to a statement, for people. */
export function showSqlResult({ columns, rows, row_count, changes, duration_ms }: SqlDocument): string {
  const took = `${duration_ms.toFixed(1)} ms`
  if (columns.length === 0) return `${count(changes, 'row')} changed, ${took}`
  const table = formatTable(
    columns,
    rows.map((row) => columns.map((column) => showValue((row as Record<string, unknown>)[column]))),
  )
  return `${table}\n${count(row_count, 'row')}, ${took}`
}

function showValue(value: unknown): string {
  if (value === null || value === undefined) return 'NULL'
  const text = typeof value === 'object' ? showBlob(value as { base64?: string }) : String(value)
  return text.length > CELL_CHARS_MAX ? `${text.slice(0, CELL_CHARS_MAX)}…` : text
}

function showBlob({ base64 = '' }: { base64?: string }): string {
  return `x'${Buffer.from(base64, 'base64').toString('hex')}'`
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}
