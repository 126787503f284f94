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
  #searches = 0
  #looks = 0
  #stopped = false

  constructor(parts: UnshippedSearchParts) {
    this.#parts = parts
  }

  /** False while there may be cells that nobody has found yet. */
  get isOver(): boolean {
    return this.#searches === 0 && this.#looks === 0 && this.#waiting.size === 0
  }

  /** Looks at all cells whose files show that something is not shipped. @param may which cells it can be */
  async search(may: (cellId: string) => boolean = () => true): Promise<void> {
    this.#searches++
    try {
      for (let after = ''; !this.#stopped; await turnOfTheLoop()) {
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
    } finally {
      this.#searches--
    }
  }

  /** The cell may have something to ship. */
  found(cellId: string): void {
    this.#waiting.add(cellId)
    if (this.#looks < LOOKS_AT_ONCE) void this.#lookAtAll()
  }

  /** Nothing begins after this. */
  stop(): void {
    this.#stopped = true
    this.#waiting.clear()
  }

  async #lookAtAll(): Promise<void> {
    this.#looks++
    for (const cellId of this.#waiting) {
      this.#waiting.delete(cellId)
      if (this.#stopped) break
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
