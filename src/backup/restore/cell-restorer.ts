import { cellNotFound } from '../../catalog/cell-registry.ts'
import type { ChangeTrackers } from '../changes/change-trackers.ts'
import type { BackupComponents } from '../versions/backup-components.ts'
import type { RestoreOptions, RestoreResult } from '../versions/backup-types.ts'
import { backupNotFound } from '../versions/object-keys.ts'
import type { StoredVersion } from '../versions/stored-manifest.ts'
import { listingOf, type VersionIndex } from '../versions/version-index.ts'
import { buildDatabase } from './restore-build.ts'
import { finishRestore, installRestored, removeUnfinished } from './restore-install.ts'
import { RestoreThreads } from './restore-threads.ts'

/** Brings cells back, one at a time each. */
export class CellRestorer {
  readonly #c: BackupComponents
  readonly #index: VersionIndex
  readonly #trackers: ChangeTrackers
  readonly #threads: RestoreThreads

  constructor(c: BackupComponents, index: VersionIndex, trackers: ChangeTrackers) {
    this.#c = c
    this.#index = index
    this.#trackers = trackers
    this.#threads = new RestoreThreads(c.clock)
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
    const { objectStore, clock, storeId, cells } = this.#c
    const { signal, onProgress } = options
    const started = clock.monotonic()
    signal?.throwIfAborted()
    this.checkRecord(cellId, options.accountId)
    const versions = await this.#index.versions(cellId, { signal })
    const listing = listingOf(versions)
    await this.checkManifests(cellId, versions, options)
    const newest = versions[0]?.version
    const version = options.version ?? newest
    if (version === undefined) throw backupNotFound()
    const manifest = await this.#index.manifest(version, cellId, listing, { signal })
    const paths = cells.paths(cellId)
    if (!cells.isOpen(cellId)) finishRestore(paths)
    const sizeBytes = await buildDatabase(objectStore, manifest, { storeId, cellId }, paths, this.#threads, {
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
    if (version !== newest) this.#c.onChange(cellId)
    return { version, kind: manifest.kind, sizeBytes, durationMs: clock.monotonic() - started }
  }

  /** @throws `cell_not_found` if the catalog says that the cell is another account's */
  checkRecord(cellId: string, accountId: string | undefined): void {
    const record = this.#c.cells.record(cellId)
    if (record !== undefined && accountId !== undefined && record.accountId !== accountId)
      throw cellNotFound()
  }

  /**
   * Whose a cell is that the catalog does not know, its backups tell.
   *
   * @throws `cell_not_found` if there is no such cell, or it is another account's
   */
  async checkManifests(
    cellId: string,
    versions: readonly StoredVersion[],
    { accountId, signal }: RestoreOptions,
  ): Promise<void> {
    if (this.#c.cells.record(cellId) !== undefined) return
    const listing = listingOf(versions)
    for (const { version } of versions) {
      const manifest = await this.#index.restorable(version, cellId, listing, { signal })
      if (manifest === undefined) continue
      if (accountId === undefined || manifest.account_id === accountId) return
      break
    }
    throw cellNotFound()
  }

  /** Call once no restore is under way. */
  async close(): Promise<void> {
    await this.#threads.close()
  }

  #exists(cellId: string): boolean {
    return this.#c.cells.record(cellId)?.deletedAt === null
  }

  /** After a restore the next backup is a base. */
  #beginHistory(cellId: string, newest: string | undefined, changed: boolean): void {
    const now = this.#c.clock.now()
    this.#trackers.end(cellId)
    this.#c.progress.save({
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
