import { Emitter } from '../../base/async/emitter.ts'
import type { Clock } from '../../base/clock.ts'
import type { CellPaths } from '../../base/files/store-paths.ts'
import { ChangeTracker } from './change-tracker.ts'
import type { BackupProgressTable } from './progress-table.ts'

/** The change trackers of open cells, of cells under backup, and of those with something to ship. For all other cells, the local state has a row. */
export class ChangeTrackers {
  /** Emitted at a cell's first change since its newest backup. */
  readonly changed = new Emitter<[cellId: string]>()
  readonly #trackers = new Map<string, ChangeTracker>()
  /** Number of users of each tracker. */
  readonly #users = new Map<string, number>()
  /** Cells that may have something to ship, in the order in which they are told of. */
  readonly #unshipped = new Set<string>()
  readonly #paths: (cellId: string) => CellPaths
  readonly #table: BackupProgressTable
  readonly #clock: Clock
  readonly #isShipped: (cellId: string) => boolean

  /** @param isShipped whether what a cell commits is shipped; by default it is not */
  constructor(
    paths: (cellId: string) => CellPaths,
    table: BackupProgressTable,
    clock: Clock,
    isShipped: (cellId: string) => boolean = () => false,
  ) {
    this.#paths = paths
    this.#table = table
    this.#clock = clock
    this.#isShipped = isShipped
  }

  /** The cell's tracker; created if necessary. */
  get(cellId: string): ChangeTracker {
    let tracker = this.#trackers.get(cellId)
    if (tracker === undefined) {
      tracker = new ChangeTracker(cellId, {
        paths: this.#paths(cellId),
        table: this.#table,
        clock: this.#clock,
        isShipped: this.#isShipped(cellId),
        onChange: () => this.changed.emit(cellId),
        onUnshipped: () => this.noteUnshipped(cellId),
      })
      this.#trackers.set(cellId, tracker)
    }
    return tracker
  }

  /** Cells that may have something to ship: those first of which something was stored longest ago. */
  get unshipped(): Iterable<string> {
    return this.#unshipped
  }

  isUnshipped(cellId: string): boolean {
    return this.#unshipped.has(cellId)
  }

  /** The cell may have something to ship: its tracker stays in memory. */
  noteUnshipped(cellId: string): void {
    if (this.#unshipped.has(cellId)) return
    this.#unshipped.add(cellId)
    this.acquire(cellId)
  }

  /** From here on, until others had a turn. */
  comesLast(cellId: string): void {
    if (this.#unshipped.delete(cellId)) this.#unshipped.add(cellId)
  }

  /** The cell has nothing to ship. */
  settled(cellId: string): void {
    if (!this.#unshipped.delete(cellId)) return
    this.#trackers.get(cellId)?.history.settled()
    this.release(cellId)
  }

  /** Another process takes the cell over. @returns whether it may have something to ship */
  letGo(cellId: string): boolean {
    if (!this.#unshipped.delete(cellId)) return false
    this.#trackers.get(cellId)?.letGo()
    this.release(cellId)
    return true
  }

  /** This process ends. */
  letGoOfAll(): void {
    for (const cellId of [...this.#unshipped]) this.letGo(cellId)
  }

  /** Keeps a cell's tracker in memory until the matching {@link release}. */
  acquire(cellId: string): void {
    this.#users.set(cellId, (this.#users.get(cellId) ?? 0) + 1)
  }

  /** Drops the tracker with its last user: its state is in its row. */
  release(cellId: string): void {
    const users = (this.#users.get(cellId) ?? 0) - 1
    if (users > 0) {
      this.#users.set(cellId, users)
      return
    }
    this.#users.delete(cellId)
    this.#trackers.delete(cellId)
  }

  /** Lends a cell's tracker for one synchronous step, whether or not the cell is open. */
  use<T>(cellId: string, step: (tracker: ChangeTracker) => T): T {
    this.acquire(cellId)
    try {
      return step(this.get(cellId))
    } finally {
      this.release(cellId)
    }
  }

  /** Saves what steps change in their rows with one commit. */
  together(steps: () => void): void {
    this.#table.together(steps)
  }

  /** What is saved survives a power loss once this has ended. If the disk fails, the rows stay those of before. Never rejects. */
  async sync(): Promise<void> {
    await this.#table.syncInPool().catch(() => {})
  }

  /** The cell was deleted or restored: a tracker that is still in use no longer writes. */
  detach(cellId: string): void {
    this.#trackers.get(cellId)?.detach()
    this.settled(cellId)
    this.#trackers.delete(cellId)
  }

  /**
   * Backups go to another place, where nothing is stored yet; or others have written there. Also in a worker that hears of it from
   * its node: it may have saved rows of before in between, of cells whose trackers it no longer has. On disk when it returns.
   */
  setNothingStored(): void {
    this.#table.setNothingStored()
    for (const tracker of this.#trackers.values()) tracker.setNothingStored()
  }

  /** What else was shipped may be in the very histories. As {@link setNothingStored}. */
  endHistories(): void {
    this.#table.endHistories()
    for (const tracker of this.#trackers.values()) tracker.dropHistory()
  }
}

/**
 * What holds for all cells at once: nothing of them counts as stored (the bucket is another one, or an older copy, or others
 * have written there); or no history goes on.
 */
export type HistoryReset = 'nothing stored' | 'histories ended'

export function resetHistories(trackers: ChangeTrackers, reset: HistoryReset): void {
  if (reset === 'nothing stored') trackers.setNothingStored()
  else trackers.endHistories()
}
