import type { SqlDocument } from '../../service/json/sql-answers.ts'
import { cutToWidth, formatTable, visible } from '../terminal/output.ts'

export const SQL_FORMATS = ['table', 'csv', 'json'] as const
export type SqlFormat = (typeof SQL_FORMATS)[number]

/** A table is for looking: a wider value is cut. CSV and JSON have all of it. */
const COLUMN_WIDTH_MAX = 80
/** What a reader of CSV would take for more than one value. */
const QUOTED_IN_CSV = /[",\r\n]|^\s|\s$/

/** A statement's result as text, without the line's end; undefined if the format has nothing to say of it. */
export function formatResult(
  result: SqlDocument,
  format: SqlFormat,
  { isTerminal = false }: { isTerminal?: boolean } = {},
): string | undefined {
  switch (format) {
    case 'table':
      return tableOf(result)
    case 'csv':
      return csvOf(result, isTerminal)
    case 'json':
      return JSON.stringify(result)
  }
}

function tableOf({ columns, rows, row_count, changes, duration_ms }: SqlDocument): string {
  const took = `${duration_ms.toFixed(1)} ms`
  if (columns.length === 0) return `${count(changes, 'row')} changed, ${took}`
  const table = formatTable(
    columns,
    rows.map((row) => columns.map((column) => cutToWidth(shown(valueIn(row, column)), COLUMN_WIDTH_MAX))),
  )
  return `${table}\n${count(row_count, 'row')}, ${took}`
}

/**
 * RFC 4180 with newlines alone: a line of names, and a line for each row. NULL is an empty field, and empty text is `""`, so
 * that the two can be told apart.
 */
function csvOf({ columns, rows }: SqlDocument, isTerminal: boolean): string | undefined {
  if (columns.length === 0) return undefined
  const show = isTerminal ? visible : (text: string) => text
  const lines = rows.map((row) =>
    columns.map((column) => {
      const value = valueIn(row, column)
      return value === null ? '' : csvField(show(textOf(value)))
    }),
  )
  return [columns.map((name) => csvField(show(name))), ...lines].map((line) => line.join(',')).join('\n')
}

function csvField(text: string): string {
  return text === '' || QUOTED_IN_CSV.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

type SqlValue = string | number | null | { type: 'blob'; base64: string }

function valueIn(row: SqlDocument['rows'][number], column: string): SqlValue {
  return (row as Record<string, SqlValue>)[column] ?? null
}

function shown(value: SqlValue): string {
  return value === null ? 'NULL' : textOf(value)
}

/** A blob in hexadecimal, as SQL spells it. */
function textOf(value: NonNullable<SqlValue>): string {
  if (typeof value !== 'object') return String(value)
  return `x'${Buffer.from(value.base64, 'base64').toString('hex')}'`
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}
