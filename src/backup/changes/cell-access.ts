import type { CellPaths } from '../../base/store-paths.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { CellDatabase } from '../../engine/cell-database.ts'
import type { ManifestHead } from '../archive/manifest.ts'

/** The cells, as backups see them. The store implements it; the catalog is one of them, under the store's own id. */
export interface CellAccess {
  /** What the catalog says, deleted cells too; undefined for an id that it does not know, and for the catalog itself. */
  record(cellId: string): CellRecord | undefined
  paths(cellId: string): CellPaths
  /** Keeps the cell open until `unpin`. */
  pin(cellId: string): { database: CellDatabase; unpin: () => void }
  isOpen(cellId: string): boolean
  /** Whether the cell's database file is on this machine. */
  isLocal(cellId: string): boolean
  /**
   * Closes the cell, calls `install`, and lets it be opened again. Nothing else runs in between. That the old file can't
   * be closed properly, because it is damaged, is no reason not to replace it.
   */
  replace(cellId: string, install: () => void): void
  /** The cell was restored: once this is done the catalog knows it again, whatever it said before. */
  restored(cellId: string, manifest: ManifestHead): void | Promise<void>
}
