import type { Clock } from '../../base/clock.ts'
import type { CellPaths } from '../../base/store-paths.ts'
import type { CellDatabase, CellHooks } from '../../engine/cell-database.ts'
import { outgrown } from './chain-bounds.ts'
import { type FileFingerprint, fingerprintOf, sameFingerprint } from './file-fingerprint.ts'
import type { BackupChain, BackupProgress, BackupProgressTable } from './progress-table.ts'
import { type Segment, Segments } from './segments.ts'

/** A base between its cut and its last byte stored: logs are kept for it beside those of the chain that it will replace. */
interface BaseInProgress {
  /** Segments after this one belong to it. */
  from: number
  /** The database file as the chain will need it: since the cut, or our own last checkpoint after it. */
  database: FileFingerprint | undefined
  /** A change has escaped the logs since the cut: the base is as good as any, but no incremental can go on from it. */
  broken: boolean
}

/**
 * Watches one cell: remembers that it changed, and keeps each write-ahead log before a checkpoint lets go of it, so that
 * an incremental costs what changed, also after the cell was closed or the node restarted.
 *
 * The chain from a base to the database of now is proven, not assumed (docs/decisions/0004): only checkpoints write the
 * database file, so as long as before each checkpoint of ours the file is as the one before left it, and nobody commits
 * while one runs, every change is in the kept segments and the log. In any other case the next backup is a new base.
 */
export class ChangeTracker {
  readonly progress: BackupProgress
  readonly segments: Segments
  readonly #paths: CellPaths
  readonly #table: BackupProgressTable
  readonly #clock: Clock
  readonly #onChange: () => void
  #base: BaseInProgress | undefined
  /** The newest segment there is. */
  #newest: number
  /** Segments up to this one are being uploaded, or have been: none of them may grow. */
  #sealed: number
  /** A backup holds the changes so far, but is not stored yet: until then the cell counts as changed. */
  #underWay = false
  /** Between the keeping of a log and the end of its checkpoint: tells whether another program has committed meanwhile. */
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

