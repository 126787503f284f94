import { ChangeTrackers, type HistoryReset, resetHistories } from '../../backup/changes/change-trackers.ts'
import { type CutCall, runCut } from '../../backup/changes/log/cell-cutter.ts'
import type { CollectedLogs, CollectLimits } from '../../backup/changes/log/cell-log.ts'
import { BackupProgressTable } from '../../backup/changes/progress-table.ts'
import type { InstallOptions } from '../../backup/restore/install/cell-installer.ts'
import { systemClock } from '../../base/clock.ts'
import { StorePaths } from '../../base/files/store-paths.ts'
import type { Log } from '../../base/log.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import { LocalState } from '../../catalog/local-state.ts'
import { ExpiryHints } from '../../kv/expiry/expiry-hints.ts'
import { copyAgain, copyDatabase } from '../../store/cells/cell-export.ts'
import { removeSpoolFile, Spool } from '../../store/cells/spool-files.ts'
import { type CommitSink, LocalCells, type LocalCellsParts } from '../../store/open/local-cells.ts'
import type { StoreSettings } from '../../store/settings/settings.ts'
import { CellsFolder } from '../../store/start/cells-folder.ts'
import type { WorkerSettings, WorkerTaskResults } from '../protocol/protocol.ts'

export interface WorkerCellsEvents extends CommitSink {
  changed(cellId: string): void
  /** Whose time begins; undefined: nobody's. */
  working(cellId: string | undefined): void
  /** A cell was given away that has something to ship. */
  unshipped(cellId: string): void
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
  readonly #changes: LocalCellsParts['changes']
  readonly #records = new Map<string, CellRecord>()
  /** Cells whose records the node has us forget, and that still need them. */
  readonly #toForget = new Set<string>()
  readonly #abort = new AbortController()

  constructor(worker: WorkerSettings, log: Log, events: WorkerCellsEvents) {
    const settings = { ...worker.settings, clock: systemClock, random: systemClock.random, log }
    const paths = new StorePaths(worker.dataDir)
    this.settings = settings
    this.#events = events
    this.#state = LocalState.join(paths.localState)
    this.#hints = new ExpiryHints(this.#state)
    if (worker.hasObjectStore) {
      const progress = new BackupProgressTable(this.#state)
      const isShipped = settings.backups.maxLagMs !== undefined
      const trackers = new ChangeTrackers(
        (id) => paths.cell(id),
        progress,
        settings.clock,
        () => isShipped,
      )
      this.#changes = { trackers, progress }
    }
    this.#changes?.trackers.changed.listen((id) => events.changed(id))
    this.local = new LocalCells({
      paths,
      spool: new Spool(paths.spool),
      settings,
      hints: this.#hints,
      folder: new CellsFolder(paths.cells, this.#state),
      changes: this.#changes,
      record: (id) => this.#records.get(id),
      // A worker's memory is bounded, but temporary files would share the disk with all cells.
      temporary: 'memory',
      memory: worker.memory,
      commits: events,
      working: (id) => events.working(id),
      expiryNoted: (id, expiresAt) => this.#noteExpiry(id, expiresAt),
      recover: undefined,
    })
    this.setBuilding(worker.building)
  }

  setBuilding(cellIds: readonly string[]): void {
    if (this.local.archived !== undefined) this.local.archived.installer.building = cellIds
  }

  beginRestore(cellId: string): WorkerTaskResults['begin-restore'] {
    const installer = this.local.archived?.installer
    installer?.begin(cellId)
    return { isLocal: this.local.isLocal(cellId), last: installer?.lastVersion(cellId) ?? null }
  }

  /** Switches a cell to its restored database: its content is another now, with other expiries. */
  install(cellId: string, options: InstallOptions): void {
    this.local.archived?.installer.install(cellId, options)
    this.#noteExpiry(cellId, this.settings.clock.now())
  }

  /** Keeps a cell's record. */
  setRecord(cellId: string, record: CellRecord): void {
    this.#records.set(cellId, record)
    this.#toForget.delete(cellId)
  }

  /**
   * Drops the records of cells that are not in use, nor wait to be shipped in the turn of their account; those of the others the
   * next time. They come again with the next request.
   */
  forget(cellIds: readonly string[], isInUse: (cellId: string) => boolean): void {
    if (cellIds.length === 0) return
    for (const cellId of cellIds) this.#toForget.add(cellId)
    for (const cellId of this.#toForget) {
      const isUnshipped = this.#changes?.trackers.isUnshipped(cellId) === true
      if (isUnshipped || this.local.pool.peek(cellId) !== undefined || isInUse(cellId)) continue
      this.#records.delete(cellId)
      this.#toForget.delete(cellId)
    }
  }

  /** A step of a cell's backup. */
  cut(cellId: string, call: CutCall): unknown {
    const { archived } = this.local
    return archived && runCut(archived.cutter, cellId, call)
  }

  async collectLogs(limits: CollectLimits): Promise<CollectedLogs> {
    if (this.local.archived === undefined) throw new Error('Without an object store, nothing is shipped.')
    return await this.local.archived.logs.collect(limits)
  }

  resetHistories(reset: HistoryReset): void {
    if (this.#changes !== undefined) resetHistories(this.#changes.trackers, reset)
  }

  async collectExpired(cellId: string, signal: AbortSignal): Promise<void> {
    await this.local.collect(cellId, AbortSignal.any([signal, this.#abort.signal]))
  }

  /** Copies a cell into a file, which an earlier worker may have begun. @returns bytes of the file */
  async export(cellId: string, file: string, signal: AbortSignal): Promise<number> {
    const options = { signal: AbortSignal.any([signal, this.#abort.signal]) }
    return await copyAgain(async () => {
      const { database, unpin } = this.local.pin(cellId)
      try {
        await removeSpoolFile(file)
        return await copyDatabase(database, file, options)
      } finally {
        unpin()
      }
    })
  }

  /** Aborts running collections, and closes every cell. */
  async close(): Promise<void> {
    this.#abort.abort()
    await this.local.close()
    this.#state.close()
  }

  /**
   * Closes a cell, so that another worker can open it. A backup of it that is under way goes on there.
   *
   * @returns false if the cell must stay here: it is in use, or kept closed because of a fault that this worker watches
   */
  closeForMove(cellId: string): boolean {
    const { pool, archived } = this.local
    pool.peek(cellId)?.holds.endAll('the cell moves to another worker')
    if (pool.peek(cellId)?.busy === true || pool.quarantine.state(cellId) !== undefined) return false
    archived?.cutter.end(cellId)
    pool.close(cellId)
    if (this.#changes?.trackers.letGo(cellId)) this.#events.unshipped(cellId)
    return true
  }

  /** Closes a deleted cell, and removes it from the local state. */
  release(cellId: string): void {
    this.local.release(cellId)
    try {
      this.#state.together(() => {
        this.#changes?.trackers.detach(cellId)
        this.#changes?.progress.remove(cellId)
        this.#hints.remove(cellId)
      })
    } catch (err) {
      this.settings.log.warn({ cellId, err }, 'could not remove the local state of a deleted cell')
    }
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
