import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { CellAccess } from '../changes/cell-access.ts'
import type { BackupProgressTable } from '../changes/progress-table.ts'
import type { ObjectStore } from '../object-store/object-store.ts'

/** What backups are made of and with. */
export interface BackupComponents {
  objectStore: ObjectStore
  storeId: string
  /** Epoch milliseconds. */
  storeCreatedAt: number
  cells: CellAccess
  progress: BackupProgressTable
  clock: Clock
  log: Log
  spoolDirectory: string
  /** How many restorable versions of a cell to keep; undefined keeps all. */
  keep: number | undefined
  /** Resolves once every change of the catalog so far is in the object store. None where another process has the catalog. */
  catalogStored?: (() => Promise<void>) | undefined
  /** Told when a cell has changed for the first time since its newest backup. */
  onChange(cellId: string): void
  /** Told when backups go to another place than before, where nothing is stored yet. */
  onNewTarget(): void
  /** The catalog's newest backup is not where it was stored: it has to be made again. */
  onCatalogLost(): void
}
