import type { ChangeTrackers } from '../../backup/changes/change-trackers.ts'
import { CellCutter, type PinnedCell } from '../../backup/changes/log/cell-cutter.ts'
import { LogCollector } from '../../backup/changes/log/log-collector.ts'
import type { BackupProgressTable } from '../../backup/changes/progress-table.ts'
import { CellInstaller } from '../../backup/restore/install/cell-installer.ts'
import { finishRestore } from '../../backup/restore/install/restore-install.ts'
import type { Clock } from '../../base/clock.ts'
import type { StorePaths } from '../../base/files/store-paths.ts'
import { type CellRecord, cellNotFound } from '../../catalog/cell-registry.ts'
import { logOwner, processIdentity } from '../../catalog/directory-lock.ts'
import { CommitLog } from '../../commit-log/commit-log.ts'
import type { CellDatabase, CellHooks } from '../../engine/cell-database.ts'
import { CellPool } from '../../engine/cell-pool.ts'
import type { CellDatabaseSettings } from '../../engine/cell-settings.ts'
import { SharedCommits } from '../../engine/commits/shared-commits.ts'
import { EngineCounts } from '../../engine/engine-counts.ts'
import type { MemoryBound } from '../../engine/open-memory.ts'
import type { QuarantineState } from '../../engine/quarantine.ts'
import { assertCell } from '../../engine/reserved-schema.ts'
import type { CommitChanges } from '../../engine/watch/commit-recorder.ts'
import { CellError, isCellError } from '../../errors.ts'
import { collectExpired } from '../../kv/expiry/expiry-collector.ts'
import type { ExpiryHints } from '../../kv/expiry/expiry-hints.ts'
import { KV_VIEW, KV_VIEW_NAME } from '../../kv/queries.ts'
import type { Spool } from '../cells/spool-files.ts'
import { databaseSettings, type StoreSettings } from '../settings/settings.ts'
import type { CellsFolder } from '../start/cells-folder.ts'
import type { WatchOptions } from '../watch/cell-change.ts'
import type { ChangeHub } from '../watch/change-hub.ts'
import type { ChangeStream } from '../watch/change-stream.ts'
import { Cell, type CellProvider } from './cell.ts'
import { CELL_SCHEMA, CellFiles } from './cell-files.ts'
import type { ConfirmOptions } from './replication.ts'

export interface LocalCellsParts {
  paths: StorePaths
  spool: Spool
  settings: StoreSettings
  hints: ExpiryHints
  folder: CellsFolder
  /** Undefined without an object store. */
  changes: { trackers: ChangeTrackers; progress: BackupProgressTable } | undefined
  /** Where SQLite's temporary data goes: into memory where that is bounded, otherwise into files. */
  temporary?: CellDatabaseSettings['temporary']
  /** A cell's record in the catalog; undefined for an unknown id. */
  record(id: string): CellRecord | undefined
  /** Called for every expiry that is set. Must not throw. */
  expiryNoted(id: string, expiresAt: number): void
  /** Told of the commits of watched cells. */
  commits: CommitSink
  /** On what its open cells keep in memory; undefined: none. */
  memory?: MemoryBound | undefined
  /** Told whose time begins before work that can take long: see `CellOpener`. */
  working?: ((id: string | undefined) => void) | undefined
  /**
   * Restores a cell whose local data is lost. Undefined in a worker: its node sees `cell_restoring`, and has the cell
   * restored. Undefined without an object store.
   */
  recover: ((id: string) => Promise<void>) | undefined
  /** Resolves once all that a cell has committed is in the object store. Undefined in a worker: its node waits. */
  replicated?: ((id: string, options: ConfirmOptions) => Promise<void>) | undefined
}

/** Who is told what those who watch a cell are to hear. Must not throw. In a worker it is the node, where cells are watched. */
export interface CommitSink extends Partial<Pick<ChangeHub, 'watch' | 'watched'>> {
  /** A commit is on disk. */
  committed(id: string, changes: CommitChanges): void
  /** Commits may be on disk of which nothing was told. */
  interrupted(id: string): void
}

