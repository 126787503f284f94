import type { ManifestHead } from '../backup/archive/manifest.ts'
import type { BackupKind, BackupOptions, BackupResult } from '../backup/versions/backup-types.ts'
import type { CellRecord } from '../catalog/cell-registry.ts'

/**
 * Cells that other processes hold open for this store, which then opens none itself (invariant 2). What runs by itself
 * asks here.
 */
export interface RemoteCells {
  backup(cellId: string, kind: BackupKind, options?: BackupOptions): Promise<BackupResult>
  /** Collects the expired entries of a cell, and brings its hint in the local state up to date. */
  collect(cellId: string, signal: AbortSignal): Promise<void>
  /** Ends all use of a cell that was deleted: its files can be removed when this resolves. */
  release(record: CellRecord): Promise<void>
  /** Finishes what is under way, and closes every cell. */
  stop(deadlineMs: number): Promise<void>
}

/** What those processes tell the store. */
export interface WorkerEvents {
  /** A cell has changed for the first time since its newest backup. */
  changed(cellId: string): void
  /** An entry expires earlier than the hints said. */
  expiryChanged(): void
  /** A cell was restored: the catalog is to know it again before anybody is told. */
  restored(cellId: string, manifest: ManifestHead): void
}
