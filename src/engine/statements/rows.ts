import { valueCost } from '../../base/fairness/answer-cost.ts'
import type { ResultLimits } from '../../base/options/limits.ts'
import { CellError } from '../../errors.ts'
import type { SqlRow, SqlValue } from './sql-values.ts'

/** A row as the driver gives it in raw mode with safe integers: every INTEGER is a bigint, every blob a Buffer. */
export type RawRow = (null | number | bigint | string | Buffer)[]

/** Keeps duplicate column names apart: the second `name` becomes `name_2`, and a generated name never hides a real one. */
export function distinctColumns(names: readonly string[]): string[] {
  const taken = new Set(names)
  const seen = new Set<string>()
  return names.map((name) => {
    if (!seen.has(name)) {
      seen.add(name)
      return name
    }
    let n = 2
    while (taken.has(`${name}_${n}`)) n++
    const made = `${name}_${n}`
    taken.add(made)
    seen.add(made)
    return made
  })
}

export function decodeRow(raw: RawRow): SqlValue[] {
  const row = raw as SqlValue[]
  for (let i = 0; i < row.length; i++) {
    const value = row[i]
    if (typeof value === 'bigint') row[i] = decodeInteger(value)
    else if (typeof value === 'object' && value !== null) {
      row[i] = new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    }
  }
  return row
}

/** {@link decodeRow} for a row that the driver gives as an object. */
export function decodeObject(raw: Record<string, RawRow[number]>): SqlRow {
  const row = raw as SqlRow
  for (const column in row) {
    const value = row[column]
    if (typeof value === 'bigint') row[column] = decodeInteger(value)
    else if (typeof value === 'object' && value !== null) {
      row[column] = new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    }
  }
  return row
}

/** An INTEGER: a number if that is exact, otherwise a bigint. */
export function decodeInteger(value: bigint | number): number | bigint {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}

/** A column may be called `__proto__`: assigned, it would become the row's prototype instead of a member. */
export function rowObject(columns: readonly string[], values: readonly SqlValue[]): SqlRow {
  const row: SqlRow = {}
  for (let i = 0; i < columns.length; i++) {
    const column = columns[i] as string
    if (column === '__proto__') {
      Object.defineProperty(row, column, {
        value: values[i],
        enumerable: true,
        writable: true,
        configurable: true,
      })
    } else row[column] = values[i] as SqlValue
  }
  return row
}

/**
 * Takes rows one by one while they fit in the limits.
 *
 * @throws `result_too_large` at the first row beyond them.
 */
export function collectRows(
  rows: Iterable<RawRow>,
  limits: ResultLimits,
  decode: (row: RawRow) => SqlValue[],
): SqlValue[][] {
  const taken: SqlValue[][] = []
  let bytes = 0
  for (const raw of rows) {
    if (taken.length >= limits.rowsMax)
      throw tooLarge(`more than ${limits.rowsMax} rows (result.rowsMax)`, limits.rowsMax)
    for (const value of raw) bytes += valueCost(value)
    if (bytes > limits.bytesMax)
      throw tooLarge(`larger than ${limits.bytesMax} bytes (result.bytesMax)`, limits.bytesMax)
    taken.push(decode(raw))
  }
  return taken
}

function tooLarge(what: string, limit: number): CellError {
  return new CellError(
    'result_too_large',
    `The result is ${what}; nothing was changed. Ask for less: use LIMIT, and WHERE on the last key that you have seen.`,
    { limit },
  )
}
