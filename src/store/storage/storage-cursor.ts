import { rowObject } from '../../engine/statements/rows.ts'
import type { SqlResult, SqlRow, SqlValue } from '../../engine/statements/sql-values.ts'
import { CellError } from '../../errors.ts'

/** A value of a row: a blob is an `ArrayBuffer`, and an INTEGER beyond ±(2^53−1) a bigint. */
export type StorageValue = null | number | bigint | string | ArrayBuffer

/** Rows as arrays of values, each given once. */
export interface StorageRows<Values = StorageValue[]> extends IterableIterator<Values> {
  /** The rows that are left. */
  toArray(): Values[]
}

/**
 * The rows of one statement, each of them given once. They are of the moment at which the statement ran: a change after it is
 * not seen in them.
 *
 * @typeParam Row SQLite does not check it
 */
export class StorageCursor<Row = Record<string, StorageValue>> implements IterableIterator<Row> {
  /** In the order of the values that {@link raw} gives; a second column called `name` is `name_2`. */
  readonly columnNames: string[]
  /** Rows of tables that the statement inserted, changed or deleted. Those of indexes are not counted. */
  readonly rowsWritten: number
  readonly #rows: SqlValue[][]
  #given = 0

  /** @internal Cursors come from `cell.storage.sql.exec()`. */
  constructor({ columns, rows, changes }: SqlResult<SqlValue[]>) {
    this.columnNames = columns
    this.rowsWritten = changes
    this.#rows = rows
  }

  /** Rows that have been given so far. Those that SQLite read to find them are not counted. */
  get rowsRead(): number {
    return this.#given
  }

  /** The next row. */
  next(): IteratorResult<Row, undefined> {
    const values = this.#take()
    if (values === undefined) return { done: true, value: undefined }
    return { done: false, value: rowObject(this.columnNames, values as SqlValue[]) as SqlRow as Row }
  }

  /** The rows that are left. */
  toArray(): Row[] {
    return [...this]
  }

  /** The only row. @throws `invalid_request` if there is none, or another one */
  one(): Row {
    const { length } = this.#rows
    if (length === 1 && this.#given === 0) return this.next().value as Row
    throw new CellError(
      'invalid_request',
      `one() is for a statement that gives exactly one row; it gave ${length}.`,
    )
  }

  /** The rows that are left as arrays of values. Both take from the same rows. */
  raw<Values extends unknown[] = StorageValue[]>(): StorageRows<Values> {
    const take = () => this.#take()
    function* rows() {
      for (let values = take(); values !== undefined; values = take()) yield values
    }
    // Every iterator has a `toArray()`, of which the compiler's library does not know yet.
    return rows() as unknown as StorageRows<Values>
  }

  /** The cursor: `for … of` goes on where the last one stopped. */
  [Symbol.iterator](): this {
    return this
  }

  #take(): StorageValue[] | undefined {
    const values = this.#rows[this.#given]
    if (values === undefined) return undefined
    this.#rows[this.#given++] = []
    return values.map(storageValue)
  }
}

function storageValue(value: SqlValue): StorageValue {
  if (typeof value !== 'object' || value === null) return value
  const { buffer, byteOffset, byteLength } = value
  const isWhole = byteLength === buffer.byteLength
  return (isWhole ? buffer : buffer.slice(byteOffset, byteOffset + byteLength)) as ArrayBuffer
}
