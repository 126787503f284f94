import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { BackupProgress } from './backup-progress.ts'
import type { BackupProgressTable } from './progress-table.ts'

/** The cells that have changed since their newest backup, for the schedule. */
export class ChangedCells {
  readonly #progress: BackupProgressTable
  readonly #record: (cellId: string) => CellRecord | undefined

  /** @param record undefined for the catalog, which has its own schedule */
  constructor(progress: BackupProgressTable, record: (cellId: string) => CellRecord | undefined) {
    this.#progress = progress
    this.#record = record
  }

  all(): BackupProgress[] {
    return this.#progress.changed().filter(({ cellId }) => this.#exists(cellId))
  }

  /** @returns also of an unchanged cell; undefined if it is deleted */
  find(cellId: string): BackupProgress | undefined {
    return this.#exists(cellId) ? this.#progress.find(cellId) : undefined
  }

  /** Whose turn its backup takes; empty for the owner's. */
  accountOf(cellId: string): string {
    return this.#record(cellId)?.accountId ?? ''
  }

  #exists(cellId: string): boolean {
    return this.#record(cellId)?.deletedAt === null
  }
}