  /** What the next incremental has to hold; undefined if a new base is due. */
  pending(versionsMax: number): { chain: BackupChain; segments: Segment[] } | undefined {
    const { chain } = this.progress
    if (chain === null || chain.versions.length >= versionsMax) return undefined
    const now = fingerprintOf(this.#paths.database)
    if (now === undefined || !sameFingerprint(now, chain.database)) return undefined
    const segments = this.segments.list().filter(({ sequence }) => sequence > chain.through)
    // None may be missing: they were given out one by one.
    const complete = segments.every(({ sequence }, i) => sequence === chain.through + 1 + i)
    if (!complete || chain.through + segments.length !== chain.newest) return undefined
    return outgrown(segments, chain.walBytes, now.size) ? undefined : { chain, segments }
  }

  /** A backup's cut: changes from here on belong to the next one. Undone by {@link backupFailed}. */
  cut(database: CellDatabase): void {
    this.#underWay = true
    database.dirty = false
    this.progress.dirty = false
  }

  /** The cut of a base: the database file holds every change so far. */
  beginBase(): void {
    // Without a chain, what lies there is left over from a crash.
    if (this.progress.chain === null) this.#clearSegments()
    this.#base = { from: this.#newest, database: fingerprintOf(this.#paths.database), broken: false }
  }

  /** True as long as nobody has written the database file since the cut of the base. */
  get baseUntouched(): boolean {
    const now = fingerprintOf(this.#paths.database)
    return (
      now !== undefined && this.#base?.database !== undefined && sameFingerprint(now, this.#base.database)
    )
  }

  /** A base is stored: the chain begins anew with it. @param cutAt epoch milliseconds */
  baseStored(version: string, kind: 'snapshot' | 'incremental', cutAt: number): void {
    const base = this.#base
    this.#base = undefined
    if (base === undefined || base.broken || base.database === undefined) this.dropChain()
    else {
      const { from: through, database } = base
      this.progress.chain = { versions: [version], walBytes: 0, through, newest: this.#newest, database }
      this.#sealed = through
      this.#quietly(() => this.segments.removeThrough(through))
    }
    if (kind === 'snapshot') {
      this.progress.lastSnapshotAt = cutAt
      this.progress.dirtySinceSnapshot = this.progress.dirty
    }
    this.#stored(version, cutAt)
  }

  /** An incremental is about to read these segments: they stay as they are. */
  seal(segments: readonly Segment[]): void {
    this.#sealed = Math.max(this.#sealed, segments.at(-1)?.sequence ?? 0)
  }

  /** An incremental is stored: the chain reaches as far as the segments that it holds. */
  incrementalStored(chain: BackupChain, version: string, segments: readonly Segment[], cutAt: number): void {
    // The chain may have been dropped while the upload ran; then this version is its last one.
    if (this.progress.chain === chain) {
      const through = segments.at(-1)?.sequence ?? chain.through
      chain.versions.push(version)
      chain.through = through
      chain.walBytes += segments.reduce((sum, { size }) => sum + size, 0)
      this.#quietly(() => this.segments.removeThrough(through))
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

  /** Before a version is stored: whatever becomes of that, its stamp is used up. */
  claimVersion(version: string): void {
    this.progress.lastVersion = version
    this.#save()
  }

  /** The next backup is a base. */
  dropChain(): void {
    this.progress.chain = null
    const base = this.#base
    if (base === undefined || base.broken) this.#clearSegments()
    else this.#quietly(() => this.segments.removeThrough(base.from))
    this.#save()
  }

  /** Nothing that was stored so far counts any more. */
  startAnew(): void {
    Object.assign(this.progress, this.#table.find(this.progress.cellId))
    if (this.#base !== undefined) this.#base.broken = true
    this.dropChain()
  }

  /** The cell is gone, or its history another: this tracker writes nothing any more. */
  detach(): void {
    this.#detached = true
  }

  /** Marks the cell as changed, where that was found out by looking at its files. */
  foundChanged(): void {
    if (!this.progress.dirty) this.#changed()
  }

  /** True if the files hold changes that no row tells of: after a crash. */
  differsFromFiles(): boolean {
    const exists = fingerprintOf(this.#paths.database) !== undefined
    return exists && (this.progress.chain === null || this.#hasLogOrOtherFile())
  }

  #opened(database: CellDatabase): void {
    // A process that was killed between a commit and the row that tells of it, or another program.
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
    this.progress.dirty = true
    this.progress.dirtySinceSnapshot = true
    // Until there is a backup, due times count from the first change.
    this.progress.lastBackupAt ??= this.#clock.now()
    this.progress.lastSnapshotAt ??= this.#clock.now()
    this.#save()
    this.#onChange()
  }

  #stored(version: string, cutAt: number): void {
    this.#underWay = false
    this.progress.lastVersion = version
    this.progress.lastBackupAt = cutAt
    this.#save()
  }

  /** A full disk must not keep the log from being checkpointed: then the chain ends here, and the next backup is a base. */
  #beforeCheckpoint(database: CellDatabase): void {
    this.#dataVersion = undefined
    if (this.progress.chain === null && (this.#base === undefined || this.#base.broken)) return
    try {
      const now = fingerprintOf(this.#paths.database)
      if (now === undefined || !this.#isUntouched(now)) return
      // Counted again after the version was read: a commit in between is in both.
      this.#dataVersion = database.dataVersion()
      const { frames } = database.checkpoints.state()
      // What lies behind a base's cut is in the base: a segment that goes on from there must not begin before it.
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
    // Nothing was moved by this checkpoint: if the file is another than it was, that was somebody else.
    if (dataVersion === undefined) return
    if (dataVersion !== database.dataVersion()) {
      // Another program has committed since the log was kept; what it wrote may be in the file by now.
      this.#breakAll()
      return
    }
    const stamp = fingerprintOf(this.#paths.database)
    if (stamp === undefined) return
    if (this.#base !== undefined) this.#base.database = stamp
    if (this.progress.chain === null) return
    this.progress.chain.database = stamp
    this.#save()
  }

  /** Another program that wrote the file may have moved changes into it that no kept log has. */
  #isUntouched(now: FileFingerprint): boolean {
    if (this.#base?.database !== undefined && !sameFingerprint(now, this.#base.database))
      this.#base.broken = true
    if (this.progress.chain !== null && !sameFingerprint(now, this.progress.chain.database)) this.dropChain()
    return this.progress.chain !== null || (this.#base !== undefined && !this.#base.broken)
  }

  /** Logs that would make more to upload than the whole database are not worth their place on the disk. */
  #dropOutgrown(databaseBytes: number): void {
    const segments = this.segments.list()
    const after = (through: number) => segments.filter(({ sequence }) => sequence > through)
    const base = this.#base
    if (base !== undefined && outgrown(after(base.from), 0, databaseBytes)) base.broken = true
    const { chain } = this.progress
    if (chain !== null && outgrown(after(chain.through), chain.walBytes, databaseBytes)) this.dropChain()
  }

  #breakAll(): void {
    if (this.#base !== undefined) this.#base.broken = true
    this.dropChain()
  }

  #clearSegments(): void {
    this.#quietly(() => this.segments.clear())
    this.#newest = 0
    this.#sealed = 0
  }

  /**
   * What is written here is worth no commit's failure: a row that is behind costs a new base, since the file's stamp or a
   * segment's number won't match. The next change of the row is written with all before it.
   */
  #save(): void {
    if (this.#detached) return
    const dirty = this.progress.dirty || this.#underWay
    this.#quietly(() => this.#table.save({ ...this.progress, dirty }))
  }

  #quietly(run: () => void): void {
    try {
      run()
    } catch {
      // Left over files are removed with the next of their kind.
    }
  }
}
