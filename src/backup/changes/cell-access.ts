import type { CellPaths } from '../../base/store-paths.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { CellDatabase } from '../../engine/cell-database.ts'
import type { ManifestHead } from '../archive/manifest.ts'

/** What backups need from a store's cells. The catalog is one of the cells, with the store's own id. */
export interface CellAccess {
  /** The cell's record, also of a deleted cell; undefined for an unknown id, and for the catalog itself. */
  record(cellId: string): CellRecord | undefined
  paths(cellId: string): CellPaths
  /** Keeps the cell open until `unpin`. */
  pin(cellId: string): { database: CellDatabase; unpin: () => void }
  isOpen(cellId: string): boolean
  /** Whether the cell's database file is on this machine. */
  isLocal(cellId: string): boolean
  /**
   * Closes the cell, calls `install`, and allows the cell to open again; nothing else runs in between. A damaged file
   * that can't be closed properly is replaced too.
   */
  replace(cellId: string, install: () => void): void
  /** Records a restored cell in the catalog, also if it was unknown or deleted there. */
  restored(cellId: string, manifest: ManifestHead): void | Promise<void>
}
