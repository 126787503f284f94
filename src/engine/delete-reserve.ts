import { isCellError } from '../errors.ts'
import { PAGE_BYTES } from './cell-settings.ts'
import type { Connection, Statement } from './sqlite.ts'
import { isSqliteError } from './sqlite-errors.ts'

/** Room above a cell's bound for deletions: at least this many pages, and a sixteenth of a large cell. */
const PAGES_MIN = 64
const SHARE = 16

/** What may make a cell's file grow. `none`: nothing; deletions then work as far as they need no new page. */
export type Growth = 'any' | 'deletions' | 'none'

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
  #raise: Statement | undefined
  #lower: Statement | undefined
  #wasFull = false
  #growth: Growth = 'any'
  #depth = 0

  constructor(connection: Connection, cellBytesMax: number) {
    this.#connection = connection
    this.#pages = Math.ceil(cellBytesMax / PAGE_BYTES)
  }

  /** Holds from here on. */
  setGrowth(growth: Growth): void {
    if (growth === this.#growth) return
    this.#growth = growth
    this.#bound()
  }

  /** Told of each error: one may be that the cell is full. */
  notice(error: unknown): void {
    if (isFull(error)) this.#wasFull = true
  }

  /**
   * Runs a deletion, and runs it again with more room if the cell was full. It must leave nothing behind when it fails.
   */
  forDeletion<T>(run: () => T): T {
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

  /** Runs a COMMIT: a full-text index records the deletions of a transaction only there. */
  forCommit(commit: () => void): void {
    if (this.#wasFull) this.#raised(commit)
    else commit()
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

  /** If the file is larger than the bound, SQLite sets the bound to its size. */
  #bound(): void {
    if (this.#growth !== 'any') this.#connection.exec('PRAGMA main.max_page_count = 1')
    else {
      this.#lower ??= this.#connection.prepare(`PRAGMA main.max_page_count = ${this.#pages}`)
      this.#lower.get()
    }
  }

  #raiseBound(): void {
    if (this.#growth !== 'any') {
      const pages = this.#connection.pragma('main.page_count', { simple: true }) as number
      this.#connection.exec(`PRAGMA main.max_page_count = ${pages + PAGES_MIN}`)
    } else {
      const raised = this.#pages + reserveOf(this.#pages)
      this.#raise ??= this.#connection.prepare(`PRAGMA main.max_page_count = ${raised}`)
      this.#raise.get()
    }
  }
}

function isFull(error: unknown): boolean {
  return isCellError(error, 'cell_full') || (isSqliteError(error) && error.code === 'SQLITE_FULL')
}
