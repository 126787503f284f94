import type { Clock } from '../../base/clock.ts'
import type { Limits } from '../../base/limits.ts'
import type { CellPaths } from '../../base/store-paths.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { ManifestHead } from '../archive/manifest.ts'
import type { ObjectStore } from '../object-store/object-store.ts'
import type { RestoreOptions, RestoreResult } from '../versions/backup-types.ts'
import { CellOwnership } from '../versions/cell-ownership.ts'
import { backupNotFound } from '../versions/object-keys.ts'
import { listingOf, type VersionIndex } from '../versions/version-index.ts'
import { buildDatabase } from './restore-build.ts'
import { discardRestored } from './restore-install.ts'
import type { RestoreThreads } from './restore-threads.ts'

export interface CellRestorerParts {
  objectStore: ObjectStore
  storeId: string
  index: VersionIndex
  threads: RestoreThreads
  limits: Limits
  clock: Clock
  paths(cellId: string): CellPaths
}

export interface CellRestore extends RestoreOptions {
  /** The cell's record in the catalog, also of a deleted cell. */
  record: CellRecord | undefined
  /** Waits until so many stored bytes may be read. */
  willMove(bytes: number): Promise<void>
  /** Switches the cell to the database in `incoming.db`. */
  install(manifest: ManifestHead, newest: string): Promise<void>
}

/** Restores cells from their backups. The caller runs no other backup or restore of the same cell meanwhile. */
export class CellRestorer {
  readonly #parts: CellRestorerParts

  constructor(parts: CellRestorerParts) {
    this.#parts = parts
  }

  /** The cell stays unchanged until the new database is proven. Then the switch is atomic (restore-install.ts). */
  async run(cellId: string, restore: CellRestore): Promise<RestoreResult> {
    const { objectStore, clock, storeId, threads, limits } = this.#parts
    const { signal, onProgress, willMove } = restore
    const started = clock.monotonic()
    signal?.throwIfAborted()
    const { manifest, newest } = await this.#find(cellId, restore)
    const paths = this.#parts.paths(cellId)
    const expected = { storeId, cellId, limits }
    const sizeBytes = await buildDatabase(objectStore, manifest, expected, paths, threads, {
      signal,
      onProgress: (bytes, total) => onProgress?.({ phase: 'download', bytes, total }),
      willMove,
    })
    try {
      signal?.throwIfAborted()
      await restore.install(manifest, newest)
    } catch (error) {
      discardRestored(paths)
      throw error
    }
    const { version, kind } = manifest
    return { version, kind, sizeBytes, durationMs: clock.monotonic() - started }
  }

  /** @throws `cell_not_found` if it may not have the cell; `backup_not_found`, `backup_corrupt` */
  async #find(
    cellId: string,
    { record, accountId, version, signal }: CellRestore,
  ): Promise<{ manifest: ManifestHead; newest: string }> {
    const { index } = this.#parts
    const ownership = new CellOwnership(index, () => record)
    ownership.checkRecord(cellId, accountId)
    const versions = await index.versions(cellId, { signal })
    await ownership.checkManifests(cellId, versions, accountId, { signal })
    const newest = versions[0]?.version
    if (newest === undefined) throw backupNotFound()
    const manifest = await index.manifest(version ?? newest, cellId, listingOf(versions), { signal })
    return { manifest, newest }
  }
}
