import type { Timer } from '../base/clock.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { LocalState } from '../catalog/local-state.ts'
import { toBackupError } from './archive/backup-errors.ts'
import { identityOfCatalog } from './archive/cell-identity.ts'
import type { BackupDestination } from './backup-destination.ts'

/** A change is in the object store within a second; those that come together share a backup. */
const GATHER_MS = 200
/** Of the catalog's own backups only the newest are kept, and those that they rest on. */
const VERSIONS_KEPT = 3
const RETRY_MS_MIN = 1_000
const RETRY_MS_MAX = 30_000

const STORED_KEY = 'catalog_changes_stored'
/** Not even the catalog as it was made. */
const NOTHING = -1

/** Keeps the catalog's newest state in the object store, so that a node with nothing but the bucket knows its keys and cells. */
export class CatalogBackup {
  readonly #catalog: Catalog
  readonly #state: LocalState
  readonly #destination: BackupDestination
  readonly #abort = new AbortController()
  #timer: Timer | undefined
  #running: Promise<void> | undefined
  #retryMs = RETRY_MS_MIN
  /** Changes of the catalog that are in the object store. */
  #stored: number

  constructor(catalog: Catalog, state: LocalState, destination: BackupDestination) {
    this.#catalog = catalog
    this.#state = state
    this.#destination = destination
    const tracker = destination.trackers.get(catalog.storeId)
    destination.trackers.acquire(catalog.storeId)
    catalog.track(tracker.hooks)
    catalog.changed.listen(() => this.changed())
    destination.moved.listen(() => this.startAnew())
    const stored = Number(state.get(STORED_KEY) ?? NOTHING)
    // A catalog that has fewer changes than were stored is another one.
    this.#stored = stored <= catalog.changes ? stored : NOTHING
  }

  /** Catches up with what was changed while nothing could be stored. */
  start(): void {
    if (this.#behind()) this.changed()
  }

  changed(): void {
    if (this.#timer === undefined && this.#running === undefined) this.#schedule(GATHER_MS)
  }

  /** Backups go to another place than before, where nothing is stored yet. */
  startAnew(): void {
    this.#remember(NOTHING)
    this.changed()
  }

  /**
   * Resolves once every change so far is in the object store.
   *
   * @throws what the backup throws
   */
  async stored(): Promise<void> {
    const wanted = this.#catalog.changes
    while (this.#stored < wanted) {
      await this.#running?.catch(() => {})
      if (this.#stored < wanted) await this.#run()
    }
  }

  /**
   * Resolves once the catalog that is in the object store has every change so far. A restore of a cell from nothing needs
   * the account and the key that the catalog names. That the newest backup of the catalog was stored once is not enough:
   * an object store can have been emptied, or set back to an older copy.
   *
   * @throws what the backup throws
   */
  async ensureStored(signal?: AbortSignal): Promise<void> {
    await this.stored()
    const { objectStore, trackers } = this.#destination
    const newest = trackers.get(this.#catalog.storeId).progress.chain?.versions.at(-1)
    if (newest !== undefined && (await objectStore.head(newest, { signal })) !== undefined) return
    this.startAnew()
    await this.stored()
  }

  /** Makes a last attempt within the deadline, and no more after it. */
  async stop(deadline: AbortSignal): Promise<void> {
    const abort = () => this.#abort.abort()
    if (deadline.aborted) abort()
    else deadline.addEventListener('abort', abort, { once: true })
    try {
      await this.stored()
    } catch (error) {
      this.#destination.log.warn(
        { err: error },
        'the newest changes of the catalog are not in the object store; they will be after the next start',
      )
    } finally {
      deadline.removeEventListener('abort', abort)
      abort()
      this.#timer?.cancel()
      this.#timer = undefined
    }
  }

  #behind(): boolean {
    return this.#stored < this.#catalog.changes
  }

  #schedule(delayMs: number): void {
    if (this.#abort.signal.aborted) return
    this.#timer?.cancel()
    this.#timer = this.#destination.clock.setTimer(() => {
      this.#timer = undefined
      // Whoever waited for it may have run it already. A failure has been reported, and is tried again.
      if (this.#behind()) this.#run().catch(() => {})
    }, delayMs)
  }

  #run(): Promise<void> {
    this.#running ??= this.#backupOnce().finally(() => {
      this.#running = undefined
      if (this.#behind() && this.#timer === undefined) this.#schedule(GATHER_MS)
    })
    return this.#running
  }

  async #backupOnce(): Promise<void> {
    const { changes } = this.#catalog
    try {
      await this.#backup(this.#abort.signal)
    } catch (error) {
      this.#destination.log.warn(
        { err: error, retryMs: this.#retryMs },
        'the catalog could not be backed up; trying again',
      )
      this.#schedule(this.#retryMs)
      this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS_MAX)
      throw error
    }
    this.#retryMs = RETRY_MS_MIN
    this.#remember(changes)
  }

  async #backup(signal: AbortSignal): Promise<void> {
    const { database, storeId, createdAt } = this.#catalog
    const pin = () => ({ database, unpin: () => {} })
    try {
      const identity = identityOfCatalog(storeId, createdAt)
      await this.#destination.runner.run(identity, 'incremental', VERSIONS_KEPT, pin, { signal })
    } catch (error) {
      throw toBackupError(error, signal)
    }
  }

  #remember(changes: number): void {
    this.#stored = changes
    this.#state.set(STORED_KEY, String(changes))
  }
}
