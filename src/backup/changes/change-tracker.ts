import { randomUUID } from 'node:crypto'
import type { Clock } from '../../base/clock.ts'
import type { CellPaths } from '../../base/files/store-paths.ts'
import type { CellDatabase, CellHooks } from '../../engine/cell-database.ts'
import { CellError } from '../../errors.ts'
import { extendChain, nextSegments } from './backup-chain.ts'
import type { BackupProgress } from './backup-progress.ts'
import { type BaseInProgress, chainOf, isNeededBy, noSuchBase, segmentsOfCopy } from './base-in-progress.ts'
import { fingerprintOf, sameFingerprint } from './file-fingerprint.ts'
import type { BaseCut, Cut, IncrementalCut, StoredBackup } from './log/cell-cuts.ts'
import { CellHistory, type Unshipped } from './log/cell-history.ts'
import type { ShippedPlace } from './log/cell-log.ts'
import { KeptLogs } from './log/kept-logs.ts'
import { LogKeeper, Origin } from './log/log-keeper.ts'
import type { Segment, Segments } from './log/segments.ts'
import type { BackupProgressTable } from './progress-table.ts'

export interface TrackerParts {
  paths: CellPaths
  table: BackupProgressTable
  clock: Clock
  /** Whether the cell's commits are shipped; otherwise it has no history. */
  isShipped: boolean
  /** Called at the first change since the newest backup. */
  onChange(): void
  /** Called when the cell may have something to ship. */
  onUnshipped(): void
}

/** What a cut knows of its files. */
export type PendingCut = Pick<Cut, 'segments' | 'log'>

/**
 * Tracks the changes of one cell: notes that it changed, and keeps each write-ahead log as a segment before a checkpoint
 * overwrites it. So an incremental costs as much as the changes, also after the cell was closed or the node restarted.
 *
 *     clean  ── change ──▶ dirty
 *     either ── cut ─────▶ backup under way ──┬── stored, no change since the cut ───▶ clean
 *                          (saves as dirty)   └── stored, changed since; or failed ──▶ dirty
 *
 *     no chain ── base stored ──▶ chain ── incremental stored ──▶ chain, one version longer
 *        ▲  ▲                     │   └─── base stored ─────────▶ chain of the new base
 *        │  └── dropChain() ──────┘
 *        └───── broken base stored
 *
 * That segments and WAL hold every change since the base is proven, not assumed (docs/decisions/0004). Only checkpoints
 * write the database file. The proof holds while the file, before each of our checkpoints, is as our last one left it,
 * and no other program commits during one. Otherwise dropChain() makes the next backup a base, and a base in progress
 * breaks (base-in-progress.ts). So does the cell's history, which shipping needs (cell-history.ts).
 */
export class ChangeTracker {
  readonly progress: BackupProgress
  readonly history: CellHistory
  readonly #parts: TrackerParts
  readonly #logs: KeptLogs
  readonly #origin: Origin
  readonly #keeper: LogKeeper
  /** A backup was cut here but is not stored: the cell is saved as changed until then. */
  #underWay = false
  #detached = false
  /** Whether the saved row has a history to which a version belongs. */
  #isSavedWithHistory = false
  /** The line of time in the saved row. */
  #savedLine: number

