import fs from 'node:fs'
import type { CellDatabase, CellHooks, WalState } from '../engine/cell-database.ts'
import type { CellPaths } from '../engine/cell-path.ts'
import type { Clock } from '../engine/clock.ts'
import type { BackupChain, BackupProgress, BackupProgressTable, FileStamp } from './progress-table.ts'
import { Segments } from './segments.ts'

/** A base between its cut and its last byte stored: logs are kept for it beside those of the chain that it will replace. */
interface BaseInProgress {
  /** Segments after this one belong to it. */
  from: number
  /** The database file since the cut, as the chain will need it. */
  database: FileStamp | undefined
  /** A log could not be kept. */
  broken: boolean
}

/** The chain's logs may grow to the size of the database, but this much is always allowed. */
const CHAIN_BYTES_MIN = 1_048_576

/**
 * Watches one cell: remembers that it changed, and keeps each write-ahead log before a checkpoint lets go of it, so that
 * an incremental costs what changed, also after the cell was closed or the node restarted.
 *
 * The chain from a base to the database of now is proven, not assumed: only checkpoints write the database file, so as
 * long as the file is as our own last checkpoint left it, every change since is in the kept segments and the log. In any
 * other case (another program, a crash inside a checkpoint, a lost row) the next backup is a new base.
 */
export class ChangeTracker {
  readonly progress: BackupProgress
  readonly segments: Segments
  readonly #paths: CellPaths
  readonly #table: BackupProgressTable
  readonly #clock: Clock
  readonly #onChange: () => void
  #base: BaseInProgress | undefined
  #newest: number

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
  }

  /** The newest segment there is. */
  get newest(): number {
    return this.#newest
  }

  readonly hooks: CellHooks = {
    opened: (database) => {
      if (this.progress.dirty) database.markDirty()
    },
    changed: () => this.#changed(),
    beforeCheckpoint: (_database, wal) => this.#keepLog(wal),
    afterCheckpoint: () => this.#stampDatabase(),
  }

  /**
   * The chain, if it reaches from its base to the database as it is.
   *
   * @returns null if a new base is due: there is none, it was broken, or it has grown too long to be worth it
   */
  provenChain(versionsMax: number): BackupChain | null {
    const { chain } = this.progress
    if (chain === null || chain.versions.length >= versionsMax) return null
    const now = stampOf(this.#paths.database)
    if (now === undefined || now.size !== chain.database.size || now.modified !== chain.database.modified)
      return null
    const pending = this.segments.list().filter(({ sequence }) => sequence > chain.through)
    // None may be missing: they were given out one by one.
    const complete = pending.every(({ sequence }, i) => sequence === chain.through + 1 + i)
    if (!complete || chain.through + pending.length !== chain.newest) return null
    const bytes = pending.reduce((sum, { size }) => sum + size, chain.walBytes)
    return bytes > Math.max(now.size, CHAIN_BYTES_MIN) ? null : chain
  }

  /** A backup's cut: changes from here on belong to the next one. Undone by {@link backupFailed}. */
  cut(database: CellDatabase): void {
    database.markClean()
    this.progress.dirty = false
  }

  /** The cut of a base: the database file holds every change so far. */
  beginBase(database: CellDatabase): void {
    this.cut(database)
    // Without a chain, what lies there is left over from a crash.
    if (this.progress.chain === null) this.#clearSegments()
    this.#base = { from: this.#newest, database: stampOf(this.#paths.database), broken: false }
  }

  /** A base is stored: the chain begins anew with it. */
  baseStored(version: string, kind: 'snapshot' | 'incremental', at: number): void {
    const base = this.#base
    this.#base = undefined
    if (base === undefined || base.broken || base.database === undefined) this.dropChain()
    else {
      const { from: through, database } = base
      this.progress.chain = { versions: [version], walBytes: 0, through, newest: this.#newest, database }
      this.segments.removeThrough(through)
    }
    if (kind === 'snapshot') {
      this.progress.lastSnapshotAt = at
      this.progress.dirtySinceSnapshot = this.progress.dirty
    }
    this.#stored(version, at)
  }

  /** An incremental is stored: the chain reaches as far as the segments that it holds. */
  incrementalStored(
    chain: BackupChain,
    version: string,
    through: number,
    walBytes: number,
    at: number,
  ): void {
    // The chain may have been dropped, or replaced, while the upload ran; then this version stands at its old place.
    if (this.progress.chain === chain) {
      chain.versions.push(version)
      chain.through = through
      chain.walBytes += walBytes
      this.segments.removeThrough(through)
    }
    this.#stored(version, at)
  }

  backupFailed(): void {
    this.progress.dirty = true
    this.#base = undefined
    if (this.progress.chain === null) this.#clearSegments()
    this.#save()
  }

  /** The next backup is a base. */
  dropChain(): void {
    this.progress.chain = null
    if (this.#base === undefined) this.#clearSegments()
    else this.segments.removeThrough(this.#base.from)
    this.#save()
  }

  /** Marks the cell as changed, where that was found out by looking at its files. */
  foundChanged(): void {
    if (!this.progress.dirty) this.#changed()
  }

  /** True if the files hold changes that no row tells of: after a crash. */
  differsFromFiles(): boolean {
    const wal = stampOf(this.#paths.wal)
    if (wal !== undefined && wal.size > 0) return true
    const { chain } = this.progress
    const database = stampOf(this.#paths.database)
    return database !== undefined && (chain === null || database.modified !== chain.database.modified)
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

  #stored(version: string, at: number): void {
    this.progress.lastVersion = version
    this.progress.lastBackupAt = at
    this.#save()
  }

  /** A full disk must not keep the log from being checkpointed: then the chain ends here, and the next backup is a base. */
  #keepLog(wal: WalState): void {
    const { chain } = this.progress
    if (chain === null && this.#base === undefined) return
    try {
      this.#newest = this.segments.keep(this.#paths.wal, wal.frames, this.#newest)
      if (chain === null) return
      chain.newest = this.#newest
      this.#save()
    } catch {
      if (this.#base !== undefined) this.#base.broken = true
      this.dropChain()
    }
  }

  #stampDatabase(): void {
    const stamp = stampOf(this.#paths.database)
    if (stamp === undefined) return
    if (this.#base !== undefined) this.#base.database = stamp
    if (this.progress.chain === null) return
    this.progress.chain.database = stamp
    this.#save()
  }

  #clearSegments(): void {
    this.segments.clear()
    this.#newest = 0
  }

  #save(): void {
    this.#table.save(this.progress)
  }
}

/** stat, which opens nothing and so drops no lock (invariant 4). */
function stampOf(file: string): FileStamp | undefined {
  const stat = fs.statSync(file, { bigint: true, throwIfNoEntry: false })
  return stat && { size: Number(stat.size), modified: stat.mtimeNs.toString() }
}
