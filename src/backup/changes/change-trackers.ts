import type { Clock } from '../../base/clock.ts'
import { Emitter } from '../../base/emitter.ts'
import type { CellPaths } from '../../base/store-paths.ts'
import { ChangeTracker } from './change-tracker.ts'
import type { BackupProgressTable } from './progress-table.ts'

/**
 * The change trackers in use: of open cells, and of cells that are being backed up. All others are rows in the local
 * state.
 */
export class ChangeTrackers {
  /** A cell has changed for the first time since its newest backup. */
  readonly changed = new Emitter<[cellId: string]>()
  readonly #trackers = new Map<string, ChangeTracker>()
  /** How many users a tracker has. */
  readonly #users = new Map<string, number>()
  readonly #paths: (cellId: string) => CellPaths
  readonly #table: BackupProgressTable
  readonly #clock: Clock

  constructor(paths: (cellId: string) => CellPaths, table: BackupProgressTable, clock: Clock) {
    this.#paths = paths
    this.#table = table
    this.#clock = clock
  }

  /** Created when it is first asked for. */
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

  /** When its last user has released it, what the tracker knows is in its row. */
  release(cellId: string): void {
    const users = (this.#users.get(cellId) ?? 0) - 1
    if (users > 0) {
      this.#users.set(cellId, users)
      return
    }
    this.#users.delete(cellId)
    this.#trackers.delete(cellId)
  }

  /** The cell's history ends here: a tracker that is still in use writes nothing more. */
  end(cellId: string): void {
    this.#trackers.get(cellId)?.detach()
    this.#trackers.delete(cellId)
  }

  /** Nothing that was stored so far counts any more, for any cell. */
  startAnew(): void {
    for (const tracker of this.#trackers.values()) tracker.startAnew()
  }
}