  constructor(cellId: string, parts: TrackerParts) {
    const { table, paths, clock, isShipped, onUnshipped } = parts
    this.#parts = parts
    const progress = table.find(cellId)
    this.progress = progress
    this.#savedLine = progress.line
    const logs = new KeptLogs(paths.segments, progress)
    this.#logs = logs
    const origin = new Origin(paths.segments)
    this.#origin = origin
    if (!isShipped) progress.history = null
    this.history = new CellHistory({ progress, paths, logs, clock, onUnshipped })
    const { history } = this
    this.#keeper = new LogKeeper({
      progress,
      paths,
      logs,
      history,
      origin,
      dropChain: () => this.dropChain(),
      save: () => this.#save(),
    })
    this.#isSavedWithHistory = history.shipped !== undefined
  }

  get segments(): Segments {
    return this.#logs.segments
  }

  /** Whether there are changes that no stored version has. */
  get isChanged(): boolean {
    return this.progress.dirty || this.#underWay
  }

  readonly hooks: CellHooks = {
    opened: (database) => this.#opened(database),
    changed: () => this.#changed(),
    beforeCheckpoint: (database) => this.#keeper.beforeCheckpoint(database),
    afterCheckpoint: (database) => this.#keeper.afterCheckpoint(database),
    closed: () => this.#closed(),
  }

  /**
   * Begins the first version of a new cell, with which its history begins: the database as it was made. What was committed since is in
   * its logs, and is shipped.
   *
   * @returns where it is; undefined if the cell is not new, or the file has changed
   */
  beginOrigin(): { id: string; path: string; size: number } | undefined {
    const { ofNew } = this.history
    if (ofNew?.origin === undefined) return undefined
    const { size } = ofNew.origin
    if (this.#origin.exists()) return { id: `kept-${ofNew.id}`, path: this.#origin.path, size }
    const { database } = this.#parts.paths
    const now = fingerprintOf(database)
    if (now !== undefined && sameFingerprint(now, ofNew.origin))
      return { id: `live-${ofNew.id}`, path: database, size }
    this.dropHistory()
    return undefined
  }

  /** @returns undefined if `id` is not that of {@link beginOrigin} @throws `busy` if the file was changed while it was read */
  endOrigin(
    database: CellDatabase,
    id: string,
    version: string,
  ): (PendingCut & { at: number; repeats: string | undefined }) | undefined {
    const { ofNew } = this.history
    if (ofNew?.origin === undefined || !id.endsWith(ofNew.id)) return undefined
    const now = fingerprintOf(this.#parts.paths.database)
    const isLive = now !== undefined && sameFingerprint(now, ofNew.origin)
    if (id.startsWith('live-') && (!isLive || this.#origin.exists())) throw noSuchBase()
    const isChanged = this.#logs.newest > 0 || database.checkpoints.frames() > 0
    this.#underWay = true
    database.dirty = isChanged
    this.progress.dirty = isChanged
    this.progress.lastVersion = version
    this.#save()
    const { id: history, shippedAt: at, isEmpty } = ofNew
    const repeats = isEmpty === true ? version : undefined
    return { segments: [], log: { history, sequence: 0, frames: 0, at }, at, repeats }
  }

  /** Begins a base: from here on every log is kept, so that the database file can be copied while it is written. */
  beginBase(database: CellDatabase): BaseInProgress {
    // So that few frames are both in the file and in a log. It may fail to finish.
    database.checkpoints.run('TRUNCATE')
    const file = fingerprintOf(this.#parts.paths.database)
    if (file === undefined) throw noSuchBase()
    // Before the base counts: without a chain, all segments are left over from a crash, and have its numbers.
    this.progress.base = null
    this.#removeUnneeded()
    // The first log of the copy must be whole.
    this.#logs.seal()
    const { newest } = this.#logs
    const base = { id: randomUUID(), from: newest, newest, through: null, database: file, broken: null }
    this.progress.base = base
    this.#save()
    return base
  }

  /** Cuts the base at the end of its copy. @throws `busy` if the copy and the logs do not hold everything */
  endBase(database: CellDatabase, id: string, version: string): PendingCut {
    const { base } = this.progress
    if (base?.id !== id) throw noSuchBase()
    this.#keepLog(database)
    const segments = segmentsOfCopy(base, this.#logs.list(), fingerprintOf(this.#parts.paths.database))
    base.through = base.newest
    return { segments, log: this.cut(database, version) }
  }

  /** Cuts an incremental. @returns undefined if a new base is due */
  cutIncremental(
    database: CellDatabase,
    version: string,
    versionsMax: number,
  ): (PendingCut & Pick<IncrementalCut, 'chain'>) | undefined {
    if (this.progress.chain === null) return undefined
    this.#keepLog(database)
    const { chain } = this.progress
    if (chain === null || chain.versions.length >= versionsMax) return undefined
    const segments = nextSegments(chain, this.#logs.list(), fingerprintOf(this.#parts.paths.database))
    if (segments === undefined) return undefined
    return { chain: [...chain.versions], segments, log: this.cut(database, version) }
  }

  /** The cut of a backup: it holds all changes up to here, and no later ones. {@link failed} undoes it. */
  cut(database: CellDatabase, version: string): Cut['log'] {
    this.#logs.seal()
    const position = this.#parts.isShipped ? this.history.cut() : undefined
    this.#underWay = true
    database.dirty = false
    this.progress.dirty = false
    // Before it is stored: its time is used up, even if the upload fails.
    this.progress.lastVersion = version
    this.#save()
    return position
  }

  /**
   * Uses up the time of a version: a mark has it, or a version that another state of the store made. What that has shipped
   * must not be joined with what follows here.
   */
  claimVersion(version: string): void {
    this.progress.lastVersion = version
    this.dropHistory()
  }

  stored({ version, kind, cut }: StoredBackup): void {
    if (cut.kind === 'base') this.#baseStored(version, cut)
    else if (this.progress.chain !== null) extendChain(this.progress.chain, version, cut)
    // Of a cell that nobody has changed, its first version is a snapshot, too.
    if (kind === 'snapshot' || (this.#isOfNew(cut) && !this.progress.dirty)) {
      this.progress.lastSnapshotAt = cut.cutAt
      this.progress.dirtySinceSnapshot = this.progress.dirty
    }
    this.progress.lastBackupAt = cut.cutAt
    this.progress.storedTo = cut.cutAt
    this.progress.changedAt = this.progress.dirty ? cut.cutAt : null
    this.#underWay = false
    this.history.stored(cut.log)
    this.#removeUnneeded()
    this.#save()
  }

  failed(): void {
    this.#underWay = false
    this.history.failed()
    this.progress.dirty = true
    this.progress.base = null
    this.#removeUnneeded()
    this.#save()
  }

  /** Ends the chain: the next backup is a base. */
  dropChain(): void {
    this.progress.chain = null
    this.#removeUnneeded()
    this.#save()
  }

  /** Ends the history: the next version begins a new one. */
  dropHistory(): void {
    this.history.end()
    this.#removeUnneeded()
    this.#save()
  }

  /** What the cell has not shipped yet: see {@link CellHistory.collect}. */
  collect(room: number): Unshipped | undefined {
    const hadHistory = this.progress.history !== null
    const unshipped = this.history.collect(room)
    if (hadHistory && this.progress.history === null) {
      // What ended it may be in no version.
      this.#noteChange()
      this.dropHistory()
    }
    return unshipped
  }

  /** Everything before the place is in the object store. {@link saveShipped} and {@link removeShipped} have to follow. @returns whether it is news */
  ship(place: ShippedPlace): boolean {
    return this.history.ship(place)
  }

  /** Until then a process that takes the cell over ships it once more. */
  saveShipped(): void {
    this.#save()
  }

  removeShipped(): void {
    this.#removeUnneeded()
  }

  /** This process is about to forget what it knows of the cell. */
  letGo(): void {
    if (this.progress.history !== null || this.progress.line > this.#savedLine)
      this.#save({ withTimes: true })
  }

  /** Backups go to another place, where nothing is stored yet. The table has new rows already. */
  setNothingStored(): void {
    const { line } = this.history
    const row = this.#parts.table.find(this.progress.cellId)
    Object.assign(this.progress, row, { line: Math.max(row.line, line) })
    this.history.end()
    this.#noteChange()
    this.dropChain()
    this.#parts.onChange()
  }

  /** The cell was deleted or restored: this tracker no longer writes. */
  detach(): void {
    this.#detached = true
  }

  /** Sets the cell as changed after {@link differsFromFiles} has found a change. A worker may have the cell open. */
  setChanged(): void {
    if (this.progress.dirty) return
    this.#noteChange()
    if (!this.#detached) this.#parts.table.setChanged(this.progress.cellId, this.#parts.clock.now())
    this.#parts.onChange()
  }

  /** Whether the files can hold changes that the row does not show: after a crash. */
  differsFromFiles(): boolean {
    const exists = fingerprintOf(this.#parts.paths.database) !== undefined
    return exists && (this.progress.chain === null || this.#hasLogOrOtherFile())
  }

  #opened(database: CellDatabase): void {
    // A process was killed between a commit and the save of its row, or another program has written.
    if (!this.progress.dirty && this.#hasLogOrOtherFile()) this.#changed()
    // Of a restored cell the first change counts, too: until then its next version only repeats what it was restored to.
    if (this.progress.dirty && this.progress.repeats === null) database.dirty = true
    if (!this.#parts.isShipped) return
    this.history.opened(database)
    if (this.progress.chain !== null || this.progress.history !== null) this.#save()
  }

  /** With its next opening the cell begins from its row: the times of commits that nobody has shipped must be in it. */
  #closed(): void {
    this.history.closed()
    if (this.progress.line > this.#savedLine) this.#save()
  }

  #hasLogOrOtherFile(): boolean {
    const { chain, history } = this.progress
    const wal = fingerprintOf(this.#parts.paths.wal)
    if (wal !== undefined && wal.size > 0) return true
    const now = fingerprintOf(this.#parts.paths.database)
    const known = chain?.database ?? history?.database
    return known !== undefined && now !== undefined && !sameFingerprint(now, known)
  }

  #changed(): void {
    this.#noteChange()
    this.#save()
    this.#parts.onChange()
  }

  #noteChange(): void {
    this.progress.repeats = null
    this.progress.dirty = true
    this.progress.dirtySinceSnapshot = true
    // Before the first backup, due times count from the first change.
    this.progress.lastBackupAt ??= this.#parts.clock.now()
    this.progress.lastSnapshotAt ??= this.#parts.clock.now()
    this.progress.changedAt ??= this.#parts.clock.now()
  }

  #isOfNew(cut: StoredBackup['cut']): boolean {
    const { history } = this.progress
    return cut.kind === 'base' && history?.origin !== undefined && cut.id.endsWith(history.id)
  }

  #baseStored(version: string, cut: BaseCut): void {
    const { base, history } = this.progress
    if (history !== null && this.#isOfNew(cut)) {
      // All since the creation is in the logs that are kept for the history.
      const { newest, database } = history
      this.progress.chain = { versions: [version], walBytes: 0, through: 0, newest, database }
      return
    }
    this.progress.base = null
    this.progress.chain = base?.id === cut.id ? chainOf(base, version) : null
  }

  /** Has every commit so far in a segment, or in the database file as our own checkpoints left it. */
  #keepLog(database: CellDatabase): void {
    if (database.inTransaction) throw new CellError('busy', 'A transaction is open in the cell. Try again.')
    database.checkpoints.run('TRUNCATE')
  }

  #removeUnneeded(): void {
    if (this.history.ofNew === undefined) this.#tryTo(() => this.#origin.remove())
    const { chain, base } = this.progress
    const isNeeded = (segment: Segment) =>
      (chain !== null && segment.sequence > chain.through) ||
      (base !== null && isNeededBy(base, segment)) ||
      this.history.needs(segment) ||
      // An upload reads them.
      (this.#underWay && segment.sequence <= this.#logs.sealed)
    this.#tryTo(() => this.segments.keepOnly(isNeeded))
  }

  /**
   * A failed save must not fail a commit. An old row only costs a new base, since the file's fingerprint or a segment's
   * number will not match. The next save writes the whole row.
   */
  #save({ withTimes = false } = {}): void {
    if (this.#detached) return
    const row = { ...this.progress, dirty: this.isChanged, history: this.history.row(withTimes) }
    this.#tryTo(() => {
      this.#parts.table.save(row)
      this.#savedLine = row.line
    })
    const hadHistory = this.#isSavedWithHistory
    this.#isSavedWithHistory = this.history.shipped !== undefined
    // Its next backup is due now: what it commits is not shipped before that.
    if (hadHistory && !this.#isSavedWithHistory && row.dirty) this.#parts.onChange()
  }

  #tryTo(run: () => void): void {
    try {
      run()
    } catch {
      // The next removal or save repeats it.
    }
  }
}
