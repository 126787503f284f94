import type { Clock } from '../../base/clock.ts'
import { cellNotFound } from '../../catalog/cell-registry.ts'
import type { CellAccess } from '../changes/cell-access.ts'
import type { ChangeTrackers } from '../changes/change-trackers.ts'
import type { BackupProgressTable } from '../changes/progress-table.ts'
import type { ObjectStore } from '../object-store/object-store.ts'
import type { RestoreOptions, RestoreResult } from '../versions/backup-types.ts'
import type { CellOwnership } from '../versions/cell-ownership.ts'
import { backupNotFound } from '../versions/object-keys.ts'
import { listingOf, type VersionIndex } from '../versions/version-index.ts'
import { buildDatabase } from './restore-build.ts'
import { finishRestore, installRestored, removeUnfinished } from './restore-install.ts'
import type { RestoreThreads } from './restore-threads.ts'

export interface CellRestorerParts {
  objectStore: ObjectStore
  storeId: string
  index: VersionIndex
  trackers: ChangeTrackers
  progress: BackupProgressTable
  cells: CellAccess
  ownership: CellOwnership
  threads: RestoreThreads
  clock: Clock
}

/** Restores cells from their backups. The caller lets no other backup or restore of the same cell run meanwhile. */
export class CellRestorer {
  readonly #parts: CellRestorerParts

  constructor(parts: CellRestorerParts) {
    this.#parts = parts
  }

  /** The cell stays as it is until the new database is proven; then they are switched as a unit. */
  async run(cellId: string, options: RestoreOptions): Promise<RestoreResult> {
    const wasThere = this.#exists(cellId)
    const deletedMeanwhile = () => wasThere && !this.#exists(cellId)
    try {
      return await this.#run(cellId, options, () => {
        if (deletedMeanwhile()) throw cellNotFound()
      })
    } catch (error) {
      // Its folder went with it, so that the failure can be any.
      throw deletedMeanwhile() ? cellNotFound() : error
    }
  }

  /** @param beforeSwitch the last chance to refuse */
  async #run(cellId: string, options: RestoreOptions, beforeSwitch: () => void): Promise<RestoreResult> {
    const { objectStore, clock, storeId, cells, index, ownership, threads, trackers } = this.#parts
    const { signal, onProgress } = options
    const started = clock.monotonic()
    signal?.throwIfAborted()
    ownership.checkRecord(cellId, options.accountId)
    const versions = await index.versions(cellId, { signal })
    const listing = listingOf(versions)
    await ownership.checkManifests(cellId, versions, options.accountId, { signal })
    const newest = versions[0]?.version
    const version = options.version ?? newest
    if (version === undefined) throw backupNotFound()
    const manifest = await index.manifest(version, cellId, listing, { signal })
    const paths = cells.paths(cellId)
    if (!cells.isOpen(cellId)) finishRestore(paths)
    const sizeBytes = await buildDatabase(objectStore, manifest, { storeId, cellId }, paths, threads, {
      signal,
      onProgress: (bytes, total) => onProgress?.({ phase: 'download', bytes, total }),
    })
    try {
      signal?.throwIfAborted()
      beforeSwitch()
    } catch (error) {
      removeUnfinished(paths)
      throw error
    }
    // Before the switch: if the process ends right after it, the next backup is a base all the same.
    this.#beginHistory(cellId, newest, true)
    cells.replace(cellId, () => installRestored(paths))
    // A cell that was set back is changed: until it is backed up, the newest version is not the state that it is in.
    this.#beginHistory(cellId, newest, version !== newest)
    await cells.restored(cellId, manifest)
    if (version !== newest) trackers.changed.emit(cellId)
    return { version, kind: manifest.kind, sizeBytes, durationMs: clock.monotonic() - started }
  }

  #exists(cellId: string): boolean {
    return this.#parts.cells.record(cellId)?.deletedAt === null
  }

  /** After a restore the next backup is a base. */
  #beginHistory(cellId: string, newest: string | undefined, changed: boolean): void {
    const { clock, trackers, progress } = this.#parts
    const now = clock.now()
    trackers.end(cellId)
    progress.save({
      cellId,
      chain: null,
      lastVersion: newest ?? null,
      dirty: changed,
      dirtySinceSnapshot: changed,
      lastBackupAt: now,
      lastSnapshotAt: now,
    })
  }
}
