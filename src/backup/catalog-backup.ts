import { backOffMs } from '../base/async/back-off.ts'
import { unlessAborted } from '../base/async/unless-aborted.ts'
import type { Timer } from '../base/clock.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { LocalState } from '../catalog/local-state.ts'
import { isCellError } from '../errors.ts'
import { toBackupError } from './archive/backup-errors.ts'
import { identityOfCatalog } from './archive/manifest.ts'
import type { BackupDestination } from './archiver/backup-destination.ts'
import { knownVersions, OpenCellCuts } from './changes/log/cell-cutter.ts'
import type { BackupSource } from './create/backup-runner.ts'
import { OpenDatabaseReader } from './create/database-reader.ts'

/** Changes within this time share a backup. */
const GATHER_MS = 200
/**
 * Under many changes a backup begins so long after the one before: each cut holds up the event loop for some fsyncs. A change is in
 * the object store within a second all the same. Who waits for that has it begun at once.
 */
const EVERY_MS = 600
/** A short chain: a start without a catalog reads all of it. */
const CATALOG_CHAIN_MAX = 16
/** A look at the object store counts for the scheduled backups of so many milliseconds: a round has dozens a second. */
const LOOK_EVERY_MS = 1_000
const BACK_OFF = { minMs: 1_000, maxMs: 30_000 }

const STORED_KEY = 'catalog_changes_stored'
/** No version is stored: 0 changes would mean the new, empty catalog. */
const NOTHING = -1

/** Keeps the newest catalog in the object store, so that a node with nothing but the bucket finds its keys and cells. */
export class CatalogBackup {
  readonly #catalog: Catalog
  readonly #state: LocalState
  readonly #destination: BackupDestination
  readonly #abort = new AbortController()
  #timer: Timer | undefined
  #running: Promise<void> | undefined
  #looking: Promise<void> | undefined
  /** The scheduled backups that run at the same time share a look. */
  #backgroundLook: Promise<void> | undefined
  #failures = 0
  /** When the last one began, by the monotonic clock. */
  #begunAt = Number.NEGATIVE_INFINITY
  /** When the newest version was last seen in the object store, by the monotonic clock. */
  #seenAt = Number.NEGATIVE_INFINITY
  /** Number of the catalog's changes that are in the object store. */
  #stored: number
  /** Number of its changes when this process began. */
  readonly #atStart: number
  /** For each cell that has come since, the number of changes with which the catalog had it; not of those that are stored. */
  readonly #came = new Map<string, number>()

  constructor(catalog: Catalog, state: LocalState, destination: BackupDestination) {
    this.#catalog = catalog
    this.#state = state
    this.#destination = destination
    const tracker = destination.trackers.get(catalog.storeId)
    destination.trackers.acquire(catalog.storeId)
    catalog.track(tracker.hooks)
    catalog.changed.listen(() => this.changed())
    destination.moved.listen(() => this.setNothingStored())
    const stored = Number(state.get(STORED_KEY) ?? NOTHING)
    // If the catalog has fewer changes than were stored, it is another catalog.
    this.#atStart = catalog.changes
    this.#stored = stored <= this.#atStart ? stored : NOTHING
  }

  /** The catalog has a new cell, or has a deleted one back. */
  cellCame(cellId: string): void {
    this.#came.set(cellId, this.#catalog.changes)
  }

  /** Whether the catalog in the object store has the cell. Without its record nobody finds what is stored of a cell. */
  hasStored(cellId: string): boolean {
    return this.#stored >= (this.#came.get(cellId) ?? this.#atStart)
  }

