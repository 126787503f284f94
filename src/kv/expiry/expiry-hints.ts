import { LruCache } from '../../base/lru-cache.ts'
import type { LocalState } from '../../catalog/local-state.ts'
import type { Statement } from '../../engine/sqlite.ts'

const SCHEMA = `
  CREATE TABLE IF NOT EXISTS expiry_hints (cell_id TEXT PRIMARY KEY, due INTEGER NOT NULL) STRICT, WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS expiry_hints_by_due ON expiry_hints (due);
`

/** About 1 MB. A row that is not known is read again. */
const KNOWN_MAX = 10_000

/**
 * When each cell next has something to collect, in epoch milliseconds: never later than its earliest expiry, so that
 * closed cells are found without opening them.
 */
export class ExpiryHints {
  /** The rows of the open cells, and of others that were noted lately: a node with workers notes new cells and opens none. */
  readonly #known = new LruCache<number>(KNOWN_MAX)
  readonly #find: Statement
  readonly #put: Statement
  readonly #putIfAbsent: Statement
  readonly #remove: Statement
  readonly #first: Statement

  constructor(state: LocalState) {
    state.define(SCHEMA)
    this.#find = state.prepare('SELECT due FROM expiry_hints WHERE cell_id = ?').pluck()
    this.#put = state.prepare('INSERT OR REPLACE INTO expiry_hints VALUES (?, ?)')
    this.#putIfAbsent = state.prepare('INSERT OR IGNORE INTO expiry_hints VALUES (?, ?)')
    this.#remove = state.prepare('DELETE FROM expiry_hints WHERE cell_id = ?')
    this.#first = state.prepare('SELECT cell_id AS cellId, due FROM expiry_hints ORDER BY due LIMIT 1')
  }

  /** @returns true if the cell is due earlier than before */
  note(cellId: string, expiresAt: number): boolean {
    let due = this.#known.get(cellId)
    if (due === undefined) {
      due = (this.#find.get(cellId) as number | undefined) ?? Number.POSITIVE_INFINITY
      this.#known.set(cellId, due)
    }
    if (expiresAt >= due) return false
    this.set(cellId, expiresAt)
    return true
  }

  /** After the cell was read. */
  set(cellId: string, due: number): void {
    this.#put.run(cellId, due)
    this.#known.set(cellId, due)
  }

  /** For a cell without a hint. */
  setIfAbsent(cellId: string, due: number): void {
    this.#putIfAbsent.run(cellId, due)
  }

  remove(cellId: string): void {
    this.#known.delete(cellId)
    this.#remove.run(cellId)
  }

  /** The cell was closed: only the table keeps its hint. */
  forget(cellId: string): void {
    this.#known.delete(cellId)
  }

  first(): { cellId: string; due: number } | undefined {
    return this.#first.get() as { cellId: string; due: number } | undefined
  }
}
