import { randomUUID } from 'node:crypto'
import type { Clock } from '../../base/clock.ts'
import type { CellPaths } from '../../base/store-paths.ts'
import type { CellDatabase, CellHooks } from '../../engine/cell-database.ts'
import { CellError } from '../../errors.ts'
import { extendChain, isOutgrown, nextSegments } from './backup-chain.ts'
import {
  type BaseInProgress,
  boundLogs,
  chainOf,
  isNeededBy,
  noSuchBase,
  segmentsOfCopy,
} from './base-in-progress.ts'
import type { BaseCut, IncrementalCut, StoredBackup } from './cell-cuts.ts'
import { type FileFingerprint, fingerprintOf, sameFingerprint } from './file-fingerprint.ts'
import type { BackupProgress, BackupProgressTable } from './progress-table.ts'
import { type Segment, Segments } from './segments.ts'

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
 * breaks (base-in-progress.ts).
 */
export class ChangeTracker {
  readonly progress: BackupProgress
  readonly segments: Segments
  readonly #paths: CellPaths
  readonly #table: BackupProgressTable
  readonly #clock: Clock
  readonly #onChange: () => void
  /** Sequence number of the newest segment. */
  #newest: number
  /** Segments up to this one are uploaded, or will be: none of them may grow. */
  #sealed: number
  /** A backup was cut here but is not stored: the cell is saved as changed until then. */
  #underWay = false
  /** Set from the keeping of a log to the end of its checkpoint. Shows whether another program committed meanwhile. */
  #dataVersion: number | undefined
  #detached = false

  constructor(
    cellId: string,
    paths: CellPaths,
    table: BackupProgressTable,
    clock: Clock,
    onChange: () => void,
  ) {
    this.#paths = paths
    this.#table = table
    this.#clock = clock
    this.#onChange = onChange
    this.progress = table.find(cellId)
    this.segments = new Segments(paths.segments)
    const { chain, base } = this.progress
    this.#newest = Math.max(chain?.newest ?? 0, base?.newest ?? 0)
    // An earlier process may have named any of them to an upload that still runs.
    this.#sealed = this.#newest
  }

  readonly hooks: CellHooks = {
    opened: (database) => this.#opened(database),
    changed: () => this.#changed(),
    beforeCheckpoint: (database) => this.#beforeCheckpoint(database),
    afterCheckpoint: (database) => this.#afterCheckpoint(database),
  }

