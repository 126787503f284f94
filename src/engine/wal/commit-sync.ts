import { exists } from '../../base/files/durable-files.ts'
import type { ScratchMemory } from '../../base/machine/scratch-memory.ts'
import type { CommitLog, LoggedCell } from '../../commit-log/commit-log.ts'
import { CellError } from '../../errors.ts'
import type { Durability } from '../cell-settings.ts'
import type { CellState } from '../cell-state.ts'
import type { SharedRecord } from '../commits/shared-commits.ts'
import type { Connection } from '../sqlite.ts'
import { WalSync } from './wal-sync.ts'
import { placeOf, type WalPlace, WalTail } from './wal-tail.ts'

/** What was acknowledged, in the WAL of a cell that is closed as it is. */
export interface AcknowledgedFrames {
  frames: number
  /** A power loss may take some of them: the cell is `relaxed`. */
  isVolatile: boolean
}

/** Where the commits of a cell can be stored together with those of others. */
export interface CellInLog {
  log: CommitLog
  cellId: string
}

/** What is asked of a cell, and told to it. */
export interface SyncedCell {
  path: string
  state: CellState
  /** How many frames the WAL has up to the last commit. */
  frames(): number
  /** As many, but none if all of them are in the database. */
  needed(): number
  /** Called when nothing is pending any more, after commits whose fsync was left out. Must not throw. */
  stored(): void
}

/**
 * How the commits of one cell get to the disk: each by SQLite's own fsync, in its COMMIT, or several by one fsync that is
 * asked for afterwards, or together with those of other cells in the commit log (`SharedCommits`). A failed fsync
 * quarantines the cell.
 */
export class CommitSync implements LoggedCell {
  readonly #connection: Connection
  readonly #path: string
  readonly #isRelaxed: boolean
  readonly #state: CellState
  readonly #wal: WalSync
  readonly #inLog: CellInLog | undefined
  readonly #frames: () => number
  readonly #needed: () => number
  readonly #stored: () => void
  readonly #tail = new WalTail()
  /** SQLite fsyncs in each COMMIT. It does not from the first commit whose fsync is left out until the next {@link changing}. */
  #isFull = true
  /** How many have their fsyncs left out at this moment, one inside the other. */
  #leavingOut = 0
  #commits = 0
  /** How many frames the WAL must have for what is acknowledged, while it may hold more; undefined: all of them. */
  #acknowledged: number | undefined
  /** Called when an fsync begins. What it returns is called once that has succeeded, before anything is acknowledged. */
  onSync: (() => () => void) | undefined

  constructor(
    connection: Connection,
    { path, state, frames, needed, stored }: SyncedCell,
    durability: Durability,
    inLog?: CellInLog,
  ) {
    this.#connection = connection
    this.#path = path
    this.#isRelaxed = durability === 'relaxed'
    this.#state = state
    this.#wal = new WalSync(path)
    this.#frames = frames
    this.#needed = needed
    this.#stored = stored
    this.#inLog = inLog
  }

  get cellId(): string {
    return this.#inLog?.cellId ?? ''
  }

  /** True while commits with a deferred fsync may not be on disk. */
  get pending(): boolean {
    return this.#wal.pending
  }

  /** A descriptor of the WAL, until the connection is closed. It may be another one after the next commit. @throws the system's error */
  openWal(): number {
    return this.#wal.keep()
  }

