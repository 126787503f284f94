import { type Clock, setImmediate } from '../base/clock.ts'
import { exists } from '../base/files/durable-files.ts'
import type { CellPaths } from '../base/files/store-paths.ts'
import type { Log } from '../base/log.ts'
import { CellError, isCellError } from '../errors.ts'
import { CellDatabase, type CellHooks } from './cell-database.ts'
import type { CellDatabaseSettings } from './cell-settings.ts'
import { FairShares } from './commits/fair-shares.ts'
import { checkClosedCell } from './files/quarantine-check.ts'
import { type MemoryBound, OpenMemory } from './open-memory.ts'
import { Quarantine } from './quarantine.ts'
import { toCellError } from './sqlite-errors.ts'
import type { AcknowledgedFrames } from './wal/commit-sync.ts'

/** How the pool finds and opens a cell. */
export interface CellOpener {
  paths(id: string): CellPaths
  settings(id: string): CellDatabaseSettings
  hooks(id: string): CellHooks
  /** Called before the file is opened: finishes a restore that a crash interrupted. */
  beforeOpen(id: string, paths: CellPaths): void
  /** The error to throw if there is no file. */
  missing(id: string): CellError
  /** Whose cell it is: owners share the room for open cells. Without it, all cells have one owner. */
  owner?: ((id: string) => string) | undefined
  /** Told whose time begins before work that can take long, and that it is nobody's again after it. */
  working?: ((id: string | undefined) => void) | undefined
}

export interface PoolBounds {
  /** Cells that are open at the same time. */
  cellsMax: number
  /** Undefined: no bound. */
  memory?: MemoryBound | undefined
}

/** How many cells are drawn, of which one is closed. */
const DRAWN = 8
/** Of more open cells, so many are looked at: to look at thousands costs as much as to open one. */
const LOOKS_MAX = 64

/**
 * The open cells, at most `cellsMax`. To make room, one is closed of those whose owners have more than an equal part: of
 * eight drawn at random the one whose last use is longest ago, as Redis does with keys. The very last one of all would be
 * the next one to be used where a program goes through a few more cells than may be open, again and again, and each use
 * would open a cell. A cell that is in a transaction, has queued commits or is being read for a snapshot stays open, so
 * the bound can be exceeded while all cells are in use.
 */
export class CellPool {
  readonly quarantine: Quarantine
  readonly #open = new Map<string, CellDatabase>()
  /** Those that are open, in any order, to draw from; and where each is. */
  readonly #ids: string[] = []
  readonly #places = new Map<string, number>()
  readonly #cells: FairShares
  readonly #memory: OpenMemory | undefined
  readonly #opener: CellOpener
  #closed = false
  /** The state of {@link #random}; anything but 0. */
  #randomBits = 1
  /** The cell whose time it is. */
  #workingOn: string | undefined