  /** Begins a base: from here on every log is kept, so that the database file can be copied while it is written. */
  beginBase(database: CellDatabase): BaseInProgress {
    // So that few frames are both in the file and in a log. It may fail to finish.
    database.checkpoints.run('TRUNCATE')
    const file = fingerprintOf(this.#paths.database)
    if (file === undefined) throw noSuchBase()
    // Before the base counts: without a chain, all segments are left over from a crash, and have its numbers.
    this.progress.base = null
    this.#removeUnneeded()
    const newest = this.#newest
    // The first log of the copy must be whole.
    this.#sealed = newest
    const base = { id: randomUUID(), from: newest, newest, through: null, database: file, broken: null }
    this.progress.base = base
    this.#save()
    return base
  }

  /** Cuts the base at the end of its copy. @throws `busy` if the copy and the logs do not hold everything */
  endBase(database: CellDatabase, id: string, version: string): Segment[] {
    const { base } = this.progress
    if (base?.id !== id) throw noSuchBase()
    this.#keepLog(database)
    const segments = segmentsOfCopy(base, this.segments.list(), fingerprintOf(this.#paths.database))
    base.through = base.newest
    this.cut(database, version)
    return segments
  }

  /** Cuts an incremental. @returns undefined if a new base is due */
  cutIncremental(
    database: CellDatabase,
    version: string,
    versionsMax: number,
  ): Pick<IncrementalCut, 'chain' | 'segments'> | undefined {
    this.#keepLog(database)
    const { chain } = this.progress
    if (chain === null || chain.versions.length >= versionsMax) return undefined
    const segments = nextSegments(chain, this.segments.list(), fingerprintOf(this.#paths.database))
    if (segments === undefined) return undefined
    this.cut(database, version)
    return { chain: [...chain.versions], segments }
  }

  /** The cut of a backup: it holds all changes up to here, and no later ones. {@link failed} undoes it. */
  cut(database: CellDatabase, version: string): void {
    this.#sealed = this.#newest
    this.#underWay = true
    database.dirty = false
    this.progress.dirty = false
    // Before it is stored: its time is used up, even if the upload fails.
    this.progress.lastVersion = version
    this.#save()
  }

  /** Uses up the time of a version: a mark has it, or a version that another state of the store made. */
  claimVersion(version: string): void {
    this.progress.lastVersion = version
    this.#save()
  }

  stored({ version, kind, cut }: StoredBackup): void {
    if (cut.kind === 'base') this.#baseStored(version, cut)
    else if (this.progress.chain !== null) extendChain(this.progress.chain, version, cut)
    if (kind === 'snapshot') {
      this.progress.lastSnapshotAt = cut.cutAt
      this.progress.dirtySinceSnapshot = this.progress.dirty
    }
    this.progress.lastBackupAt = cut.cutAt
    this.progress.changedAt = this.progress.dirty ? cut.cutAt : null
    this.#underWay = false
    this.#removeUnneeded()
    this.#save()
  }

  failed(): void {
    this.#underWay = false
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

  /** Backups go to another place, where nothing is stored yet. The table has new rows already. */
  markNothingStored(): void {
    Object.assign(this.progress, this.#table.find(this.progress.cellId))
    this.dropChain()
  }

  /** The cell was deleted or restored: this tracker no longer writes. */
  detach(): void {
    this.#detached = true
  }

  /** Marks the cell as changed after {@link differsFromFiles} has found a change. A worker may have the cell open. */
  markChanged(): void {
    if (this.progress.dirty) return
    this.#noteChange()
    if (!this.#detached) this.#table.markChanged(this.progress.cellId, this.#clock.now())
    this.#onChange()
  }

  /** Whether the files can hold changes that the row does not show: after a crash. */
  differsFromFiles(): boolean {
    const exists = fingerprintOf(this.#paths.database) !== undefined
    return exists && (this.progress.chain === null || this.#hasLogOrOtherFile())
  }

  #opened(database: CellDatabase): void {
    // A process was killed between a commit and the save of its row, or another program has written.
    if (!this.progress.dirty && this.#hasLogOrOtherFile()) this.#changed()
    if (this.progress.dirty) database.dirty = true
  }

  #hasLogOrOtherFile(): boolean {
    const { chain } = this.progress
    const wal = fingerprintOf(this.#paths.wal)
    if (wal !== undefined && wal.size > 0) return true
    const now = fingerprintOf(this.#paths.database)
    return chain !== null && now !== undefined && !sameFingerprint(now, chain.database)
  }

  #changed(): void {
    this.#noteChange()
    this.#save()
    this.#onChange()
  }

  #noteChange(): void {
    this.progress.dirty = true
    this.progress.dirtySinceSnapshot = true
    // Before the first backup, due times count from the first change.
    this.progress.lastBackupAt ??= this.#clock.now()
    this.progress.lastSnapshotAt ??= this.#clock.now()
    this.progress.changedAt ??= this.#clock.now()
  }

  #baseStored(version: string, { id }: BaseCut): void {
    const { base } = this.progress
    this.progress.base = null
    this.progress.chain = base?.id === id ? chainOf(base, version) : null
  }

  /** Has every commit so far in a segment, or in the database file as our own checkpoints left it. */
  #keepLog(database: CellDatabase): void {
    if (database.inTransaction) throw new CellError('busy', 'A transaction is open in the cell. Try again.')
    database.checkpoints.run('TRUNCATE')
  }

  /** Keeps the WAL as a segment. If that fails, on a full disk for example, the checkpoint runs and the chain ends. */
  #beforeCheckpoint(database: CellDatabase): void {
    this.#dataVersion = undefined
    if (!this.#needsSegments) return
    try {
      const now = fingerprintOf(this.#paths.database)
      if (now === undefined || !this.#isUntouched(now)) return
      // The frames are counted after the version was read: a commit in between shows in both.
      this.#dataVersion = database.dataVersion()
      const { frames } = database.checkpoints.state()
      this.#newest = this.segments.keep(this.#paths.wal, frames, this.#newest, this.#sealed)
      const { chain, base } = this.progress
      if (chain !== null) chain.newest = this.#newest
      if (base !== null) base.newest = this.#newest
      this.#dropOutgrown(now.size)
      this.#save()
    } catch {
      this.#breakAll('log not kept')
    }
  }

  #afterCheckpoint(database: CellDatabase): void {
    const dataVersion = this.#dataVersion
    this.#dataVersion = undefined
    // No log was kept for this checkpoint, so it must not approve the file.
    if (dataVersion === undefined) return
    if (dataVersion !== database.dataVersion()) {
      // Another program committed after the log was kept. The checkpoint may have moved its change into the file.
      this.#breakAll('foreign write')
      return
    }
    const now = fingerprintOf(this.#paths.database)
    if (now === undefined) return
    const { chain, base } = this.progress
    if (base !== null) base.database = now
    if (chain !== null) chain.database = now
    this.#save()
  }

  get #needsSegments(): boolean {
    const { chain, base } = this.progress
    return chain !== null || (base !== null && base.broken === null)
  }

  /** If another program wrote the file, it may hold changes that are in no segment. */
  #isUntouched(now: FileFingerprint): boolean {
    const { chain, base } = this.progress
    if (base !== null && !sameFingerprint(now, base.database)) base.broken ??= 'foreign write'
    if (chain !== null && !sameFingerprint(now, chain.database)) this.dropChain()
    return this.#needsSegments
  }

  /** Segments that are larger than the whole database are not worth their disk space. */
  #dropOutgrown(databaseBytes: number): void {
    const segments = this.segments.list()
    const { chain, base } = this.progress
    if (base !== null) boundLogs(base, segments, databaseBytes)
    if (chain === null) return
    const after = segments.filter(({ sequence }) => sequence > chain.through)
    if (isOutgrown(after, chain.walBytes, databaseBytes)) this.dropChain()
  }

  #breakAll(reason: NonNullable<BaseInProgress['broken']>): void {
    if (this.progress.base !== null) this.progress.base.broken ??= reason
    this.dropChain()
  }

  #removeUnneeded(): void {
    const { chain, base } = this.progress
    const isNeeded = (segment: Segment) =>
      (chain !== null && segment.sequence > chain.through) ||
      (base !== null && isNeededBy(base, segment)) ||
      // An upload reads them.
      (this.#underWay && segment.sequence <= this.#sealed)
    this.#tryTo(() => this.segments.keepOnly(isNeeded))
  }

  /**
   * A failed save must not fail a commit. An old row only costs a new base, since the file's fingerprint or a segment's
   * number will not match. The next save writes the whole row.
   */
  #save(): void {
    if (this.#detached) return
    const dirty = this.progress.dirty || this.#underWay
    this.#tryTo(() => this.#table.save({ ...this.progress, dirty }))
  }

  #tryTo(run: () => void): void {
    try {
      run()
    } catch {
      // The next removal or save repeats it.
    }
  }
}
