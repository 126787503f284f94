import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { ManifestHead } from '../archive/manifest.ts'
import type { BackupKind, BackupOptions, BackupResult } from '../versions/backup-types.ts'

/** A cell at the start of its restore. */
export interface CellState {
  /** Its record in the catalog, also of a deleted cell; undefined for an unknown id. */
  record: CellRecord | undefined
  /** Its database file is on this machine. */
  isLocal: boolean
}

/** A restored database that is proven, in `incoming.db`. */
export interface RestoredCell {
  manifest: ManifestHead
  /** The cell's newest version in the object store. */
  newest: string
  /** The cell existed in the catalog when its restore began. */
  existed: boolean
}

/**
 * What the archiver asks of the process that has a cell. Plain data in and out: in the library these are calls, and in a
 * node they are messages to the cell's worker.
 */
export interface CellPort {
  backup(cellId: string, kind: BackupKind, options: BackupOptions): Promise<BackupResult>
  /** A restore builds `incoming.db` from here on: whoever opens the cell leaves that file alone. */
  beginRestore(cellId: string): Promise<CellState>
  /**
   * Closes the cell, switches to `incoming.db`, and records the cell in the catalog. If it throws, the switch is either
   * decided, or will never happen.
   *
   * @throws `cell_not_found` if the cell was deleted since the restore began
   */
  install(cellId: string, restored: RestoredCell): Promise<void>
  /** The restore has ended, well or badly. */
  endRestore(cellId: string): Promise<void>
}
