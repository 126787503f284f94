import type { Clock } from '../../base/clock.ts'
import type { CellPaths } from '../../base/store-paths.ts'
import type { CellDatabase, CellHooks } from '../../engine/cell-database.ts'
import { type BackupChain, BaseInProgress, isOutgrown, nextSegments } from './backup-chain.ts'
import { type FileFingerprint, fingerprintOf, sameFingerprint } from './file-fingerprint.ts'
import type { BackupProgress, BackupProgressTable } from './progress-table.ts'
import { type Segment, Segments } from './segments.ts'

/**
 * Tracks the changes of one cell: notes that it changed, and keeps each write-ahead log as a segment before a checkpoint
 * overwrites it. So an incremental costs as much as the changes, also after the cell was closed or the node restarted.
 *
 *     clean  ── change ──▶ dirty
 *     either ── cut() ───▶ backup under way ──┬── stored, no change since the cut ───▶ clean
 *                          (saves as dirty)   └── stored, changed since; or failed ──▶ dirty
 *
 *     no chain ── baseStored() ──▶ chain ── incrementalStored() ──▶ chain, one version longer
 *        ▲  ▲                      │   └─── baseStored() ─────────▶ chain of the new base
 *        │  └── dropChain() ───────┘
 *        └───── baseStored() of a broken base
 *
 * That segments and WAL hold every change since the base is proven, not assumed (docs/decisions/0004). Only checkpoints
 * write the database file. The proof holds while the file, before each of our checkpoints, is as our last one left it,
 * and no other program commits during one. Otherwise dropChain() makes the next backup a base, and a base under way breaks.
 */
