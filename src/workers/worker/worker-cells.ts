import type { ManifestHead } from '../../backup/archive/manifest.ts'
import { BackupManager } from '../../backup/backup-manager.ts'
import { BackupProgressTable } from '../../backup/changes/progress-table.ts'
import { openObjectStore } from '../../backup/object-store/open-object-store.ts'
import { systemClock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { StorePaths } from '../../base/store-paths.ts'
import { type CellRecord, cellNotFound } from '../../catalog/cell-registry.ts'
import { LocalState } from '../../catalog/local-state.ts'
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
  readonly #backups: BackupManager | undefined
  readonly #state: LocalState
  readonly #records = new Map<string, CellRecord>()
  readonly #abort = new AbortController()

  constructor(worker: WorkerSettings, log: Log, events: WorkerCellsEvents) {
    const { clock, random } = { clock: systemClock, random: systemClock.random }
    const settings = { ...worker.settings, clock, random, log }
    const paths = new StorePaths(worker.dataDir)
    this.settings = settings
    this.#state = LocalState.join(paths.localState)
    this.local = new LocalCells({
      paths,
      settings,
      state: this.#state,
      record: (id) => this.#records.get(id),
      backups: () => this.#backups,
      // A worker's memory is bounded; the disk that SQLite's temporary files are on is everybody's.
      temporary: 'memory',
      expiryNoted: (id, expiresAt) => this.#noteExpiry(id, expiresAt, events),
    })
    if (worker.objectStore === undefined) return
    const { pool, files } = this.local
    this.#backups = new BackupManager({
      objectStore: openObjectStore(worker.objectStore, { clock, dataDir: paths.root }),
      storeId: worker.storeId,
      storeCreatedAt: worker.storeCreatedAt,
      cells: {
        record: (id) => this.#records.get(id),
        paths: (id) => paths.cell(id),
        pin: (id) => pool.pin(id),
        isOpen: (id) => pool.peek(id) !== undefined,
        isLocal: (id) => pool.peek(id) !== undefined || files.exists(id),
        replace: (id, install) => pool.replace(id, install),
        restored: async (id, manifest) => {
          this.learn(id, await events.restored(id, manifest))
          this.#noteExpiry(id, clock.now(), events)
        },
      },
      progress: new BackupProgressTable(this.#state),
      clock,
      log,
      spoolDirectory: paths.spoolOf(process.pid),
      keep: settings.backups.keep,
      onChange: (id) => events.changed(id),
      onNewTarget: () => {},
      onCatalogLost: () => {},
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
    if (this.#backups === undefined) throw cellNotFound()
    return this.#backups
  }

  async collect(cellId: string, signal: AbortSignal): Promise<void> {
    await this.local.collect(cellId, AbortSignal.any([signal, this.#abort.signal]))
  }

  /** Ends what is under way, and closes every cell. */
  async close(): Promise<void> {
    this.#abort.abort()
    await this.#backups?.stop(this.#abort.signal)
    this.local.pool.closeAll()
    this.#state.close()
  }

  /** Never throws: the entry is put, whatever becomes of the hint. */
  #noteExpiry(cellId: string, expiresAt: number, events: WorkerCellsEvents): void {
    try {
      if (this.local.hints.note(cellId, expiresAt)) events.expiry()
    } catch (err) {
      this.settings.log.warn({ cellId, err }, 'when an entry expires could not be noted')
    }
  }
}
