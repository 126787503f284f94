import type { Limits } from '../base/limits.ts'
import { cellNotFound } from '../catalog/cell-registry.ts'
import { CellError, isCellError } from '../errors.ts'
import { type CellIdentity, identityOfCell } from './archive/cell-identity.ts'
import type { BackupDestination } from './backup-destination.ts'
import { BackupListing } from './backup-listing.ts'
import type { BackupQueue } from './backup-queue.ts'
import type { CatalogBackup } from './catalog-backup.ts'
import type { CellAccess } from './changes/cell-access.ts'
import { CellRestorer } from './restore/cell-restorer.ts'
import { reportSetBack } from './restore/report-set-back.ts'
import type { RestoreThreads } from './restore/restore-threads.ts'
import type { RestoresInProgress } from './restore/restores-in-progress.ts'
import type { Verification, VerifyOptions, VerifyResult } from './verify/verification.ts'
import type { BackupList, BackupListOptions } from './versions/backup-page.ts'
import type {
  BackupKind,
  BackupResult,
  MakeBackupOptions,
  RestoreOptions,
  RestoreResult,
} from './versions/backup-types.ts'
import { CellOwnership } from './versions/cell-ownership.ts'
import { checkVersion } from './versions/object-keys.ts'
import type { BackupInfo } from './versions/version-index.ts'

export interface BackupManagerParts {
  destination: BackupDestination
  cells: CellAccess
  queue: BackupQueue
  restores: RestoresInProgress
  threads: RestoreThreads
  /** How large a restored cell may be. */
  limits: Limits
  /** Undefined in a worker, which has no catalog. */
  catalogBackup: CatalogBackup | undefined
  /** Undefined in a worker. */
  verification: Verification | undefined
}

/** Backups of cells in the object store, and restores from them. Available as `store.backups`. */
export class BackupManager {
  readonly #parts: BackupManagerParts
  readonly #restorer: CellRestorer
  readonly #ownership: CellOwnership
  readonly #listing: BackupListing

  /** @internal Use `store.backups`. */
  constructor(parts: BackupManagerParts) {
    const { destination, cells, threads, limits } = parts
    this.#parts = parts
    this.#ownership = new CellOwnership(destination.index, (cellId) => cells.record(cellId))
    const { objectStore, storeId, index, trackers, progress, clock } = destination
    const ownership = this.#ownership
    const restored = { objectStore, storeId, index, trackers, progress, clock }
    this.#restorer = new CellRestorer({ ...restored, cells, ownership, threads, limits })
    this.#listing = new BackupListing(destination, this.#ownership)
  }

  /**
   * Stores the whole cell as one object. Writers are not blocked.
   *
   * @throws `cell_not_found`, `busy`, `disk_full`, `object_store_unavailable`, `object_store_error`,
   * `object_store_mismatch`, `store_closed`
   */
  snapshot(cellId: string, options: MakeBackupOptions = {}): Promise<BackupResult> {
    return this.#backup(cellId, 'snapshot', options)
  }

  /**
   * Stores the changes since the newest backup; or the whole cell, with `baseVersion: null`, if no backup can be continued.
   *
   * @throws as {@link snapshot}
   */
  incremental(cellId: string, options: MakeBackupOptions = {}): Promise<BackupResult> {
    return this.#backup(cellId, 'incremental', options)
  }

