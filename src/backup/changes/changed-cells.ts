import type { BackupProgress, BackupProgressTable } from './progress-table.ts'

/** The cells that have changed since their newest backup, for the schedule. */
export class ChangedCells {
  readonly #progress: BackupProgressTable
  readonly #exists: (cellId: string) => boolean

  /** @param exists false for a deleted cell, and for the catalog, whose backup has a schedule of its own */
  constructor(progress: BackupProgressTable, exists: (cellId: string) => boolean) {
    this.#progress = progress
    this.#exists = exists
  }

  all(): BackupProgress[] {
    return this.#progress.changed().filter(({ cellId }) => this.#exists(cellId))
  }

  /** @returns undefined if the cell is unchanged or deleted */
  find(cellId: string): BackupProgress | undefined {
    const progress = this.#progress.find(cellId)
    return (progress.dirty || progress.dirtySinceSnapshot) && this.#exists(cellId) ? progress : undefined
  }
}
