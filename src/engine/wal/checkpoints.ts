import fs from 'node:fs'
import { CellError } from '../../errors.ts'
import { PAGE_BYTES } from '../cell-settings.ts'
import type { CellState } from '../cell-state.ts'
import type { KeptReads } from '../kept-reads.ts'
import type { Connection, Statement } from '../sqlite.ts'
import { WalReader, walBytes } from './wal-file.ts'

export interface WalState {
  /** Frames in the write-ahead log, up to the last commit. */
  frames: number
  /** How many of these are already in the database file. */
  checkpointed: number
}

export interface CheckpointBounds {
  /** Checkpoint once the log has this many bytes. */
  checkpointBytes: number
  /** Refuse changes once it has this many, until the log can be moved. */
  walBytesMax: number
}

export interface CheckpointEvents {
  /** Before frames are moved into the database, and may be overwritten. */
  before(wal: WalState): void
  after(): void
  /** Translates the error of a checkpoint that a caller asked for. */
  failure(error: unknown): CellError
  /** A checkpoint that nobody asked for has failed. Must not throw. */
  failed(error: unknown): void
  /** The log's file is long, and nothing keeps it from being cut: {@link Checkpoints.shorten}. Must not throw. */
  long(): void
}

/** Measuring the log costs as much as a read, so small changes of known size are counted first. */
const WEIGHT_BETWEEN_MEASURES = 64
const REFUSED_BETWEEN_TRIES = 32
/** The weight of a change of unknown size: the log is measured after it. */
export const UNKNOWN_WEIGHT = WEIGHT_BETWEEN_MEASURES

/** After a checkpoint the log begins again and is a little longer than that by then. What is longer has held a long transaction. */
const LONG_CHECKPOINTS = 2

/** Bytes from which a write-ahead log is long: it keeps them until it is cut. */
export function longLogBytes(checkpointBytes: number): number {
  return LONG_CHECKPOINTS * checkpointBytes
}

/** Moves a cell's write-ahead log into its database file. Nothing else does (invariant 7). */
export class Checkpoints {
  readonly #connection: Connection
  readonly #path: string
  readonly #bounds: CheckpointBounds
  readonly #events: CheckpointEvents
  readonly #state: CellState
  readonly #reads: KeptReads
  #query: Statement | undefined
  #weight = 0
  /** The length of the log at which the next checkpoint is tried. */
  #nextBytes: number
  /** The log has passed its bound and was not reset since. */
  #isOvergrown = false
  #refused = 0
  /** Frames in the log when there was last no room to move them. */
  #triedToRelieve = 0
  #readDescriptor: number | undefined
  #closed = false
  /** Frames after the newest commit, if they were counted since. */
  #frames: number | undefined
  /** The log is long, and what is pending has to be stored first. */
  #isDue = false
  /** A checkpoint has moved all of the log, and nothing was committed since. */
  #isAllMoved = false
  /** The log's file was found to be long, and was not cut since. */
  #isLong = false

  constructor(
    connection: Connection,
    { path, state, reads }: { path: string; state: CellState; reads: KeptReads },
    bounds: CheckpointBounds,
    events: CheckpointEvents,
  ) {
    this.#connection = connection
    this.#path = path
    this.#state = state
    this.#reads = reads
    this.#bounds = bounds
    this.#events = events
    this.#nextBytes = bounds.checkpointBytes
  }

  state(): WalState {
    this.#reads.end()
    this.#query ??= this.#connection.prepare('PRAGMA main.wal_checkpoint(NOOP)').raw() as Statement
    const [, frames, checkpointed] = this.#query.get() as [number, number, number]
    return { frames: Math.max(frames, 0), checkpointed: Math.max(checkpointed, 0) }
  }

  /** As {@link state}. */
  frames(): number {
    return this.state().frames
  }

  /** How many frames the log had after the newest commit through this connection: asked once for each, if at all. */
  framesOfCommit(): number {
    this.#frames ??= this.state().frames
    return this.#frames
  }

  /** As {@link framesOfCommit}; 0 while all of them are in the database: the next commit may begin the log again. */
  framesNeeded(): number {
    return this.#isAllMoved ? 0 : this.framesOfCommit()
  }

  /** As {@link framesOfCommit}, if it is known. */
  get knownFrames(): number | undefined {
    return this.#frames
  }

  /** The log's file is long: {@link shorten} cuts it. */
  get isLong(): boolean {
    return this.#isLong
  }

  /** How many frames the log had before the commit that ends at so many. @throws `Error` if the log is not as SQLite says */
  framesBefore(frames: number): number {
    using log = new WalReader(`${this.#path}-wal`)
    return log.framesBefore(frames)
  }

  get inTransaction(): boolean {
    return this.#connection.inTransaction
  }

  /**
   * Moves the write-ahead log into the database file.
   *
   * @returns false if it could not finish: something holds it up, or a transaction is open
   */
  run(mode: 'PASSIVE' | 'TRUNCATE' = 'PASSIVE'): boolean {
    this.#state.assertUsable()
    try {
      return this.#run(mode)
    } catch (error) {
      throw this.#events.failure(error)
    }
  }

  #run(mode: 'PASSIVE' | 'TRUNCATE'): boolean {
    if (this.#connection.inTransaction) return false
    this.#frames = undefined
    const wal = this.state()
    const isLong = mode === 'TRUNCATE' && this.#hasLongFile()
    if (wal.frames > wal.checkpointed) this.#events.before(wal)
    else if (mode === 'PASSIVE' || (wal.frames === 0 && !isLong)) return true
    const isComplete = this.#checkpoint(mode)
    this.#events.after()
    this.#isAllMoved = isComplete
    if (isComplete) {
      this.#nextBytes = this.#bounds.checkpointBytes
      this.#triedToRelieve = 0
    }
    return isComplete
  }