  /**
   * Restores a cell to a version, also a deleted cell and one without local data. The old database serves until the new
   * one is complete and proven; then the switch is atomic. A failure changes nothing.
   *
   * @throws `invalid_version`, `backup_not_found`, `backup_corrupt`, `restore_in_progress`, `cell_full`; as {@link snapshot}
   */
  async restore(cellId: string, options: RestoreOptions = {}): Promise<RestoreResult> {
    const { queue, restores } = this.#parts
    queue.assertRunning()
    this.#listing.assertCell(cellId)
    if (options.version !== undefined) checkVersion(options.version, cellId)
    this.#ownership.checkRecord(cellId, options.accountId)
    return await restores.request(cellId, () =>
      queue.run(cellId, options, (signal) => this.#restorer.run(cellId, { ...options, signal })),
    )
  }

  /**
   * Proves that a version can be restored, by restoring it into a folder that is removed again: every checksum, a complete
   * chain in order, and SQLite's check. Counts the rows of each table. The newest version that was proven last always stays.
   *
   * @param cellId a cell's, or the store's own id for the catalog
   * @throws `backup_corrupt` with the object and the member, `backup_not_found`, `invalid_version`; as {@link restore}
   */
  async verify(cellId: string, options: VerifyOptions = {}): Promise<VerifyResult> {
    const { queue, verification, destination } = this.#parts
    queue.assertRunning()
    if (cellId !== destination.storeId) this.#listing.assertCell(cellId)
    if (verification === undefined) throw objectStoreNotConfigured()
    return await verification.verify(cellId, options)
  }

  /**
   * The versions of a cell, newest first.
   *
   * @throws `cell_not_found` if neither the catalog nor the object store has the cell; `invalid_request`
   */
  list(cellId: string, options: BackupListOptions = {}): Promise<BackupList> {
    return this.#listing.list(cellId, options)
  }

  /** The newest backup that can be restored, or undefined. @throws `cell_not_found` */
  latest(cellId: string, signal?: AbortSignal): Promise<BackupInfo | undefined> {
    return this.#listing.latest(cellId, signal)
  }

  /**
   * Makes sure that a cell's data is on this machine. If its local files are lost, the newest backup is restored; the
   * cell never appears empty (invariant 14). Parallel calls share one restore.
   *
   * @throws `no_backup` if the cell has none; as {@link restore}
   */
  async ensureLocal(cellId: string): Promise<void> {
    const { cells, queue, restores } = this.#parts
    if (cells.isLocal(cellId)) return
    queue.assertRunning()
    await restores.recover(cellId, () => this.#recover(cellId))
  }

  async #backup(cellId: string, kind: BackupKind, options: MakeBackupOptions): Promise<BackupResult> {
    const { destination, cells, queue, catalogBackup } = this.#parts
    const request = { kind, origin: options.origin ?? 'owner' }
    queue.assertRunning()
    const identity = this.#identityOf(cellId)
    await this.ensureLocal(cellId)
    const result = await queue
      .run(cellId, options, (signal) =>
        destination.runner.run(identity, request, () => cells.pin(cellId), { ...options, signal }),
      )
      .catch((error) => {
        throw this.#exists(cellId) ? error : cellNotFound()
      })
    await catalogBackup?.ensureStored(options.signal)
    return result
  }

  async #recover(cellId: string): Promise<void> {
    const { cells, destination, queue } = this.#parts
    await queue
      .run(cellId, {}, async (signal) => {
        // A requested restore may have run before.
        if (cells.isLocal(cellId)) return
        const before = destination.progress.find(cellId)
        const { version } = await this.#restorer.run(cellId, { signal })
        reportSetBack(destination.log, before, version)
      })
      .catch((error) => {
        if (!isCellError(error, 'backup_not_found')) throw error
        throw new CellError('no_backup', "The cell's local data is lost, and the cell has no backup.")
      })
  }

  #identityOf(cellId: string): CellIdentity {
    const { cells, destination } = this.#parts
    const record = cells.record(cellId)
    if (record === undefined || record.deletedAt !== null) throw cellNotFound()
    return identityOfCell(destination.storeId, record)
  }

  #exists(cellId: string): boolean {
    return this.#parts.cells.record(cellId)?.deletedAt === null
  }
}

export function objectStoreNotConfigured(): CellError {
  return new CellError(
    'object_store_not_configured',
    'The store has no object store. Open it with the objectStore option.',
  )
}
