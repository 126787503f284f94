import { KeyedQueue } from '../base/keyed-queue.ts'
import { isCellId } from '../base/store-paths.ts'
import { cellNotFound } from '../catalog/cell-registry.ts'
import { CellError, isCellError } from '../errors.ts'
import { toBackupError } from './archive/backup-errors.ts'
import { type CellIdentity, identityOfCatalog, identityOfCell } from './archive/cell-identity.ts'
import type { ChangeTracker } from './changes/change-tracker.ts'
import { ChangeTrackers } from './changes/change-trackers.ts'
import type { BackupProgress } from './changes/progress-table.ts'
import { BackupRunner } from './create/backup-runner.ts'
import { CellRestorer } from './restore/cell-restorer.ts'
import type { BackupComponents } from './versions/backup-components.ts'
import { type BackupList, type BackupListOptions, BackupPage } from './versions/backup-page.ts'
import type {
  BackupKind,
  BackupOptions,
  BackupResult,
  RestoreOptions,
  RestoreResult,
} from './versions/backup-types.ts'
import { checkVersion } from './versions/object-keys.ts'
import { type BackupInfo, listingOf, VersionIndex } from './versions/version-index.ts'

/** Of the catalog's own backups only the newest are kept, and what those rest on. */
const CATALOG_KEEP = 3

/**
 * Backups of cells in the object store: snapshots, incrementals, and restores from them alone. Available as
 * `store.backups`.
 */
export class BackupManager {
  readonly #c: BackupComponents
  readonly #index: VersionIndex
  readonly #trackers: ChangeTrackers
  readonly #queues: KeyedQueue
  readonly #runner: BackupRunner
  readonly #restorer: CellRestorer
  readonly #restoring = new Set<string>()
  readonly #recoveries = new Map<string, Promise<void>>()
  readonly #abort = new AbortController()
  #stopping = false

  /** @internal */
  constructor(components: BackupComponents) {
    const { objectStore, storeId, cells, progress, clock, onChange } = components
    this.#c = components
    this.#index = new VersionIndex(objectStore, storeId)
    this.#trackers = new ChangeTrackers(cells, progress, clock, onChange)
    this.#queues = new KeyedQueue((cellId) => this.#releaseUnlessUsed(cellId))
    this.#runner = new BackupRunner(components, this.#index, this.#trackers, this.#abort.signal)
    this.#restorer = new CellRestorer(components, this.#index, this.#trackers)
  }

  /**
   * Stores the whole cell as one object. Writers go on meanwhile.
   *
   * @throws `cell_not_found`, `busy`, `disk_full`, `object_store_unavailable`, `object_store_error`,
   * `object_store_mismatch`, `store_closed`
   */
  snapshot(cellId: string, options: BackupOptions = {}): Promise<BackupResult> {
    return this.#backup(cellId, 'snapshot', options)
  }

  /**
   * Stores what has changed since the newest backup; the whole cell if there is none to go on from (`baseVersion: null`).
   *
   * @throws as {@link snapshot}
   */
  incremental(cellId: string, options: BackupOptions = {}): Promise<BackupResult> {
    return this.#backup(cellId, 'incremental', options)
  }