  /** @returns false if something holds it up */
  #checkpoint(mode: 'PASSIVE' | 'TRUNCATE'): boolean {
    const [row] = this.#connection.pragma(`main.wal_checkpoint(${mode})`) as {
      busy: number
      log: number
      checkpointed: number
    }[]
    return row !== undefined && row.busy === 0 && row.checkpointed >= row.log
  }

  #hasLongFile(): boolean {
    const bytes = fs.statSync(`${this.#path}-wal`, { throwIfNoEntry: false })?.size ?? 0
    return bytes > longLogBytes(this.#bounds.checkpointBytes)
  }

  /**
   * For a disk without room: if the database need not grow for it, the log is moved, and the next commits overwrite the
   * log in place. Never throws.
   */
  relieve(): void {
    try {
      const { frames, checkpointed } = this.state()
      if (frames === checkpointed || frames === this.#triedToRelieve) return
      this.#triedToRelieve = frames
      this.#run('PASSIVE')
    } catch (error) {
      this.#events.failed(error)
    }
  }

  /**
   * Before a change. While another program keeps reading the log, SQLite can't reset it, and it grows with every commit: at
   * its bound, changes are refused until that program has ended its read.
   *
   * @throws `busy`
   */
  assertRoom(): void {
    if (!this.#isOvergrown || this.#connection.inTransaction) return
    // Each try reads all of the log: so only the first refused change makes one, and then one of many.
    if (this.#refused++ % REFUSED_BETWEEN_TRIES === 0 && this.#run('TRUNCATE')) {
      this.#isOvergrown = false
      this.#refused = 0
      return
    }
    const limit = this.#bounds.walBytesMax
    throw new CellError(
      'busy',
      `Another program or a read-only transaction reads the cell, and its log has reached ${limit} bytes (limits.walBytesMax). Try again when that has ended.`,
      { limit },
    )
  }

  /** A reader of our own is gone: the next change tries at once to move the log. */
  readerEnded(): void {
    this.#refused = 0
  }

  /**
   * A descriptor for reading the database file beside SQLite. It stays open until SQLite has closed its own: closing any
   * descriptor of the file drops all of the process's POSIX locks on it (invariant 4).
   */
  readDescriptor(): number {
    this.#readDescriptor ??= fs.openSync(this.#path, 'r')
    return this.#readDescriptor
  }

  /**
   * After a commit.
   *
   * @param weight how many small changes it is worth in length of the log
   * @param isPending its fsync is still to come: see {@link stored}
   */
  committed(weight: number, isPending: boolean): void {
    this.#frames = undefined
    this.#isAllMoved = false
    this.#weight += weight
    if (this.#weight >= WEIGHT_BETWEEN_MEASURES) this.measure(isPending)
  }

  /** What was pending is on disk: the checkpoint that is due runs now. If it fails, no commit is refused for it. Never throws. */
  stored(): void {
    if (this.#isDue) this.measure()
    else if (this.#isLong) this.#events.long()
  }

  /** What was never committed may have left a long file: after a rollback, and at the opening. Never throws. */
  lookForLong(): void {
    try {
      if (!this.#isLong && !this.#hasLongFile()) return
    } catch {
      // The next change will tell.
      return
    }
    this.#isLong = true
    this.#events.long()
  }

  /** Cuts the log, if it is long, and not in use: otherwise it is tried again after the next checkpoint. Never throws. */
  shorten(): void {
    if (!this.#isLong || this.#closed || this.#connection.inTransaction || !this.#state.usable) return
    try {
      this.#isLong = !this.#run('TRUNCATE')
    } catch (error) {
      this.#isLong = false
      this.#events.failed(error)
    }
  }

  /** Measures the log, and checkpoints if it is long. Never throws: the commit before it has succeeded. */
  measure(isPending = false): void {
    this.#weight = 0
    this.#isDue = false
    if (this.#closed) return
    try {
      const { frames, checkpointed } = this.state()
      this.#frames = frames
      const bytes = walBytes(frames, PAGE_BYTES)
      this.#isOvergrown = bytes > this.#bounds.walBytesMax
      if (frames === checkpointed || bytes < this.#nextBytes) return
      // Where something is always pending, the log must not grow for ever.
      this.#isDue = isPending && bytes < this.#nextBytes + this.#bounds.checkpointBytes
      if (this.#isDue) return
      // While another program reads the log, each try costs as much again: the next one waits until the log has grown.
      this.#nextBytes = bytes + this.#bounds.checkpointBytes
      if (!this.#run('PASSIVE')) return
      if (bytes > longLogBytes(this.#bounds.checkpointBytes)) this.#isLong = true
      if (this.#isLong) this.#events.long()
    } catch (error) {
      // Inside a transaction SQLite does not tell.
      if (!this.#connection.inTransaction) this.#events.failed(error)
    }
  }

  /** Before the connection is closed: the log is moved while errors can still be told. Never throws. */
  closing(): void {
    try {
      if (this.#state.usable) this.#run('TRUNCATE')
    } catch (error) {
      this.#events.failed(error)
    }
  }

  /** The connection is closed. */
  closed(): void {
    this.#closed = true
    if (this.#readDescriptor === undefined) return
    fs.closeSync(this.#readDescriptor)
    this.#readDescriptor = undefined
  }
}