  /** Before each change, outside of a transaction or inside: its COMMIT has an fsync, unless that is left out just now. */
  changing(): void {
    if (this.#leavingOut === 0 && !this.#syncsInCommit) this.#setFull(true)
  }

  /** After each commit. */
  committed(): void {
    this.#commits++
    // Its own fsync has stored all before it, too.
    if (this.#isFull && this.#leavingOut === 0) this.#acknowledged = undefined
  }

  /**
   * Of the WAL of a cell whose disk has failed: what was refused may be in it, and a power loss may take that.
   *
   * @param frames up to the last commit
   * @returns those that hold what was acknowledged
   */
  acknowledgedOf(frames: number): AcknowledgedFrames {
    return { frames: Math.min(frames, this.#acknowledged ?? frames), isVolatile: this.#isRelaxed }
  }

  /** Runs commits without their fsyncs, for changes that need not survive a power loss. */
  skip<T>(run: () => T): T {
    const end = this.#syncsInCommit ? nothing : this.#leaveOut()
    try {
      return run()
    } finally {
      end()
    }
  }

  /**
   * Runs commits whose fsync is left to {@link sync}: none of them may be acknowledged before that has resolved, which
   * takes the time of one fsync, however many cells do so at once. Until then, readers of the cell see what a power loss
   * may take back. Changes nothing for a `relaxed` cell, nor inside a transaction. If the log can't be opened for the
   * later fsync, each commit has its own.
   *
   * @throws what `run` throws
   */
  defer<T>(run: () => T): T {
    const end = this.deferFromHere()
    try {
      return run()
    } finally {
      end()
    }
  }

  /** As {@link defer}, for commits until what it returns is called; outside of a transaction, as this. */
  deferFromHere(): () => void {
    this.#state.assertUsable()
    if (this.#syncsInCommit) return nothing
    let expectNothing: () => void
    try {
      expectNothing = this.#wal.expect()
    } catch {
      return nothing
    }
    const before = this.#commits
    const syncAgain = this.#leaveOut()
    return () => {
      syncAgain()
      // Nobody would ask for an fsync then, and those who watch would wait for it with their next commit.
      if (this.#commits !== before) return
      expectNothing()
      if (!this.pending) this.#stored()
    }
  }

  #leaveOut(): () => void {
    const before = this.#commits
    const isFirst = this.#acknowledged === undefined
    if (isFirst) this.#acknowledged = this.#neededNow()
    const end = () => {
      if (isFirst && this.#commits === before) this.#acknowledged = undefined
    }
    try {
      this.#setFull(false)
    } catch {
      // SQLite may have to read the schema for it. What is wrong shows in the change itself, where it can be told.
      return end
    }
    this.#leavingOut++
    return () => {
      this.#leavingOut--
      end()
    }
  }

  /** Each switch costs as much as a small statement. */
  #setFull(isFull: boolean): void {
    if (this.#isFull === isFull) return
    this.#connection.exec(`PRAGMA synchronous = ${isFull ? 'FULL' : 'NORMAL'}`)
    this.#isFull = isFull
  }

  /**
   * Resolves once every commit so far is on disk. If it rejects, refuse what was committed since the last one that
   * resolved: nobody can tell any more whether it stays.
   *
   * @throws `cell_quarantined`
   */
  async sync(): Promise<void> {
    const place = this.#place()
    const commits = this.#commits
    const needed = this.#acknowledged === undefined ? undefined : this.#neededNow()
    const synced = this.onSync?.()
    try {
      await this.#wal.sync()
    } catch (error) {
      throw this.#state.quarantine(walLost(error))
    }
    this.#state.assertNotQuarantined()
    if (commits === this.#commits) this.#acknowledged = undefined
    else if (needed !== undefined) this.#acknowledged = needed
    if (place !== undefined) this.#tail.setSafe(place)
    synced?.()
    if (!this.pending) this.#stored()
  }

  /**
   * What {@link defer}red commits, and any before them, have added to the WAL.
   *
   * @param memory for the bytes of the record
   * @returns undefined if only {@link sync} can store it, or nothing is pending
   */
  record(memory: ScratchMemory): SharedRecord | undefined {
    const { descriptor } = this.#wal
    if (this.#inLog === undefined || descriptor === undefined || !this.#state.usable) return undefined
    try {
      const tail = this.#tail.read(descriptor, this.#frames(), memory)
      return tail && { ...tail, cellId: this.#inLog.cellId, cell: this }
    } catch {
      return undefined
    }
  }

  /** The record is on disk in the commit log. Call it in the turn of {@link record}: no commit may have come in between. */
  recorded({ salts, offset, bytes }: SharedRecord): void {
    this.#tail.setSafe({ salts, offset: offset + bytes.length })
    this.#wal.storedElsewhere()
    this.#acknowledged = undefined
    this.onSync?.()()
    this.#stored()
  }

  /** For the commit log, which forgets its records of the cell then. */
  async syncWal(): Promise<void> {
    this.#state.assertUsable()
    await this.#wal.syncAll(() => this.sync())
  }

  /**
   * Fsyncs the log as it was found: the process that wrote its last commit may have been killed before the fsync.
   *
   * @throws `cell_quarantined`
   */
  syncFound(): void {
    this.#state.assertUsable()
    try {
      // If the log can't be looked at, it may be there with what was not fsynced.
      if (!exists(`${this.#path}-wal`)) return
      this.#wal.expect()
    } catch (error) {
      throw this.#state.quarantine(walLost(error))
    }
    this.#syncNow()
  }

  /** Before the connection is closed: fsyncs what was deferred, unless the cell is quarantined. Never throws. */
  closing(): void {
    try {
      if (this.#state.quarantined === undefined) this.#syncNow()
      else this.#wal.abandon()
    } catch {
      // The cell is quarantined now, and its hooks have been told.
    }
  }

  /** A cell that was closed as it was, with its newest bytes in the commit log, is opened again. @throws `cell_quarantined` */
  opened(): void {
    if (this.#inLog?.log.names(this.#inLog.cellId) !== true) return
    this.syncFound()
    this.#inLog.log.settled(this.#inLog.cellId)
  }

  /** The connection is closed: if its checkpoint did not move all of the WAL, that is fsynced. Never throws. */
  closed(): void {
    const { log, cellId } = this.#inLog ?? {}
    try {
      if (log === undefined || cellId === undefined || !log.names(cellId)) return
      // In quarantine nobody knows what an fsync would store. The log keeps its records for the next start.
      if (this.#state.quarantined !== undefined) return
      if (exists(`${this.#path}-wal`)) {
        this.#wal.expect()
        this.#wal.syncNow()
      }
      log.settled(cellId)
    } catch {
      // As in quarantine.
    } finally {
      this.#wal.abandon()
      this.#wal.release()
    }
  }

  #place(): WalPlace | undefined {
    const { descriptor } = this.#wal
    if (this.#inLog === undefined || descriptor === undefined || !this.#state.usable) return undefined
    try {
      return placeOf(descriptor, this.#frames())
    } catch {
      return undefined
    }
  }

  #syncNow(): void {
    const synced = this.onSync?.()
    try {
      this.#wal.syncNow()
    } catch (error) {
      throw this.#state.quarantine(walLost(error))
    }
    this.#acknowledged = undefined
    synced?.()
  }

  /** Undefined if the disk does not say: then all frames count. */
  #neededNow(): number | undefined {
    try {
      return this.#needed()
    } catch {
      return undefined
    }
  }

  /** True where the fsync is not ours to leave out. Inside a transaction, that is for its COMMIT to say. */
  get #syncsInCommit(): boolean {
    return this.#isRelaxed || this.#connection.inTransaction
  }
}

function nothing(): void {}

/** After a failed fsync, a later one that succeeds may not have stored what the first one did not. */
function walLost(cause: unknown): CellError {
  return new CellError('cell_quarantined', "The cell's log could not be written to the disk.", {
    reason: 'io_error',
    retryAfterMs: 2_000,
    cause,
  })
}
