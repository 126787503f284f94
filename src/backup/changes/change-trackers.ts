import type { Clock } from '../../base/clock.ts'
import { Emitter } from '../../base/emitter.ts'
import type { CellPaths } from '../../base/store-paths.ts'
import { ChangeTracker } from './change-tracker.ts'
import type { BackupProgressTable } from './progress-table.ts'

/** The change trackers of open cells and of cells under backup. For all other cells, the local state has a row. */
export class ChangeTrackers {
  /** Emitted at a cell's first change since its newest backup. */
  readonly changed = new Emitter<[cellId: string]>()
  readonly #trackers = new Map<string, ChangeTracker>()
  /** Number of users of each tracker. */
  readonly #users = new Map<string, number>()
  readonly #paths: (cellId: string) => CellPaths
  readonly #table: BackupProgressTable
  readonly #clock: Clock

  constructor(paths: (cellId: string) => CellPaths, table: BackupProgressTable, clock: Clock) {
    this.#paths = paths
    this.#table = table
    this.#clock = clock
  }

  /** The cell's tracker; created if necessary. */
  get(cellId: string): ChangeTracker {
    let tracker = this.#trackers.get(cellId)
    if (tracker === undefined) {
      const onChange = () => this.changed.emit(cellId)
      tracker = new ChangeTracker(cellId, this.#paths(cellId), this.#table, this.#clock, onChange)
      this.#trackers.set(cellId, tracker)
    }
    return tracker
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

  /** The cell was deleted or restored: a tracker that is still in use no longer writes. */
  detach(cellId: string): void {
    this.#trackers.get(cellId)?.detach()
    this.#trackers.delete(cellId)
  }

  /** Backups go to another place, where nothing is stored yet. */
  markNothingStored(): void {
    for (const tracker of this.#trackers.values()) tracker.markNothingStored()
  }
}
