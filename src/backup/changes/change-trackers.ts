import type { Clock } from '../../base/clock.ts'
import type { CellAccess } from './cell-access.ts'
import { ChangeTracker } from './change-tracker.ts'
import type { BackupProgressTable } from './progress-table.ts'

/** The trackers in use: of open cells, and of those that are being backed up. All others are rows in the local state. */
export class ChangeTrackers {
  readonly #trackers = new Map<string, ChangeTracker>()
  readonly #cells: CellAccess
  readonly #table: BackupProgressTable
  readonly #clock: Clock
  readonly #onChange: (cellId: string) => void

  constructor(
    cells: CellAccess,
    table: BackupProgressTable,
    clock: Clock,
    onChange: (cellId: string) => void,
  ) {
    this.#cells = cells
    this.#table = table
    this.#clock = clock
    this.#onChange = onChange
  }

  /** Made when it is first asked for. */
  get(cellId: string): ChangeTracker {
    let tracker = this.#trackers.get(cellId)
    if (tracker === undefined) {
      const paths = this.#cells.paths(cellId)
      tracker = new ChangeTracker(cellId, paths, this.#table, this.#clock, () => this.#onChange(cellId))
      this.#trackers.set(cellId, tracker)
    }
    return tracker
  }

  /** Nobody uses it now: what it knows is in its row. */
  release(cellId: string): void {
    this.#trackers.delete(cellId)
  }

  /** The cell's history ends here; whoever still has its tracker writes nothing with it. */
  end(cellId: string): void {
    this.#trackers.get(cellId)?.detach()
    this.#trackers.delete(cellId)
  }

  /** Nothing that was stored so far counts any more, for any cell. */
  startAnew(): void {
    for (const tracker of this.#trackers.values()) tracker.startAnew()
  }
}
