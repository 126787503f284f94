import type { Clock } from '../engine/clock.ts'
import type { Log } from '../engine/log.ts'
import type { ObjectStore } from './object-store.ts'
import type { BackupProgressTable } from './progress-table.ts'
import type { BackupSubjects } from './subjects.ts'

/** What backups are made of and with. */
export interface BackupComponents {
  objectStore: ObjectStore
  storeId: string
  /** Epoch milliseconds. */
  storeCreatedAt: number
  subjects: BackupSubjects
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
