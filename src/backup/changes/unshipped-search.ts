import { turnOfTheLoop } from '../../base/clock.ts'
import type { CellPaths } from '../../base/files/store-paths.ts'
import type { Log } from '../../base/log.ts'
import type { BackupProgress } from './backup-progress.ts'
import { fingerprintOf } from './file-fingerprint.ts'
import { isUntouchedSince, unshippedSegments } from './history.ts'
import { among, type CollectedLook, type CollectLimits } from './log/cell-log.ts'
import { Segments } from './log/segments.ts'
import type { BackupProgressTable, ChangedCell } from './progress-table.ts'

export interface UnshippedSearchParts {
  /** False: nothing is shipped, and nothing is looked for. */
  isShipped: boolean
  progress: Pick<BackupProgressTable, 'withHistory' | 'changedWithoutHistory'>
  paths(cellId: string): CellPaths
  /** False for a deleted cell. */
  exists(cellId: string): boolean
  /** Has the process that the cell belongs to look at its log: from then on it is collected. */
  look(cellId: string): Promise<void>
  log: Log
}

/** Which cells are looked for. */
type Cells = (cellId: string) => boolean

const ANY: Cells = () => true
const ROWS_PER_TURN = 64
/** Cells whose files are looked at in one turn of the event loop: about a millisecond of work. */
const CELLS_PER_TURN = 16
const LOOKS_AT_ONCE = 4

/**
 * Finds cells that have something to ship although nobody uses them: their process has ended, or has given them away. What fails
 * is tried again with each collection: until then, nobody knows of all that waits.
 */
export class UnshippedSearch {
  readonly #parts: UnshippedSearchParts
  readonly #waiting = new Set<string>()
  /** Those that could not be looked at. */
  readonly #missed = new Set<string>()
  readonly #failed: Cells[] = []
  /** Searches and looks that run. */
  readonly #running = new Set<Promise<void>>()
  /** Which cells searches run for. */
  readonly #searches = new Set<Cells>()
  readonly #looking = new Set<string>()
  /** For each collection under way: the cells that nobody has found yet, or too late for the process that had answered already. */
  readonly #watching = new Set<Cells[]>()
  /** All cells are searched, or were. Before that, a process that has no cell open knows of nothing that waits. */
  #hasBegun = false
  /** Searches and looks so far. */
  #begun = 0
  #repeat: Promise<void> | undefined
  #looks = 0
  #stopped = false
  /** The stop came before all cells were looked at. */
  #isCutShort = false

  constructor(parts: UnshippedSearchParts) {
    this.#parts = parts
  }

  /** False while there may be cells that nobody has found yet, and after a stop that left some. */
  get isOver(): boolean {
    const isDone = this.#running.size === 0 && this.#waiting.size === 0
    return this.#hasBegun && isDone && this.#failed.length === 0 && !this.#isCutShort
  }

