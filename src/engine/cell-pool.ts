import { CellError } from '../errors.ts'
import { CellDatabase, type CellDatabaseSettings, type CellHooks } from './cell-database.ts'
import type { CellPaths } from './cell-path.ts'
import { isThere } from './durable-files.ts'
import { toCellError } from './sqlite-errors.ts'

/** How the pool finds and opens a cell. */
export interface CellOpener {
  paths(id: string): CellPaths
  settings(id: string): CellDatabaseSettings
  hooks(id: string): CellHooks
  /** Called before the file is opened: finishes a restore that a crash interrupted. */
  beforeOpen(id: string, paths: CellPaths): void
  /** What to throw when there is no file. */
  missing(id: string): CellError
}

/**
 * The open cells: at most `max`, the least recently used is closed to make room. A cell that is in a transaction, has
 * commits queued or is being read for a snapshot is never closed under it; so the bound can be exceeded for as long as
 * all of them are.
 */
export class CellPool {
  readonly #open = new Map<string, CellDatabase>()
  readonly #max: number
  readonly #opener: CellOpener
  #closed = false

  constructor(max: number, opener: CellOpener) {
    this.#max = max
    this.#opener = opener
  }

  get size(): number {
    return this.#open.size
  }

  /** The cell if it is open; does not count as a use. */
  peek(id: string): CellDatabase | undefined {
    return this.#open.get(id)
  }

  /** @throws `store_closed`, `cell_quarantined`; what the opener says of a missing file */
  open(id: string): CellDatabase {
    const open = this.#open.get(id)
    if (open !== undefined) {
      if (open.quarantined !== undefined) throw open.quarantined
      open.touch()
      return open
    }
    if (this.#closed) throw new CellError('store_closed', 'The store was closed.')
    return this.#openFile(id)
  }

  /** Keeps a cell open until the returned function is called. */
  pin(id: string): { database: CellDatabase; unpin: () => void } {
    const database = this.open(id)
    database.pins++
    let pinned = true
    const unpin = () => {
      if (pinned) database.pins--
      pinned = false
    }
    return { database, unpin }
  }

  /** Closes one cell, whoever uses it: queued commits are made first. Lifts its quarantine: the file may be another one now. */
  close(id: string): void {
    const database = this.#open.get(id)
    // Queued work may ask for the cell once more; it is to find this one.
    database?.close()
    this.#open.delete(id)
  }

  /** No cell can be opened afterwards. */
  closeAll(): void {
    this.#closed = true
    for (const id of [...this.#open.keys()]) this.close(id)
  }

  #openFile(id: string): CellDatabase {
    const paths = this.#opener.paths(id)
    const settings = this.#opener.settings(id)
    try {
      this.#opener.beforeOpen(id, paths)
      if (!isThere(paths.database)) throw this.#opener.missing(id)
    } catch (error) {
      throw toCellError(error, { path: paths.database, limits: settings.limits })
    }
    while (this.#open.size >= this.#max && this.#closeLeastRecentlyUsed());
    const database = new CellDatabase(paths.database, settings, this.#opener.hooks(id))
    database.touch()
    this.#open.set(id, database)
    return database
  }

  /**
   * A scan, not a list kept in order: opening a file costs a hundred times as much, and every use stays free of it.
   *
   * @returns false if all of them are in use
   */
  #closeLeastRecentlyUsed(): boolean {
    let oldestId: string | undefined
    let oldestUse = Number.POSITIVE_INFINITY
    // forEach, since the entries of a for loop would be garbage: one array a cell, at every open.
    this.#open.forEach((database, id) => {
      if (database.usedAt >= oldestUse || database.busy) return
      oldestUse = database.usedAt
      oldestId = id
    })
    if (oldestId === undefined) return false
    this.close(oldestId)
    return true
  }
}
