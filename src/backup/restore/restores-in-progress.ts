import { CellError } from '../../errors.ts'

/**
 * Which cells are being restored. A cell's next database is built next to its files, so before the cell is opened this
 * tells a build that is under way from the left-over of a crash.
 */
export class RestoresInProgress {
  readonly #requested = new Set<string>()
  readonly #recoveries = new Map<string, Promise<void>>()

  has(cellId: string): boolean {
    return this.#requested.has(cellId) || this.#recoveries.has(cellId)
  }

  /** Runs a restore that was asked for. @throws `restore_in_progress` if another one of the cell is under way */
  async request<T>(cellId: string, restore: () => Promise<T>): Promise<T> {
    if (this.#requested.has(cellId)) throw restoreInProgress()
    this.#requested.add(cellId)
    try {
      return await restore()
    } finally {
      this.#requested.delete(cellId)
    }
  }

  /** Runs the recovery of a cell whose local data is lost. Calls that come while one is under way share it. */
  async recover(cellId: string, restore: () => Promise<void>): Promise<void> {
    let recovery = this.#recoveries.get(cellId)
    if (recovery === undefined) {
      recovery = restore().finally(() => this.#recoveries.delete(cellId))
      this.#recoveries.set(cellId, recovery)
    }
    await recovery
  }
}

export function restoreInProgress(): CellError {
  return new CellError('restore_in_progress', 'A restore of this cell is under way. Wait until it has ended.')
}