  /**
   * What is collected while cells are searched for is not all; of those that could not be looked at, nobody knows it. What ends
   * meanwhile may have come too late for the process that had answered already.
   */
  async collect<Piece>(
    { historyOf, awaited = [] }: Pick<CollectLimits, 'historyOf' | 'awaited'>,
    collect: () => Promise<CollectedLook<Piece>>,
  ): Promise<CollectedLook<Piece>> {
    const missed = [...this.#missed]
    this.#tryAgain()
    const wasOver = this.isOver
    const begun = this.#begun
    const sought = this.#sought()
    this.#watching.add(sought)
    const changedBefore = this.#changedWithoutHistory()
    const collected = await collect().finally(() => this.#watching.delete(sought))
    const isOver = wasOver && this.isOver && this.#begun === begun
    const complete = { ...collected.complete }
    for (const cellId of awaited)
      if (this.#isCutShort || sought.some((may) => may(cellId))) delete complete[cellId]
    const unreadable = union(collected.unreadable, missed, this.#missed)
    const changedCells = this.#changedWithoutHistory()
    const changed = changedCells.map(({ cellId }) => cellId)
    const withoutHistory = union(collected.withoutHistory, historyOf ? among(changed, historyOf) : changed)
    const withoutHistoryCount = Math.max(collected.withoutHistoryCount, changed.length)
    const isAll = collected.isAll && isOver
    // Of one whose first version was stored meanwhile, what it has committed since that was cut may be nowhere yet.
    const allAsOf = earliestOf(collected.asOf, [...changedBefore, ...changedCells])
    return { ...collected, unreadable, withoutHistory, withoutHistoryCount, isAll, allAsOf, complete }
  }

  /** Of those that no process has open, too: nobody has to look at them. */
  #changedWithoutHistory(): ChangedCell[] {
    const { progress, exists } = this.#parts
    return progress.changedWithoutHistory().filter(({ cellId }) => exists(cellId))
  }

  /** Looks at all cells whose files show that something is not shipped. @param may which cells it can be; by default any */
  async search(may: Cells = ANY): Promise<void> {
    if (may === ANY) this.#hasBegun = true
    if (this.#parts.isShipped) await this.#run(this.#search(may))
  }

  /** The cell may have something to ship. */
  found(cellId: string): void {
    this.#waiting.add(cellId)
    this.#nowSought((id) => id === cellId)
    if (this.#looks < LOOKS_AT_ONCE && !this.#stopped) void this.#run(this.#lookAtAll())
  }

  /** Nothing begins after this. Resolves once what runs has ended. */
  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all([...this.#running, this.#repeat])
  }

  #sought(): Cells[] {
    const cells = new Set([...this.#waiting, ...this.#looking])
    const begun = this.#hasBegun ? [] : [ANY]
    return [...begun, ...this.#failed, ...this.#searches, (cellId) => cells.has(cellId)]
  }

  #nowSought(may: Cells): void {
    for (const sought of this.#watching) sought.push(may)
  }

  /** @param work never rejects */
  async #run(work: Promise<void>): Promise<void> {
    this.#begun++
    this.#running.add(work)
    await work
    this.#running.delete(work)
  }

  async #search(may: Cells): Promise<void> {
    this.#searches.add(may)
    this.#nowSought(may)
    let looks = 0
    try {
      for (let after = ''; ; await turnOfTheLoop()) {
        if (this.#stopped) {
          this.#isCutShort = true
          break
        }
        const rows = this.#parts.progress.withHistory(after, ROWS_PER_TURN)
        for (const row of rows) {
          if (!may(row.cellId)) continue
          if (this.#isUnshipped(row)) this.found(row.cellId)
          if (++looks % CELLS_PER_TURN === 0) await turnOfTheLoop()
        }
        after = rows.at(-1)?.cellId ?? ''
        if (rows.length < ROWS_PER_TURN) break
      }
    } catch (err) {
      this.#failed.push(may)
      this.#parts.log.error({ err }, 'could not look for what cells have not shipped; trying again')
    } finally {
      this.#searches.delete(may)
    }
  }

  async #lookAtAll(): Promise<void> {
    this.#looks++
    for (const cellId of this.#waiting) {
      if (this.#stopped) break
      this.#waiting.delete(cellId)
      this.#looking.add(cellId)
      try {
        await this.#look(cellId)
      } catch (err) {
        this.#missed.add(cellId)
        if (!this.#stopped)
          this.#parts.log.warn({ cellId, err }, 'could not look at the log of a cell; trying again')
      } finally {
        this.#looking.delete(cellId)
      }
    }
    this.#looks--
  }

  async #look(cellId: string): Promise<void> {
    if (this.#parts.exists(cellId)) await this.#parts.look(cellId)
    this.#missed.delete(cellId)
  }

  #tryAgain(): void {
    if (this.#stopped) return
    for (const may of this.#failed.splice(0)) void this.search(may)
    if (this.#missed.size === 0 || this.#repeat !== undefined) return
    this.#repeat = this.#lookAtMissed().finally(() => {
      this.#repeat = undefined
    })
  }

  /** They hold up no others meanwhile. */
  async #lookAtMissed(): Promise<void> {
    for (const cellId of [...this.#missed]) {
      if (this.#stopped) break
      await this.#look(cellId).catch(() => {})
    }
  }

  /** What can't be told from here, the process tells that has the cell. */
  #isUnshipped({ cellId, history }: BackupProgress): boolean {
    if (history === null) return false
    const { database, wal, segments } = this.#parts.paths(cellId)
    try {
      if ((fingerprintOf(wal)?.size ?? 0) > 0) return true
      // Another program has moved a log into the file, or has written it.
      const file = fingerprintOf(database)
      if (file !== undefined && !isUntouchedSince(history, file)) return true
      return unshippedSegments(history, new Segments(segments).list())?.length !== 0
    } catch {
      return true
    }
  }
}

/** @returns null if not known: a change later than now was noted by a clock that was ahead */
function earliestOf(asOf: number, changed: ChangedCell[]): number | null {
  let earliest = asOf
  for (const { changedAt } of changed) {
    if (changedAt === null || changedAt > asOf) return null
    earliest = Math.min(earliest, changedAt)
  }
  return earliest
}

function union(...lists: Iterable<string>[]): string[] {
  return [...new Set(lists.flatMap((each) => [...each]))]
}