export class ChangeTracker {
  readonly progress: BackupProgress
  readonly segments: Segments
  readonly #paths: CellPaths
  readonly #table: BackupProgressTable
  readonly #clock: Clock
  readonly #onChange: () => void
  #base: BaseInProgress | undefined
  /** Sequence number of the newest segment. */
  #newest: number
  /** Segments up to this one are uploaded, or will be: none of them may grow. */
  #sealed: number
  /** A backup was cut but is not stored: the cell is saved as changed until then. */
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
    this.#newest = this.progress.chain?.newest ?? 0
    this.#sealed = this.progress.chain?.through ?? 0
  }

  readonly hooks: CellHooks = {
    opened: (database) => this.#opened(database),
    changed: () => this.#changed(),
    beforeCheckpoint: (database) => this.#beforeCheckpoint(database),
    afterCheckpoint: (database) => this.#afterCheckpoint(database),
  }

  /** What the next incremental holds; undefined if a new base is due. */
  pending(versionsMax: number): { chain: BackupChain; segments: Segment[] } | undefined {
    const { chain } = this.progress
    if (chain === null || chain.versions.length >= versionsMax) return undefined
    const segments = nextSegments(chain, this.segments.list(), fingerprintOf(this.#paths.database))
    return segments && { chain, segments }
  }

  /** The cut of a backup: later changes belong to the next one. {@link backupFailed} undoes it. */
  cut(database: CellDatabase): void {
    this.#underWay = true
    database.dirty = false
    this.progress.dirty = false
  }

  /** The cut of a base: the database file holds every change so far. */
  beginBase(): void {
    // Without a chain, all segments are left over from a crash.
    if (this.progress.chain === null) this.#clearSegments()
    this.#base = new BaseInProgress(this.#newest, fingerprintOf(this.#paths.database))
  }

  /** Whether the database file is unchanged since the cut of the base. */
  get baseUntouched(): boolean {
    const now = fingerprintOf(this.#paths.database)
    return (
      now !== undefined && this.#base?.database !== undefined && sameFingerprint(now, this.#base.database)
    )
  }

  /** A base is stored: a new chain starts with it. @param cutAt epoch milliseconds */
  baseStored(version: string, kind: 'snapshot' | 'incremental', cutAt: number): void {
    const base = this.#base
    this.#base = undefined
    if (base === undefined || base.isBroken || base.database === undefined) this.dropChain()
    else {
      const { from: through, database } = base
      this.progress.chain = { versions: [version], walBytes: 0, through, newest: this.#newest, database }
      this.#sealed = through
      this.#tryTo(() => this.segments.removeThrough(through))
    }
    if (kind === 'snapshot') {
      this.progress.lastSnapshotAt = cutAt
      this.progress.dirtySinceSnapshot = this.progress.dirty
    }
    this.#stored(version, cutAt)
  }

  /** An incremental reads these segments from here on: they must not grow. */
  seal(segments: readonly Segment[]): void {
    this.#sealed = Math.max(this.#sealed, segments.at(-1)?.sequence ?? 0)
  }

  /** An incremental is stored: the chain now ends with its last segment. */
  incrementalStored(chain: BackupChain, version: string, segments: readonly Segment[], cutAt: number): void {
    // If the chain was dropped during the upload, no incremental continues this version.
    if (this.progress.chain === chain) {
      const through = segments.at(-1)?.sequence ?? chain.through
      chain.versions.push(version)
      chain.through = through
      chain.walBytes += segments.reduce((sum, { size }) => sum + size, 0)
      this.#tryTo(() => this.segments.removeThrough(through))
    }
    this.#stored(version, cutAt)
  }

  backupFailed(): void {
    this.#underWay = false
    this.progress.dirty = true
    this.#base = undefined
    if (this.progress.chain === null) this.#clearSegments()
    this.#save()
  }

  /** Call before a version is stored: its time is used up then, even if the upload fails. */
  claimVersion(version: string): void {
    this.progress.lastVersion = version
    this.#save()
  }

  /** Ends the chain: the next backup is a base. */
  dropChain(): void {
    this.progress.chain = null
    const base = this.#base
    if (base === undefined || base.isBroken) this.#clearSegments()
    else this.#tryTo(() => this.segments.removeThrough(base.from))
    this.#save()
  }

  /** Backups go to another place, where nothing is stored yet. The table has new rows already. */
  markNothingStored(): void {
    Object.assign(this.progress, this.#table.find(this.progress.cellId))
    this.#breakAll()
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
  }

  #stored(version: string, cutAt: number): void {
    this.#underWay = false
    this.progress.lastVersion = version
    this.progress.lastBackupAt = cutAt
    this.#save()
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
      // Changes before a base's cut are in the base. The first segment after it must not start before the cut.
      const sealed = Math.max(this.#sealed, this.#base?.from ?? 0)
      this.#newest = this.segments.keep(this.#paths.wal, frames, this.#newest, sealed)
      if (this.progress.chain !== null) this.progress.chain.newest = this.#newest
      this.#dropOutgrown(now.size)
      this.#save()
    } catch {
      this.#breakAll()
    }
  }

  #afterCheckpoint(database: CellDatabase): void {
    const dataVersion = this.#dataVersion
    this.#dataVersion = undefined
    // No log was kept for this checkpoint, so it must not approve the file.
    if (dataVersion === undefined) return
    if (dataVersion !== database.dataVersion()) {
      // Another program committed after the log was kept. The checkpoint may have moved its change into the file.
      this.#breakAll()
      return
    }
    const now = fingerprintOf(this.#paths.database)
    if (now === undefined) return
    if (this.#base !== undefined) this.#base.database = now
    if (this.progress.chain === null) return
    this.progress.chain.database = now
    this.#save()
  }

  get #needsSegments(): boolean {
    return this.progress.chain !== null || (this.#base !== undefined && !this.#base.isBroken)
  }

  /** If another program wrote the file, it may hold changes that are in no segment. */
  #isUntouched(now: FileFingerprint): boolean {
    if (this.#base?.database !== undefined && !sameFingerprint(now, this.#base.database))
      this.#base.isBroken = true
    if (this.progress.chain !== null && !sameFingerprint(now, this.progress.chain.database)) this.dropChain()
    return this.#needsSegments
  }

  /** Segments that are larger than the whole database are not worth their disk space. */
  #dropOutgrown(databaseBytes: number): void {
    const segments = this.segments.list()
    const after = (through: number) => segments.filter(({ sequence }) => sequence > through)
    const base = this.#base
    if (base !== undefined && isOutgrown(after(base.from), 0, databaseBytes)) base.isBroken = true
    const { chain } = this.progress
    if (chain !== null && isOutgrown(after(chain.through), chain.walBytes, databaseBytes)) this.dropChain()
  }

  #breakAll(): void {
    if (this.#base !== undefined) this.#base.isBroken = true
    this.dropChain()
  }

  #clearSegments(): void {
    this.#tryTo(() => this.segments.clear())
    this.#newest = 0
    this.#sealed = 0
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
