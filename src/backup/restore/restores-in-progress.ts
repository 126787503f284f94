import { CellError } from '../../errors.ts'

/**
 * The cells whose restore is running. A restore builds the new database next to the cell's files. Before the cell is
 * opened, this tells such a file from the left-over of a crash.
 */
export class RestoresInProgress {
  readonly #requested = new Set<string>()
  readonly #recoveries = new Map<string, Promise<void>>()

  has(cellId: string): boolean {
    return this.#requested.has(cellId) || this.#recoveries.has(cellId)
  }

  /** Runs a requested restore. @throws `restore_in_progress` if another one of the cell is running */
  async request<T>(cellId: string, restore: () => Promise<T>): Promise<T> {
    if (this.#requested.has(cellId)) throw restoreInProgress()
    this.#requested.add(cellId)
    try {
      return await restore()
    } finally {
      this.#requested.delete(cellId)
    }
  }

  /** Runs the recovery of a cell whose local data is lost. Calls during a recovery share it. */
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
  return new CellError('restore_in_progress', 'A restore of this cell is running. Wait for its end.')
}
