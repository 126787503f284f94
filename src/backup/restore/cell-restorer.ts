import type { Clock } from '../../base/clock.ts'
import type { Limits } from '../../base/limits.ts'
import { cellNotFound } from '../../catalog/cell-registry.ts'
import type { CellError } from '../../errors.ts'
import { corrupt } from '../archive/backup-errors.ts'
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
import { currentVersion, lastName, markRestored } from './restored-mark.ts'

export interface CellRestorerParts {
  objectStore: ObjectStore
  storeId: string
  index: VersionIndex
  trackers: ChangeTrackers
  progress: BackupProgressTable
  cells: CellAccess
  ownership: CellOwnership
  threads: RestoreThreads
  limits: Limits
  clock: Clock
}

/** Restores cells from their backups. The caller runs no other backup or restore of the same cell meanwhile. */
export class CellRestorer {
  readonly #parts: CellRestorerParts

  constructor(parts: CellRestorerParts) {
    this.#parts = parts
  }

  /** The cell stays unchanged until the new database is proven. Then the switch is atomic (restore-install.ts). */
  async run(cellId: string, options: RestoreOptions): Promise<RestoreResult> {
    const existed = this.#exists(cellId)
    const deletedMeanwhile = () => existed && !this.#exists(cellId)
    try {
      return await this.#run(cellId, options, () => {
        if (deletedMeanwhile()) throw cellNotFound()
      })
    } catch (error) {
      // The cell's folder was removed with it, which can cause any error here.
      throw deletedMeanwhile() ? cellNotFound() : error
    }
  }

  /** @param beforeSwitch called right before the switch; may throw */
  async #run(cellId: string, options: RestoreOptions, beforeSwitch: () => void): Promise<RestoreResult> {
    const { objectStore, clock, storeId, cells, index, ownership, threads, trackers, limits } = this.#parts
    const { signal, onProgress } = options
    const started = clock.monotonic()
    signal?.throwIfAborted()
    ownership.checkRecord(cellId, options.accountId)
    const contents = await index.contents(cellId, { signal })
    const { versions } = contents
    const listing = listingOf(versions)
    await ownership.checkManifests(cellId, versions, options.accountId, { signal })
    const newest = versions[0]?.version
    const current = currentVersion(contents)
    const version = options.version ?? (cells.isLocal(cellId) ? newest : current)
    if (version === undefined) throw backupNotFound()
    const manifest = await index.manifest(version, cellId, listing, { signal })
    // What is asked for by name is tried again: the object may have been mended.
    const damaged = options.version === undefined ? index.knownDamage(manifest, listing) : undefined
    if (damaged !== undefined) throw knownDamage(damaged)
    const paths = cells.paths(cellId)
    if (!cells.isOpen(cellId)) finishRestore(paths)
    const sizeBytes = await buildDatabase(
      objectStore,
      manifest,
      { storeId, cellId, limits },
      paths,
      threads,
      {
        signal,
        onProgress: (bytes, total) => onProgress?.({ phase: 'download', bytes, total }),
        onDamage: (each) => index.proven(each, listing, false),
      },
    )
    for (const each of [...manifest.chain, version]) index.proven(each, listing, true)
    let last = lastName(cellId, contents)
    try {
      signal?.throwIfAborted()
      beforeSwitch()
      if (version !== current) {
        last = await markRestored(objectStore, clock, version, contents, trackers.get(cellId), { signal })
      }
      signal?.throwIfAborted()
      beforeSwitch()
    } catch (error) {
      removeUnfinished(paths)
      throw error
    }
    // Before the switch, so that the next backup is a base even if the process ends right after the switch.
    this.#resetProgress(cellId, last, true)
    cells.replace(cellId, () => installRestored(paths))
    // After a restore to an older version the cell counts as changed: the newest backup does not hold its state.
    this.#resetProgress(cellId, last, version !== newest)
    await cells.restored(cellId, manifest)
    if (version !== newest) trackers.changed.emit(cellId)
    return { version, kind: manifest.kind, sizeBytes, durationMs: clock.monotonic() - started }
  }

  #exists(cellId: string): boolean {
    return this.#parts.cells.record(cellId)?.deletedAt === null
  }

  /** After a restore the next backup is a base. */
  #resetProgress(cellId: string, lastVersion: string | undefined, changed: boolean): void {
    const { clock, trackers, progress } = this.#parts
    const now = clock.now()
    trackers.detach(cellId)
    progress.save({
      cellId,
      chain: null,
      base: null,
      lastVersion: lastVersion ?? null,
      dirty: changed,
      dirtySinceSnapshot: changed,
      lastBackupAt: now,
      lastSnapshotAt: now,
    })
  }
}

function knownDamage(version: string): CellError {
  return corrupt(
    version,
    'an earlier restore found it damaged; restore another version, or name this one to try it again',
  )
}