  /**
   * Restores a cell to a version, also a deleted one and one with no local data. Until the new database is complete and
   * proven the old one serves; then they are switched as a unit. A failure changes nothing.
   *
   * @throws `invalid_version`, `backup_not_found`, `backup_corrupt`, `restore_in_progress`; as {@link snapshot}
   */
  async restore(cellId: string, options: RestoreOptions = {}): Promise<RestoreResult> {
    this.#assertRunning()
    this.#assertCell(cellId)
    if (options.version !== undefined) checkVersion(options.version, cellId)
    this.#restorer.checkRecord(cellId, options.accountId)
    if (this.#restoring.has(cellId)) {
      throw new CellError('restore_in_progress', 'The cell is being restored already. Wait for that to end.')
    }
    this.#restoring.add(cellId)
    try {
      return await this.#inTurn(cellId, options.signal, (signal) =>
        this.#restorer.run(cellId, { ...options, signal }),
      )
    } finally {
      this.#restoring.delete(cellId)
    }
  }

  /**
   * The versions there are, newest first.
   *
   * @throws `cell_not_found` for a cell that neither the catalog nor the object store knows; `invalid_request`
   */
  async list(cellId: string, options: BackupListOptions = {}): Promise<BackupList> {
    this.#assertCell(cellId)
    this.#restorer.checkRecord(cellId, options.accountId)
    const part = new BackupPage(cellId, options)
    const { signal } = options
    const all = await this.#index.versions(cellId, { signal })
    await this.#restorer.checkManifests(cellId, all, options)
    const { page, nextCursor } = part.of(all)
    return { backups: await this.#index.describe(cellId, page, listingOf(all), { signal }), nextCursor }
  }

  /** The newest backup, or undefined. One listing, and at most one read. */
  async latest(cellId: string, signal?: AbortSignal): Promise<BackupInfo | undefined> {
    this.#assertCell(cellId)
    const all = await this.#index.versions(cellId, { signal })
    const [info] = await this.#index.describe(cellId, all.slice(0, 1), listingOf(all), { signal })
    return info
  }

  /**
   * Makes sure that a cell's data is here: one whose local files are gone comes back from its newest backup, and never
   * shows an empty database (invariant 14). Calls that come meanwhile share the one restore.
   *
   * @throws `no_backup` if there is none; as {@link restore}
   */
  async ensureLocal(cellId: string): Promise<void> {
    if (this.#c.cells.isLocal(cellId)) return
    this.#assertRunning()
    let recovery = this.#recoveries.get(cellId)
    if (recovery === undefined) {
      recovery = this.#recover(cellId).finally(() => this.#recoveries.delete(cellId))
      this.#recoveries.set(cellId, recovery)
    }
    await recovery
  }

  /**
   * Whether the cell's next database is being built beside its files, or is about to be: it is no left-over of a crash.
   *
   * @internal
   */
  isRestoring(cellId: string): boolean {
    return this.#restoring.has(cellId) || this.#recoveries.has(cellId)
  }

  /**
   * Backs up the catalog.
   *
   * @internal
   */
  async backupCatalog(signal?: AbortSignal): Promise<void> {
    const { storeId, storeCreatedAt } = this.#c
    const identity = identityOfCatalog(storeId, storeCreatedAt)
    await this.#inTurn(storeId, signal, (either) =>
      this.#runner.run(identity, 'incremental', CATALOG_KEEP, { signal: either }),
    )
  }

  /**
   * Cells that changed since their newest backup, for the schedule.
   *
   * @internal
   */
  changed(): BackupProgress[] {
    return this.#c.progress.changed().filter(({ cellId }) => this.#exists(cellId))
  }

  /**
   * The same of one cell: undefined if it is unchanged, or gone.
   *
   * @internal
   */
  changeOf(cellId: string): BackupProgress | undefined {
    const progress = this.#c.progress.find(cellId)
    return (progress.dirty || progress.dirtySinceSnapshot) && this.#exists(cellId) ? progress : undefined
  }

  /**
   * The tracker of a cell, made when it is first asked for.
   *
   * @internal
   */
  tracker(cellId: string): ChangeTracker {
    return this.#trackers.get(cellId)
  }

  /**
   * Called when a cell was closed: what its tracker knows is in the local state.
   *
   * @internal
   */
  closed(cellId: string): void {
    if (!this.#queues.has(cellId)) this.#trackers.release(cellId)
  }

  /**
   * Called when a cell was deleted.
   *
   * @internal
   */
  forgetLocal(cellId: string): void {
    this.#trackers.end(cellId)
    this.#c.progress.remove(cellId)
  }

  /**
   * Takes no more calls but for the catalog's backup, waits for what is under way, and gives that up at the deadline.
   *
   * @internal
   */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#stopping = true
    const abort = () => this.#abort.abort(closedError())
    if (deadline.aborted) abort()
    else deadline.addEventListener('abort', abort, { once: true })
    await Promise.all([this.#queues.idle(), this.#runner.stop()])
    deadline.removeEventListener('abort', abort)
    await this.#restorer.close()
  }

  async #backup(cellId: string, kind: BackupKind, options: BackupOptions): Promise<BackupResult> {
    this.#assertRunning()
    const identity = this.#identityOf(cellId)
    await this.ensureLocal(cellId)
    const result = await this.#inTurn(cellId, options.signal, (signal) =>
      this.#runner.run(identity, kind, this.#c.keep, { ...options, signal }),
    ).catch((error) => {
      throw this.#exists(cellId) ? error : cellNotFound()
    })
    await this.ensureCatalogStored(options.signal)
    return result
  }

  /**
   * Whoever restores a cell from nothing needs the account and the key: they are in the catalog. That its newest backup
   * was stored is not enough: an object store can have been emptied, or set back to an older copy.
   *
   * @internal
   */
  async ensureCatalogStored(signal?: AbortSignal): Promise<void> {
    const { storeId, objectStore, catalogStored, onCatalogLost } = this.#c
    if (catalogStored === undefined) return
    await catalogStored()
    const newest = this.#trackers.get(storeId).progress.chain?.versions.at(-1)
    if (newest !== undefined && (await objectStore.head(newest, { signal })) !== undefined) return
    onCatalogLost()
    await catalogStored()
  }

  async #recover(cellId: string): Promise<void> {
    await this.#inTurn(cellId, undefined, async (signal) => {
      // A restore that was asked for may have come first.
      if (this.#c.cells.isLocal(cellId)) return
      await this.#restorer.run(cellId, { signal })
    }).catch((error) => {
      if (!isCellError(error, 'backup_not_found')) throw error
      throw new CellError(
        'no_backup',
        "The cell's local data is lost, and it has no backup to come back from.",
      )
    })
  }

  /** One backup or restore of a cell at a time. It ends with the caller's signal, and when the store gives up. */
  async #inTurn<T>(
    cellId: string,
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const either = signal === undefined ? this.#abort.signal : AbortSignal.any([signal, this.#abort.signal])
    return this.#queues
      .run(cellId, () => work(either))
      .catch((error) => {
        throw toBackupError(error, either)
      })
  }

  #identityOf(cellId: string): CellIdentity {
    const record = this.#c.cells.record(cellId)
    if (record === undefined || record.deletedAt !== null) throw cellNotFound()
    return identityOfCell(this.#c.storeId, record)
  }

  #exists(cellId: string): boolean {
    return this.#c.cells.record(cellId)?.deletedAt === null
  }

  #releaseUnlessUsed(cellId: string): void {
    if (!this.#c.cells.isOpen(cellId)) this.#trackers.release(cellId)
  }

  /** The catalog is no cell to anybody, and neither is what is no id. */
  #assertCell(cellId: string): void {
    if (cellId === this.#c.storeId || !isCellId(cellId)) throw cellNotFound()
  }

  #assertRunning(): void {
    if (this.#stopping) throw closedError()
  }
}

function closedError(): CellError {
  return new CellError('store_closed', 'The store was closed.')
}
