import { CellError, isCellError } from '../../errors.ts'
import { PAGE_BYTES } from '../cell-settings.ts'
import type { Connection, Statement } from '../sqlite.ts'
import { isSqliteError } from '../sqlite-errors.ts'

/** Room above a cell's bound for deletions: at least this many pages, and a sixteenth of a large cell. */
const PAGES_MIN = 64
const SHARE = 16

/**
 * By how many bytes an operation may make a cell's file grow, a deletion by a little more. `any`: as far as the bound on its size;
 * `none`: not at all, deletions included.
 */
export type Growth = 'any' | 'none' | number

/** The most bytes that a cell's file may have, with the room for deletions. */
export function bytesWithReserve(cellBytesMax: number): number {
  const pages = Math.ceil(cellBytesMax / PAGE_BYTES)
  return (pages + reserveOf(pages)) * PAGE_BYTES
}

function reserveOf(pages: number): number {
  return Math.max(PAGES_MIN, Math.ceil(pages / SHARE))
}

/**
 * The bound on a cell's size, and some room above it for deletions: removing a row from an index can split a page, and a
 * full-text index records deletions in new pages. Without that room a full cell could not be emptied.
 *
 * The bound is moved only in a cell that has been full since it was opened.
 */
export class DeleteReserve {
  readonly #connection: Connection
  readonly #pages: number
  #count: Statement | undefined
  #raise: Statement | undefined
  #lower: Statement | undefined
  #wasFull = false
  /** The open transaction has deleted something. */
  #hasDeleted = false
  #growth: Growth = 'any'
  /** The bound in pages that follows from a growth in bytes. */
  #grown: number | undefined
  #depth = 0

  constructor(connection: Connection, cellBytesMax: number) {
    this.#connection = connection
    this.#pages = Math.ceil(cellBytesMax / PAGE_BYTES)
  }

  /** Holds from here on. Bytes count from the size that the file has now. */
  setGrowth(growth: Growth): void {
    const grown = typeof growth === 'number' ? this.#grownBy(growth) : undefined
    const isBound = grown === undefined ? growth === this.#growth : grown === this.#grown
    this.#growth = growth
    this.#grown = grown
    if (!isBound) this.#bound()
  }

  /** Told of each error: one may be that the cell is full. @returns it, or one that names what the operation may grow by */
  notice(error: CellError): CellError {
    if (!isFull(error)) return error
    this.#wasFull = true
    const atOwnBound = this.#growth === 'any' || this.#grown === this.#pages
    if (atOwnBound || error.details.sqliteCode !== 'SQLITE_FULL') return error
    const limit = typeof this.#growth === 'number' ? this.#growth : 0
    const text = `The operation may make the cell's file grow by ${limit} bytes, and needs more.`
    return new CellError('cell_full', text, { ...error.details, limit, cause: error.cause })
  }

  /**
   * Runs a deletion, and runs it again with more room if the cell was full. It must leave nothing behind when it fails.
   */
  forDeletion<T>(run: () => T): T {
    this.#hasDeleted = true
    if (this.#wasFull) return this.#raised(run)
    const inTransaction = this.#connection.inTransaction
    try {
      return run()
    } catch (error) {
      // If the error has ended the transaction, it can't go on.
      if (!isFull(error) || this.#connection.inTransaction !== inTransaction) throw error
      this.#wasFull = true
      return this.#raised(run)
    }
  }

  /** A transaction begins. */
  began(): void {
    this.#hasDeleted = false
  }

  /**
   * Runs a COMMIT. A full-text index records the deletions of a transaction only there, and a COMMIT that fails can't be tried again.
   * Others get no more room: they would use up what deletions need.
   */
  forCommit(commit: () => void): void {
    if (this.#hasDeleted && this.#isNearlyFull()) this.#raised(commit)
    else commit()
  }

  #isNearlyFull(): boolean {
    return this.#wasFull || this.#pageCount() + PAGES_MIN > (this.#grown ?? this.#pages)
  }

  #raised<T>(run: () => T): T {
    if (this.#growth === 'none') return run()
    if (this.#depth === 0) this.#raiseBound()
    this.#depth++
    try {
      return run()
    } finally {
      if (--this.#depth === 0 && this.#connection.open) this.#bound()
    }
  }

  /**
   * Any bound that leaves nearly all of these bytes, and no more, will do: to set one takes far longer than to read the size.
   *
   * @returns the bound in pages
   */
  #grownBy(bytes: number): number {
    const room = Math.floor(bytes / PAGE_BYTES)
    const pages = this.#pageCount()
    const most = Math.min(this.#pages, pages + room)
    const least = Math.min(this.#pages, pages + Math.ceil((room * 7) / 8))
    return this.#grown !== undefined && this.#grown >= least && this.#grown <= most ? this.#grown : most
  }

  #pageCount(): number {
    this.#count ??= this.#connection.prepare('PRAGMA main.page_count').pluck()
    return this.#count.get() as number
  }

  /** If the file is larger than the bound, SQLite sets the bound to its size. */
  #bound(): void {
    if (this.#growth !== 'any') this.#connection.exec(`PRAGMA main.max_page_count = ${this.#grown ?? 1}`)
    else {
      this.#lower ??= this.#connection.prepare(`PRAGMA main.max_page_count = ${this.#pages}`)
      this.#lower.get()
    }
  }

  #raiseBound(): void {
    const most = this.#pages + reserveOf(this.#pages)
    if (this.#grown !== undefined) {
      const pages = this.#pageCount()
      const raised = Math.min(most, Math.max(this.#grown, pages + reserveOf(pages)))
      this.#connection.exec(`PRAGMA main.max_page_count = ${raised}`)
    } else {
      this.#raise ??= this.#connection.prepare(`PRAGMA main.max_page_count = ${most}`)
      this.#raise.get()
    }
  }
}

function isFull(error: unknown): boolean {
  return isCellError(error, 'cell_full') || (isSqliteError(error) && error.code === 'SQLITE_FULL')
}
