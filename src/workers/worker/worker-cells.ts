import type { ManifestHead } from '../../backup/archive/manifest.ts'
import { BackupDestination } from '../../backup/backup-destination.ts'
import type { BackupManager } from '../../backup/backup-manager.ts'
import { BackupProgressTable } from '../../backup/changes/progress-table.ts'
import { openObjectStore } from '../../backup/object-store/open-object-store.ts'
import { systemClock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { StorePaths } from '../../base/store-paths.ts'
import { type CellRecord, cellNotFound } from '../../catalog/cell-registry.ts'
import { LocalState } from '../../catalog/local-state.ts'
import { ExpiryHints } from '../../kv/expiry-hints.ts'
import { LocalCells } from '../../store/local-cells.ts'
import type { StoreSettings } from '../../store/settings.ts'
import type { WorkerSettings } from '../protocol/protocol.ts'

export interface WorkerCellsEvents {
  changed(cellId: string): void
  /** An entry expires earlier than was known. */
  expiry(): void
  /** A cell was restored; resolves once the catalog knows it again, with what it says of it then. */
  restored(cellId: string, manifest: ManifestHead): Promise<CellRecord | undefined>
}

/**
 * The cells of one worker: what a store does with cells that it opens itself, without the catalog. What that says of a cell
 * comes with the requests.
 */
export class WorkerCells {
  readonly local: LocalCells
  readonly settings: StoreSettings
  readonly #state: LocalState
  readonly #hints: ExpiryHints
  readonly #destination: BackupDestination | undefined
  readonly #records = new Map<string, CellRecord>()
  readonly #abort = new AbortController()

  constructor(worker: WorkerSettings, log: Log, events: WorkerCellsEvents) {
    const settings = { ...worker.settings, clock: systemClock, random: systemClock.random, log }
    const paths = new StorePaths(worker.dataDir)
    this.settings = settings
    this.#state = LocalState.join(paths.localState)
    this.#hints = new ExpiryHints(this.#state)
    this.#destination = this.#openDestination(worker, paths)
    this.#destination?.trackers.changed.listen((id) => events.changed(id))
    this.local = new LocalCells({
      paths,
      settings,
      hints: this.#hints,
      destination: this.#destination,
      catalogBackup: undefined,
      record: (id) => this.#records.get(id),
      // A worker's memory is bounded; the disk with SQLite's temporary files is shared by all.
      temporary: 'memory',
      expiryNoted: (id, expiresAt) => this.#noteExpiry(id, expiresAt, events),
      restored: async (id, manifest) => {
        this.learn(id, await events.restored(id, manifest))
        this.#noteExpiry(id, settings.clock.now(), events)
      },
    })
  }

  /** Takes note of what the catalog says of a cell. */
  learn(cellId: string, record: CellRecord | undefined): void {
    if (record === undefined) this.#records.delete(cellId)
    else this.#records.set(cellId, record)
  }

  /** Drops what the catalog said of cells that are not in use: whoever asks for one says it again. */
  forget(cellIds: readonly string[], isInUse: (cellId: string) => boolean): void {
    for (const cellId of cellIds) {
      if (this.local.pool.peek(cellId) === undefined && !isInUse(cellId)) this.#records.delete(cellId)
    }
  }

  /** @throws `no_backup` where there is no object store: the node has refused the call already */
  get backups(): BackupManager {
    if (this.local.backups === undefined) throw cellNotFound()
    return this.local.backups
  }

  async collect(cellId: string, signal: AbortSignal): Promise<void> {
    await this.local.collect(cellId, AbortSignal.any([signal, this.#abort.signal]))
  }

  /** Ends what is under way, and closes every cell. */
  async close(): Promise<void> {
    this.#abort.abort()
    await this.local.close(this.#abort.signal)
    await this.#destination?.close()
    this.#state.close()
  }

  /** Ends all use of a deleted cell, and forgets what the local state knows of it. */
  release(cellId: string): void {
    this.local.release(cellId)
    try {
      this.#destination?.forget(cellId)
      this.#hints.remove(cellId)
    } catch (err) {
      this.settings.log.warn({ cellId, err }, 'the local state of a deleted cell could not be removed')
    }
  }

  #openDestination(worker: WorkerSettings, paths: StorePaths): BackupDestination | undefined {
    if (worker.objectStore === undefined) return undefined
    const { clock, log } = this.settings
    return new BackupDestination({
      objectStore: openObjectStore(worker.objectStore, { clock, dataDir: paths.root }),
      storeId: worker.storeId,
      paths: (id) => paths.cell(id),
      progress: new BackupProgressTable(this.#state),
      spoolDirectory: paths.spoolOf(process.pid),
      clock,
      log,
    })
  }

  /** Never throws: the entry is put, whatever becomes of the hint. */
  #noteExpiry(cellId: string, expiresAt: number, events: WorkerCellsEvents): void {
    try {
      if (this.#hints.note(cellId, expiresAt)) events.expiry()
    } catch (err) {
      this.settings.log.warn({ cellId, err }, 'when an entry expires could not be noted')
    }
  }
}