/** What the archiver does to cells of this process. */
export interface ArchivedCells {
  cutter: CellCutter
  installer: CellInstaller
  logs: LogCollector
}

/** The cells whose files this process opens: the pool of open cells, what backups do to them, and their expired entries. */
export class LocalCells implements CellProvider {
  readonly settings: StoreSettings
  readonly pool: CellPool
  readonly commits: SharedCommits
  readonly files: CellFiles
  /** Undefined without an object store. */
  readonly archived: ArchivedCells | undefined
  /** What all of its cells have done. */
  readonly counts = new EngineCounts()
  /** Of the cells that are opened from here on: see `CellDatabaseSettings`. */
  leavesLongLogs = false
  readonly #parts: LocalCellsParts
  #refusal: CellError | undefined
  /** Cells whose commits are told to the sink. */
  readonly #watched = new Set<string>()

  constructor(parts: LocalCellsParts) {
    const { paths, settings, changes } = parts
    this.#parts = parts
    this.settings = settings
    this.files = new CellFiles(paths)
    const commitLog = new CommitLog({
      directory: paths.commitLogs,
      owner: logOwner(processIdentity(process.pid)),
      fileBytesMax: settings.commitLogBytes,
      clock: settings.clock,
      log: settings.log,
    })
    this.commits = new SharedCommits(commitLog)
    this.pool = this.#newPool()
    parts.commits.watched?.listen((id, isWatched) => this.setWatched(id, isWatched))
    if (changes === undefined) return
    const { trackers, progress } = changes
    const installer = new CellInstaller({
      trackers,
      progress,
      clock: settings.clock,
      paths: (id) => paths.cell(id),
      isOpen: (id) => this.#isOpen(id),
      replace: (id, install) => this.pool.replace(id, install),
    })
    const cutter = new CellCutter(trackers, settings.clock, (id) => this.pin(id))
    const accountOf = (id: string) => parts.record(id)?.accountId ?? ''
    const logs = new LogCollector(trackers, accountOf, settings.clock, settings.log)
    this.archived = { cutter, installer, logs }
  }

  get spool(): Spool {
    return this.#parts.spool
  }

  /** @throws `cell_not_found` for a cell that is unknown or deleted */
  record(id: string): CellRecord {
    const record = this.#parts.record(id)
    if (record === undefined || record.deletedAt !== null) throw cellNotFound()
    return record
  }

  /** A handle. The cell is opened at its first use. */
  handle(id: string): Cell {
    return new Cell(id, this)
  }

