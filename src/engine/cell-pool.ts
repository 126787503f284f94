import type { Clock } from '../base/clock.ts'
import { exists } from '../base/durable-files.ts'
import type { Log } from '../base/log.ts'
import type { CellPaths } from '../base/store-paths.ts'
import { CellError, isCellError } from '../errors.ts'
import { CellDatabase, type CellHooks } from './cell-database.ts'
import type { CellDatabaseSettings } from './cell-settings.ts'
import { Quarantine } from './quarantine.ts'
import { checkClosedCell } from './recovery-check.ts'
import { toCellError } from './sqlite-errors.ts'

/** How the pool finds and opens a cell. */
export interface CellOpener {
  paths(id: string): CellPaths
  settings(id: string): CellDatabaseSettings
  hooks(id: string): CellHooks
  /** Called before the file is opened: finishes a restore that a crash interrupted. */
  beforeOpen(id: string, paths: CellPaths): void
  /** The error to throw if there is no file. */
  missing(id: string): CellError
  /** Told whose time begins before work that can take long, and that it is nobody's again after it. */
  working?: ((id: string | undefined) => void) | undefined
}

/**
 * The open cells: at most `max`, and the least recently used is closed to make room. A cell that is in a transaction, has
 * queued commits or is being read for a snapshot stays open, so the bound can be exceeded while all cells are in use.
 */
export class CellPool {
  readonly quarantine: Quarantine
  readonly #open = new Map<string, CellDatabase>()
  readonly #max: number
  readonly #opener: CellOpener
  #closed = false
  /** The cell whose time it is. */
  #workingOn: string | undefined

  constructor(max: number, opener: CellOpener, { clock, log }: { clock: Clock; log: Log }) {
    this.#max = max
    this.#opener = opener
    this.quarantine = new Quarantine({
      clock,
      log,
      paths: (id) => opener.paths(id),
      discard: (id) => this.#discard(id),
      check: checkClosedCell,
    })
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
    if (open !== undefined && open.quarantined === undefined) {
      open.touch()
      return open
    }
    if (this.#closed) throw new CellError('store_closed', 'The store was closed.')
    if (open === undefined) return this.#openFile(id)
    this.quarantine.assertFree(id)
    throw open.quarantined
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

  /** Runs work on a cell: its time is the cell's. */
  work<T>(id: string, run: () => T): T {
    const outer = this.#workingOn
    this.#setWorkingOn(id)
    try {
      return run()
    } finally {
      this.#setWorkingOn(outer)
    }
  }

  /** As {@link work}, for the rest of this turn of the event loop. */
  workThisTurn(id: string): void {
    this.#setWorkingOn(id)
    setImmediate(() => this.endWork())
  }

  /** What follows is nobody's, or somebody else's. */
  endWork(): void {
    this.#setWorkingOn(undefined)
  }

  #setWorkingOn(id: string | undefined): void {
    if (id === this.#workingOn) return
    this.#workingOn = id
    this.#opener.working?.(id)
  }

  /** Closes one cell and replaces or removes its files: that ends its quarantine. */
  replace(id: string, install: () => void): void {
    this.close(id)
    install()
    this.quarantine.end(id)
  }

  /** Closes one cell, even while it is in use: queued commits are made first. */
  close(id: string): void {
    this.quarantine.interrupt(id)
    this.#close(id)
  }

  /** @returns as {@link CellDatabase.close} */
  #close(id: string): number | undefined {
    // Removed afterwards: queued work that asks for the cell once more must find this one.
    const database = this.#open.get(id)
    const frames = database && this.work(id, () => database.close())
    this.#open.delete(id)
    return frames
  }

  /** No cell can be opened afterwards. */
  closeAll(): void {
    this.#closed = true
    this.quarantine.stop()
    for (const id of [...this.#open.keys()]) this.#close(id)
  }

  #openFile(id: string): CellDatabase {
    const paths = this.#opener.paths(id)
    const settings = this.#opener.settings(id)
    try {
      this.#opener.beforeOpen(id, paths)
      if (!exists(paths.database)) throw this.#opener.missing(id)
      this.quarantine.assertFree(id)
    } catch (error) {
      throw toCellError(error, { path: paths.database, limits: settings.limits })
    }
    while (this.#open.size >= this.#max && this.#closeLeastRecentlyUsed());
    const hooks = this.#opener.hooks(id)
    const quarantined = (reason: CellError) => this.quarantine.begin(id, reason)
    try {
      const database = new CellDatabase(paths.database, settings, { ...hooks, quarantined })
      database.touch()
      this.#open.set(id, database)
      return database
    } catch (error) {
      if (isCellError(error, 'cell_quarantined') && error.details.reason !== undefined) {
        quarantined(error)
        hooks.failed?.(error)
      }
      throw error
    }
  }

  #discard(id: string): number | undefined {
    return this.#open.get(id)?.quarantined === undefined ? undefined : this.#close(id)
  }

  /**
   * A scan, not a sorted list: opening a file costs a hundred times as much, and uses of a cell cost nothing.
   *
   * @returns false if all of them are in use
   */
  #closeLeastRecentlyUsed(): boolean {
    let oldestId: string | undefined
    let oldestUse = Number.POSITIVE_INFINITY
    // forEach: a for loop would make one array of garbage per cell at every open.
    this.#open.forEach((database, id) => {
      if (database.usedAt >= oldestUse || database.busy) return
      oldestUse = database.usedAt
      oldestId = id
    })
    if (oldestId === undefined) return false
    this.#close(oldestId)
    return true
  }
}
