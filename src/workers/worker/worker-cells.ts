import { BackupDestination } from '../../backup/archiver/backup-destination.ts'
import { BackupProgressTable } from '../../backup/changes/progress-table.ts'
import { openObjectStore } from '../../backup/object-store/open-object-store.ts'
import type { InstallOptions } from '../../backup/restore/cell-installer.ts'
import type { BackupKind, BackupOptions } from '../../backup/versions/backup-types.ts'
import { systemClock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { StorePaths } from '../../base/store-paths.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import { LocalState } from '../../catalog/local-state.ts'
import { ExpiryHints } from '../../kv/expiry-hints.ts'
import { CellsInProcess } from '../../store/cells-in-process.ts'
import { LocalCells } from '../../store/local-cells.ts'
import type { StoreSettings } from '../../store/settings.ts'
import type { WorkerSettings } from '../protocol/protocol.ts'

export interface WorkerCellsEvents {
  changed(cellId: string): void
  /** An entry expires earlier than the local state said. */
  expiry(): void
}

/** The cells of one worker. A worker has no catalog: the cells' records come with the requests. */
export class WorkerCells {
  readonly local: LocalCells
  readonly settings: StoreSettings
  readonly #events: WorkerCellsEvents
  readonly #state: LocalState
  readonly #hints: ExpiryHints
  readonly #destination: BackupDestination | undefined
  readonly #records = new Map<string, CellRecord>()
  readonly #abort = new AbortController()

  constructor(worker: WorkerSettings, log: Log, events: WorkerCellsEvents) {
    const settings = { ...worker.settings, clock: systemClock, random: systemClock.random, log }
    const paths = new StorePaths(worker.dataDir)
    this.settings = settings
    this.#events = events
    this.#state = LocalState.join(paths.localState)
    this.#hints = new ExpiryHints(this.#state)
    this.#destination = this.#openDestination(worker, paths)
    this.#destination?.trackers.changed.listen((id) => events.changed(id))
    this.local = new LocalCells({
      paths,
      settings,
      hints: this.#hints,
      destination: this.#destination,
      record: (id) => this.#records.get(id),
      // A worker's memory is bounded, but temporary files would share the disk with all cells.
      temporary: 'memory',
      expiryNoted: (id, expiresAt) => this.#noteExpiry(id, expiresAt),
      recover: undefined,
    })
    this.setBuilding(worker.building)
  }

  setBuilding(cellIds: readonly string[]): void {
    if (this.local.installer !== undefined) this.local.installer.building = cellIds
  }

  /** Switches a cell to its restored database: its content is another now, with other expiries. */
  install(cellId: string, options: InstallOptions): void {
    this.local.installer?.install(cellId, options)
    this.#noteExpiry(cellId, this.settings.clock.now())
  }

  /** Keeps a cell's record. */
  setRecord(cellId: string, record: CellRecord | undefined): void {
    if (record === undefined) this.#records.delete(cellId)
    else this.#records.set(cellId, record)
  }

  /** Drops the records of cells that are not in use. They come again with the next request. */
  forget(cellIds: readonly string[], isInUse: (cellId: string) => boolean): void {
    for (const cellId of cellIds) {
      if (this.local.pool.peek(cellId) === undefined && !isInUse(cellId)) this.#records.delete(cellId)
    }
  }

  /** @returns also what the node's index needs to describe the version without reading it */
  async backup(cellId: string, kind: BackupKind, options: BackupOptions) {
    const destination = this.#destination as BackupDestination
    const { local } = this
    const cells = new CellsInProcess({ local, destination, record: () => undefined, restored: () => {} })
    const result = await cells.backup(cellId, kind, options)
    return { result, head: this.#destination?.index.known(result.version)?.head }
  }

  async collect(cellId: string, signal: AbortSignal): Promise<void> {
    await this.local.collect(cellId, AbortSignal.any([signal, this.#abort.signal]))
  }

  /** Aborts running collections, and closes every cell. */
  async close(): Promise<void> {
    this.#abort.abort()
    this.local.close()
    await this.#destination?.close()
    this.#state.close()
  }

  /** Closes a deleted cell, and removes it from the local state. */
  release(cellId: string): void {
    this.local.release(cellId)
    try {
      this.#destination?.forget(cellId)
      this.#hints.remove(cellId)
    } catch (err) {
      this.settings.log.warn({ cellId, err }, 'could not remove the local state of a deleted cell')
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

  /** Never throws: the entry is stored already, and the hint must not fail it. */
  #noteExpiry(cellId: string, expiresAt: number): void {
    try {
      if (this.#hints.note(cellId, expiresAt)) this.#events.expiry()
    } catch (err) {
      this.settings.log.warn({ cellId, err }, 'could not note when an entry expires; it is collected later')
    }
  }
}