  constructor(
    { cellsMax, memory }: PoolBounds,
    opener: CellOpener,
    { clock, log }: { clock: Clock; log: Log },
  ) {
    this.#cells = new FairShares(cellsMax)
    if (memory !== undefined) this.#memory = new OpenMemory(memory, clock)
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

  /** Whether {@link saveMemory} has to follow: the process uses much memory, and more than when it last did. It costs little to ask before each use. */
  isShortOfMemory(): boolean {
    return this.#memory?.isShort() ?? false
  }

  /** Whose open cells took most, if all together took too much and the process uses so much memory that it may end. */
  get heaviestOwner(): string | undefined {
    return this.#memory?.heaviest
  }

  /** Closes cells until the open ones fit into the bound on memory. @param forId stays open */
  saveMemory(forId: string): void {
    const shares = this.#memory?.weigh(this.#open, (id) => this.#ownerOf(id))
    if (shares !== undefined) this.#makeRoom(shares, forId)
  }

  /** Closes one cell and replaces or removes its files: that ends its quarantine. */
  replace(id: string, install: () => void): void {
    this.close(id)
    install()
    this.quarantine.end(id)
  }

  /**
   * Closes one cell whose files are about to be removed, without a checkpoint: its fsyncs and the copy that backups make of the log
   * before it would be for nothing. Only what the commit log has is still fsynced: a restore may just have replaced the files.
   */
  closeForRemoval(id: string): void {
    this.close(id, { leavesLog: true })
    this.quarantine.end(id)
  }

  /** Closes one cell, even while it is in use: queued commits are made first. */
  close(id: string, options?: { leavesLog: boolean }): void {
    this.quarantine.interrupt(id)
    this.#close(id, options)
  }

  /** @returns as {@link CellDatabase.close} */
  #close(id: string, options?: { leavesLog: boolean }): AcknowledgedFrames | undefined {
    // Removed afterwards: queued work that asks for the cell once more must find this one.
    const database = this.#open.get(id)
    const acknowledged = database && this.work(id, () => database.close(options))
    if (this.#open.delete(id)) this.#forgetPlace(id)
    this.#cells.delete(id)
    return acknowledged
  }

  /** @param why what each later use of a hold is told */
  endHolds(why: string): void {
    for (const database of this.#open.values()) database.holds.endAll(why)
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
    this.#cells.set(id, this.#ownerOf(id), 1)
    this.#makeRoom(this.#cells, id)
    const hooks = this.#opener.hooks(id)
    const quarantined = (reason: CellError) => this.quarantine.begin(id, reason)
    try {
      const database = new CellDatabase(paths.database, settings, { ...hooks, quarantined })
      database.touch()
      this.#open.set(id, database)
      this.#places.set(id, this.#ids.push(id) - 1)
      return database
    } catch (error) {
      if (!this.#open.has(id)) this.#cells.delete(id)
      if (isCellError(error, 'cell_quarantined') && error.details.reason !== undefined) {
        quarantined(error)
        hooks.failed?.(error)
      }
      throw error
    }
  }

  #discard(id: string): AcknowledgedFrames | undefined {
    return this.#open.get(id)?.quarantined === undefined ? undefined : this.#close(id)
  }

  #ownerOf(id: string): string {
    return this.#opener.owner?.(id) ?? ''
  }

  #makeRoom(shares: FairShares, forId: string): void {
    while (shares.isExceeded && this.#closeOne(shares, forId));
  }

  /**
   * Draws, not a sorted list: uses of a cell cost nothing. All are looked at only if there are few, or few may be closed.
   *
   * @returns false if all that may be closed are in use
   */
  #closeOne(shares: FairShares, forId: string): boolean {
    const mayClose = (id: string, { busy }: CellDatabase) => id !== forId && !busy && shares.mayMakeRoom(id)
    let drawn: { id: string; usedAt: number }[] = []
    const looks = this.#ids.length > LOOKS_MAX ? LOOKS_MAX : 0
    for (let i = 0; i < looks && drawn.length < DRAWN; i++) {
      const id = this.#ids[this.#random(this.#ids.length)] as string
      const database = this.#open.get(id) as CellDatabase
      if (mayClose(id, database)) drawn.push({ id, usedAt: database.usedAt })
    }
    if (drawn.length < DRAWN) drawn = this.#drawOfAll(mayClose)
    const [first, ...others] = drawn
    if (first === undefined) return false
    const { id } = others.reduce((oldest, each) => (each.usedAt < oldest.usedAt ? each : oldest), first)
    this.#close(id)
    shares.delete(id)
    return true
  }

  #drawOfAll(mayClose: (id: string, database: CellDatabase) => boolean): { id: string; usedAt: number }[] {
    const drawn: { id: string; usedAt: number }[] = []
    let seen = 0
    // forEach: a for loop would make one array of garbage per cell at every open.
    this.#open.forEach((database, id) => {
      if (!mayClose(id, database)) return
      // Each of those seen so far has the same chance to be among the drawn.
      const place = seen++ < DRAWN ? drawn.length : this.#random(seen)
      if (place < DRAWN) drawn[place] = { id, usedAt: database.usedAt }
    })
    return drawn
  }

  /** The last one takes its place. */
  #forgetPlace(id: string): void {
    const place = this.#places.get(id) as number
    this.#places.delete(id)
    const last = this.#ids.pop() as string
    if (last === id) return
    this.#ids[place] = last
    this.#places.set(last, place)
  }

  /** xorshift32: the same draws in every run. @returns an integer below `end` */
  #random(end: number): number {
    let bits = this.#randomBits
    bits ^= bits << 13
    bits ^= bits >>> 17
    bits ^= bits << 5
    this.#randomBits = bits
    return (bits >>> 0) % end
  }
}
