import type { BackupProgress } from '../../../src/backup/changes/backup-progress.ts'
import { BackupProgressTable, ChangedCells } from '../../../src/backup/changes/progress-table.ts'
import type { CellStore } from '../../../src/store/cell-store.ts'

/** What the schedule would see of a store's cells. */
export function changedCells({ core }: CellStore): ChangedCells {
  const progress = core.destination?.progress ?? new BackupProgressTable(core.state)
  return new ChangedCells(progress, (id) => core.findCell(id))
}

/** @returns undefined if the cell is unchanged since its newest backup, or deleted */
export function changeOf(store: CellStore, cellId: string): BackupProgress | undefined {
  return changedCells(store)
    .all()
    .find((each) => each.cellId === cellId)
}
