import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { count } from './format.ts'

/** Rows that are in the page at the same time: a table of ten thousand stays fast, and stays a table. */
const ROWS_SHOWN = 500

export interface Column<R> {
  name: string
  cell: (row: R, at: number) => ComponentChildren
  /** What rows are sorted by, if they can be. */
  by?: (row: R) => string | number
  isNumber?: boolean
  /** A column of buttons has its name for screen readers only. */
  isQuiet?: boolean
}

interface PagedTableProps<R> {
  label: string
  rows: readonly R[]
  columns: readonly Column<R>[]
  keyOf: (row: R, at: number) => string | number
  sortedBy?: number
}

/** A table with 500 rows a page, which can be sorted by its columns. */
export function PagedTable<R>({ label, rows, columns, keyOf, sortedBy }: PagedTableProps<R>) {
  const [page, setPage] = useState(0)
  const [order, setOrder] = useState<{ column: number; isDown: boolean } | undefined>(
    sortedBy === undefined ? undefined : { column: sortedBy, isDown: false },
  )
  const pages = Math.max(1, Math.ceil(rows.length / ROWS_SHOWN))
  const shownPage = Math.min(page, pages - 1)
  const from = shownPage * ROWS_SHOWN
  const shown = sorted(
    rows,
    order === undefined ? undefined : columns[order.column]?.by,
    order?.isDown,
  ).slice(from, from + ROWS_SHOWN)
  const sortBy = (column: number) =>
    setOrder((last) => ({ column, isDown: last?.column === column ? !last.isDown : false }))
  const sortOf = (column: number) => {
    if (columns[column]?.by === undefined) return {}
    if (order?.column !== column) return { 'aria-sort': 'none' as const }
    return { 'aria-sort': order.isDown ? ('descending' as const) : ('ascending' as const) }
  }
  return (
    <div class="table">
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable with the keyboard */}
      <section class="table-scroll" aria-label={label} tabIndex={0}>
        <table>
          <thead>
            <tr>
              {columns.map(({ name, by, isNumber, isQuiet }, at) => (
                <th key={at} scope="col" class={isNumber ? 'number' : ''} {...sortOf(at)}>
                  {by === undefined ? (
                    <span class={isQuiet ? 'off-screen' : ''}>{name}</span>
                  ) : (
                    <button type="button" class="sort" onClick={() => sortBy(at)}>
                      {name}
                    </button>
                  )}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.map((row, at) => (
              <tr key={keyOf(row, from + at)}>
                {columns.map(({ cell, isNumber }, column) => (
                  <td key={column} class={isNumber ? 'number' : ''}>
                    {cell(row, from + at)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </section>
      {pages > 1 && (
        <nav class="pager" aria-label={`Pages of ${label}`}>
          <button type="button" disabled={shownPage === 0} onClick={() => setPage(shownPage - 1)}>
            Previous
          </button>
          <span aria-live="polite">
            {count(from + 1)}–{count(Math.min(from + ROWS_SHOWN, rows.length))} of {count(rows.length)}
          </span>
          <button type="button" disabled={shownPage === pages - 1} onClick={() => setPage(shownPage + 1)}>
            Next
          </button>
        </nav>
      )}
    </div>
  )
}

function sorted<R>(
  rows: readonly R[],
  by: ((row: R) => string | number) | undefined,
  isDown = false,
): readonly R[] {
  if (by === undefined) return rows
  const keyed = rows.map((row) => [by(row), row] as const)
  keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (isDown ? -1 : 1))
  return keyed.map(([, row]) => row)
}