  /**
   * Opens the cell if necessary. If its local data is lost, its restore starts.
   *
   * @throws `cell_not_found`, `cell_restoring`, `no_backup`, `cell_quarantined`, `store_closed`, `taken_over`
   */
  open(id: string): CellDatabase {
    if (this.#refusal !== undefined) throw this.#refusal
    try {
      return this.pool.open(id)
    } catch (error) {
      if (isCellError(error, 'cell_restoring')) this.#recover(id)
      throw error
    }
  }

  watch(id: string, options?: WatchOptions): ChangeStream {
    this.record(id)
    const { commits } = this.#parts
    if (commits.watch === undefined) throw new Error('Cells are watched at their node.')
    return commits.watch(id, options)
  }

  /** Tells the sink of the cell's commits from now on, or no longer; whether or not the cell is open. */
  setWatched(id: string, isWatched: boolean): void {
    if (isWatched === this.#watched.has(id)) return
    if (isWatched) this.#watched.add(id)
    else this.#watched.delete(id)
    const database = this.pool.peek(id)
    if (database?.open) this.#record(id, database)
  }

  #record(id: string, database: CellDatabase): void {
    const isWatched = this.#watched.has(id)
    database.record(isWatched ? (changes) => this.#parts.commits.committed(id, changes) : undefined)
  }

  expiryNoted(id: string, expiresAt: number): void {
    this.#parts.expiryNoted(id, expiresAt)
  }

  isRemote(id: string): boolean {
    const { replicated, record } = this.#parts
    if (replicated === undefined) return false
    // Of a deleted cell, too: what was committed before is still answered.
    return (record(id)?.durability ?? this.settings.durability) === 'remote'
  }

  async replicated(id: string, options: ConfirmOptions): Promise<void> {
    this.record(id)
    await this.#parts.replicated?.(id, options)
  }

  sizeBytes(id: string): number {
    this.record(id)
    return this.files.sizeBytes(id)
  }

  quarantine(id: string): QuarantineState | undefined {
    this.record(id)
    return this.pool.quarantine.state(id)
  }

  async ensureLocal(id: string): Promise<void> {
    this.record(id)
    if (this.isLocal(id)) return
    if (this.#parts.recover === undefined) throw noBackup()
    await this.#parts.recover(id)
  }

  /** Whether the cell's data is on this machine. @throws `cells_missing`: then nobody can say whether it is lost */
  isLocal(id: string): boolean {
    if (this.#isOpen(id) || this.files.exists(id)) return true
    this.#parts.folder.assertHere()
    return false
  }

  /** Collects the expired entries of a cell. The cell is open or closed afterwards as it was before. */
  async collect(id: string, signal: AbortSignal): Promise<void> {
    const { hints, settings } = this.#parts
    const wasOpen = this.pool.peek(id) !== undefined
    const { database, unpin } = this.pin(id)
    const { usedAt } = database
    try {
      const slice = <T>(run: () => T) => this.pool.work(id, run)
      const next = await collectExpired(database, settings.clock, signal, slice)
      if (next === null) hints.remove(id)
      else if (next !== undefined) hints.set(id, next)
    } finally {
      unpin()
      if (!wasOpen && !database.busy && database.usedAt === usedAt) this.pool.close(id)
    }
  }

  /** Finds what a cell has not shipped. The cell is open or closed afterwards as it was before. */
  lookAtLog(id: string): void {
    const { changes } = this.#parts
    if (changes === undefined) return
    try {
      // Only SQLite can say how much of a log that was left counts.
      if (!this.#isOpen(id) && this.files.hasLog(id)) {
        const { database, unpin } = this.pin(id)
        unpin()
        if (!database.busy) this.pool.close(id)
      }
    } catch (err) {
      // The segments can be shipped, and its history ends with them.
      this.settings.log.warn({ cellId: id, err }, 'could not open a cell that has something to ship')
    }
    changes.trackers.noteUnshipped(id)
  }

  /** Closes a deleted cell, so that its files can be removed. */
  release(id: string): void {
    this.pool.closeForRemoval(id)
  }

  /** Closes every cell. None is opened after this: each use is refused with the error. */
  closeFor(refusal: CellError): void {
    this.#refusal ??= refusal
    this.pool.closeAll()
  }

  /** Closes every cell at once, and then the commit log. */
  async close(): Promise<void> {
    this.pool.closeAll()
    this.#parts.changes?.trackers.letGoOfAll()
    await this.commits.log.close()
  }

  /** As {@link open}, and keeps the cell open until `unpin`. */
  pin(id: string): PinnedCell {
    // What follows is a task of the cell, such as the cut of a backup.
    this.pool.workThisTurn(id)
    this.open(id)
    return this.pool.pin(id)
  }

  #isOpen(id: string): boolean {
    return this.pool.peek(id) !== undefined
  }

  #newPool(): CellPool {
    const { paths, settings, hints, changes, temporary, working, memory } = this.#parts
    const { clock, openCellsMax } = settings
    const opener = {
      paths: (id: string) => paths.cell(id),
      settings: (id: string) => ({
        ...databaseSettings(settings, this.record(id).durability),
        temporary,
        leavesLongLogs: this.leavesLongLogs,
        ownerFunctions: settings.ownerFunctions,
        storeDirectory: paths.root,
        shared: { commits: this.commits, cellId: id },
        counts: this.counts,
      }),
      hooks: (id: string) =>
        cellHooks(id, {
          clock,
          trackers: changes?.trackers,
          opened: (database) => {
            if (this.#watched.has(id)) this.#record(id, database)
          },
          failed: (err) => this.#failed(id, err),
          closed: () => hints.forget(id),
        }),
      beforeOpen: (id: string, cellPaths: ReturnType<StorePaths['cell']>) =>
        this.archived === undefined ? finishRestore(cellPaths) : this.archived.installer.beforeOpen(id),
      missing: (id: string) => this.#missing(id),
      owner: (id: string) => this.#parts.record(id)?.accountId ?? '',
      working,
    }
    return new CellPool({ cellsMax: openCellsMax, memory }, opener, settings)
  }

  #failed(id: string, err: unknown): void {
    const isQuarantined = isCellError(err, 'cell_quarantined')
    if (isQuarantined && this.#watched.has(id)) this.#parts.commits.interrupted(id)
    const reason = isQuarantined ? err.details.reason : undefined
    const what =
      reason === 'io_error'
        ? 'disk error: the cell is quarantined until a check proves its files whole'
        : isQuarantined
          ? 'the cell is damaged: it is quarantined until it is restored'
          : 'upkeep of the cell failed'
    this.settings.log.error({ cellId: id, err }, what)
  }

  /** The error for a cell without a file: its data is lost, unless the cell is unknown or deleted. */
  #missing(id: string): CellError {
    const record = this.#parts.record(id)
    if (record === undefined || record.deletedAt !== null) return cellNotFound()
    try {
      this.#parts.folder.assertHere()
    } catch (error) {
      if (isCellError(error)) return error
      throw error
    }
    return this.#parts.changes === undefined ? noBackup() : restoring()
  }

  #recover(id: string): void {
    this.#parts
      .recover?.(id)
      .catch((err) =>
        this.settings.log.error({ cellId: id, err }, 'could not restore a cell whose data is lost'),
      )
  }
}

export function noBackup(): CellError {
  return new CellError(
    'no_backup',
    "The cell's local data is lost, and the store has no object store to restore it from.",
  )
}

function restoring(): CellError {
  return new CellError(
    'cell_restoring',
    "The cell's data is being restored from its newest backup. Try again, or await cell.ensureLocal() first.",
    { retryAfterMs: 1_000 },
  )
}

interface CellHookParts {
  clock: Clock
  /** Undefined without an object store. */
  trackers: ChangeTrackers | undefined
  opened(database: CellDatabase): void
  failed(error: unknown): void
  closed(): void
}

/** Connects the parts above the engine to one open cell. */
function cellHooks(id: string, parts: CellHookParts): CellHooks {
  const { clock, trackers, opened, failed, closed } = parts
  const withFunction = new WeakSet<object>()
  return {
    opened: (database) => {
      assertCell(database)
      trackers?.acquire(id)
      try {
        trackers?.get(id).hooks.opened?.(database)
        // It is a change like any other, so that the tracker has to be there.
        CELL_SCHEMA.upgrade(database)
        opened(database)
      } catch (error) {
        // The cell is not open, so that nothing calls `closed`.
        trackers?.release(id)
        throw error
      }
    },
    changed: (database) => trackers?.get(id).hooks.changed?.(database),
    beforeCheckpoint: (database, wal) => trackers?.get(id).hooks.beforeCheckpoint?.(database, wal),
    afterCheckpoint: (database) => trackers?.get(id).hooks.afterCheckpoint?.(database),
    beforePrepare: (database, sql) => {
      if (!KV_VIEW_NAME.test(sql)) return false
      if (!withFunction.has(database)) database.defineFunction('_cell_now', () => clock.now())
      withFunction.add(database)
      database.exec(KV_VIEW)
      return true
    },
    failed,
    closed: () => {
      trackers?.get(id).hooks.closed?.()
      trackers?.release(id)
      closed()
    },
  }
}
