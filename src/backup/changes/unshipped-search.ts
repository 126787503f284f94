import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import type { Log } from '../../base/log.ts'
import type { CellPaths } from '../../base/store-paths.ts'
import { fingerprintOf } from './file-fingerprint.ts'
import { unshippedSegments } from './history.ts'
import type { BackupProgress, BackupProgressTable } from './progress-table.ts'
import { Segments } from './segments.ts'

export interface UnshippedSearchParts {
  progress: BackupProgressTable
  paths(cellId: string): CellPaths
  /** False for a deleted cell. */
  exists(cellId: string): boolean
  /** Has the process that the cell belongs to look at its log: from then on it is collected. */
  look(cellId: string): Promise<void>
  log: Log
}

const ROWS_PER_TURN = 64
const LOOKS_AT_ONCE = 4

/** Finds cells that have something to ship although nobody uses them: their process has ended, or has given them away. */
export class UnshippedSearch {
  readonly #parts: UnshippedSearchParts
  readonly #waiting = new Set<string>()
  /** Searches and looks that run. */
  readonly #running = new Set<Promise<void>>()
  #looks = 0
  #stopped = false
  /** The stop came before all cells were looked at. */
  #isCutShort = false

  constructor(parts: UnshippedSearchParts) {
    this.#parts = parts
  }

  /** False while there may be cells that nobody has found yet, and after a stop that left some. */
  get isOver(): boolean {
    return this.#running.size === 0 && this.#waiting.size === 0 && !this.#isCutShort
  }

  /** Looks at all cells whose files show that something is not shipped. @param may which cells it can be */
  async search(may: (cellId: string) => boolean = () => true): Promise<void> {
    await this.#run(this.#search(may))
  }

  /** The cell may have something to ship. */
  found(cellId: string): void {
    this.#waiting.add(cellId)
    if (this.#looks < LOOKS_AT_ONCE && !this.#stopped) void this.#run(this.#lookAtAll())
  }

  /** Nothing begins after this. Resolves once what runs has ended. */
  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.all(this.#running)
  }

  /** @param work never rejects */
  async #run(work: Promise<void>): Promise<void> {
    this.#running.add(work)
    await work
    this.#running.delete(work)
  }

  async #search(may: (cellId: string) => boolean): Promise<void> {
    try {
      for (let after = ''; ; await turnOfTheLoop()) {
        if (this.#stopped) {
          this.#isCutShort = true
          break
        }
        const rows = this.#parts.progress.withHistory(after, ROWS_PER_TURN)
        for (const row of rows) if (may(row.cellId) && this.#isUnshipped(row)) this.found(row.cellId)
        after = rows.at(-1)?.cellId ?? ''
        if (rows.length < ROWS_PER_TURN) break
      }
    } catch (err) {
      this.#parts.log.error(
        { err },
        'could not look for what cells have not shipped; their next use finds it',
      )
    }
  }

  async #lookAtAll(): Promise<void> {
    this.#looks++
    for (const cellId of this.#waiting) {
      if (this.#stopped) break
      this.#waiting.delete(cellId)
      try {
        if (this.#parts.exists(cellId)) await this.#parts.look(cellId)
      } catch (err) {
        if (!this.#stopped)
          this.#parts.log.warn({ cellId, err }, 'could not look at the log of a cell; its next use does')
      }
    }
    this.#looks--
  }

  #isUnshipped({ cellId, history }: BackupProgress): boolean {
    if (history === null) return false
    const { wal, segments } = this.#parts.paths(cellId)
    if ((fingerprintOf(wal)?.size ?? 0) > 0) return true
    return unshippedSegments(history, new Segments(segments).list())?.length !== 0
  }
}