  /** Backs up the changes that an earlier process could not store. Otherwise looks whether this catalog is the newest. */
  start(): void {
    if (this.#behind()) this.changed()
    else this.#looking = this.#lookForNewer()
  }

  changed(): void {
    if (this.#timer === undefined && this.#running === undefined) this.#gather()
  }

  /**
   * Backups go to another place than before, where nothing is stored yet.
   *
   * @throws `disk_full`: the next start may not know of it, this process does
   */
  setNothingStored(): void {
    this.#seenAt = Number.NEGATIVE_INFINITY
    this.#stored = NOTHING
    this.changed()
    this.#noteStored()
  }

  /**
   * Resolves once every change so far is in the object store.
   *
   * @throws what the backup throws
   */
  async stored(): Promise<void> {
    const target = this.#catalog.changes
    while (this.#stored < target) {
      await this.#running?.catch(() => {})
      if (this.#stored < target) await this.#run()
    }
  }

  /**
   * Resolves once the catalog in the object store has every change so far. A restore of a cell on a new machine needs the
   * account and the key from the catalog. It does not suffice that the catalog's newest backup was stored once: somebody
   * may have emptied the object store, or set it back to an older copy.
   *
   * @param isBackground nobody waits for the backup: a look that is a second old will do, or one that is under way
   * @param signal ends this wait; the backup continues for other callers
   * @throws what the backup throws; `busy`, or the `CellError` that is the signal's reason
   */
  async ensureStored(isBackground: boolean, signal?: AbortSignal): Promise<void> {
    await unlessAborted(this.#storeIfMissing(isBackground, signal), signal).catch((error) => {
      throw signal?.aborted ? toBackupError(error, signal) : error
    })
  }

  /** Tries a last backup within the deadline. No other starts afterwards. */
  async stop(deadline: AbortSignal): Promise<void> {
    const abort = () => this.#abort.abort()
    if (deadline.aborted) abort()
    else deadline.addEventListener('abort', abort, { once: true })
    try {
      await this.stored()
    } catch (error) {
      this.#destination.log.warn(
        { err: error },
        'the newest changes of the catalog are not in the object store; the next start stores them',
      )
    } finally {
      deadline.removeEventListener('abort', abort)
      abort()
      await this.#looking
      this.#timer?.cancel()
      this.#timer = undefined
    }
  }

  async #storeIfMissing(isBackground: boolean, signal?: AbortSignal): Promise<void> {
    await this.stored()
    if (!isBackground) return this.#lookOrStore(signal)
    if (this.#destination.clock.monotonic() - this.#seenAt < LOOK_EVERY_MS) return
    this.#backgroundLook ??= this.#lookOrStore(this.#abort.signal)
      .catch((error) => {
        throw toBackupError(error, this.#abort.signal)
      })
      .finally(() => {
        this.#backgroundLook = undefined
      })
    return this.#backgroundLook
  }

  async #lookOrStore(signal?: AbortSignal): Promise<void> {
    const { objectStore, trackers, clock } = this.#destination
    const now = clock.monotonic()
    const newest = trackers.get(this.#catalog.storeId).progress.chain?.versions.at(-1)
    if (newest !== undefined && (await objectStore.head(newest, { signal })) !== undefined) {
      this.#seenAt = now
      return
    }
    this.setNothingStored()
    await this.stored()
  }

  /** An old data directory may have been put back: then a revoked key is valid again, and somebody must hear of it. */
  async #lookForNewer(): Promise<void> {
    const { runner, log } = this.#destination
    try {
      if (await runner.endOldHistory(this.#catalog.storeId, this.#source(), this.#abort.signal))
        this.setNothingStored()
    } catch (err) {
      if (!this.#abort.signal.aborted) log.warn({ err }, 'could not look for newer backups of the catalog')
    }
  }

  #behind(): boolean {
    return this.#stored < this.#catalog.changes
  }

  #gather(): void {
    const sinceMs = this.#destination.clock.monotonic() - this.#begunAt
    this.#schedule(Math.max(GATHER_MS, EVERY_MS - sinceMs))
  }

  #schedule(delayMs: number): void {
    if (this.#abort.signal.aborted) return
    this.#timer?.cancel()
    this.#timer = this.#destination.clock.setTimer(() => {
      this.#timer = undefined
      // A caller of `stored()` may have run it already. A failure is logged and retried by the run itself.
      if (this.#behind()) this.#run().catch(() => {})
    }, delayMs)
  }

  #run(): Promise<void> {
    this.#running ??= this.#backupOnce().finally(() => {
      this.#running = undefined
      if (this.#behind() && this.#timer === undefined) this.#gather()
    })
    return this.#running
  }

  async #backupOnce(): Promise<void> {
    const { storeId, changes } = this.#catalog
    const { runner, log } = this.#destination
    const { signal } = this.#abort
    this.#begunAt = this.#destination.clock.monotonic()
    try {
      const request = {
        kind: 'incremental',
        origin: 'schedule',
        chainVersionsMax: CATALOG_CHAIN_MAX,
      } as const
      await runner.run(storeId, this.#source(), { ...request, signal })
    } catch (cause) {
      const err = toBackupError(cause, signal)
      const isDamaged = isCellError(err, 'backup_corrupt')
      const retryMs = backOffMs(this.#failures++, BACK_OFF)
      log[isDamaged ? 'error' : 'warn'](
        { err, retryMs },
        isDamaged
          ? "the store's catalog is damaged, so it is not backed up, and its earlier backups stay; stop the node, remove catalog.db, and start it: the catalog comes back from its newest backup"
          : 'backup of the catalog failed; trying again',
      )
      this.#schedule(retryMs)
      throw err
    }
    this.#failures = 0
    this.#stored = changes
    for (const [cellId, came] of this.#came) if (came <= changes) this.#came.delete(cellId)
    try {
      this.#noteStored()
    } catch (err) {
      // It is stored. The next start may store it once more.
      log.warn({ err }, 'could not note in the directory that the catalog is stored')
    }
  }

  #source(): BackupSource {
    const { database, storeId, createdAt } = this.#catalog
    const { trackers, clock } = this.#destination
    const identity = identityOfCatalog(storeId, createdAt)
    return {
      begin: async () => ({ identity, sizeBytes: 0, ...knownVersions(trackers.get(storeId)) }),
      dropChain: async () => trackers.get(storeId).dropChain(),
      claimVersion: async (version) => trackers.get(storeId).claimVersion(version),
      openReader: () => new OpenDatabaseReader(database),
      cuts: new OpenCellCuts(database, trackers.get(storeId), clock),
    }
  }

  #noteStored(): void {
    try {
      this.#state.set(STORED_KEY, String(this.#stored))
    } catch (error) {
      throw toBackupError(error)
    }
  }
}
