import fs from 'node:fs'
import { CellError } from '../errors.ts'
import { PAGE_BYTES } from './cell-settings.ts'
import type { Connection, Statement } from './sqlite.ts'
import { walBytes } from './wal-file.ts'

export interface WalState {
  /** Frames in the write-ahead log, up to the last commit. */
  frames: number
  /** Of these, already in the database file. */
  checkpointed: number
}

export interface CheckpointHold {
  /** The file was written to all the same: what was read of it is worthless. */
  readonly broken: boolean
  release(): void
}

export interface CheckpointBounds {
  /** Checkpoint once the log holds this many bytes. */
  checkpointBytes: number
  /** Break holds once it holds this many. */
  walBytesMax: number
}

export interface CheckpointEvents {
  /** Before frames are moved into the database, and may be overwritten. */
  before(wal: WalState): void
  after(): void
  /** A checkpoint that nobody asked for did not work out. Must not throw. */
  failed(error: unknown): void
}

/** A look at the log costs as much as a read. So small changes, whose size is known, are counted first. */
const WEIGHT_BETWEEN_MEASURES = 64
const REFUSED_BETWEEN_TRIES = 32
/** The weight of a change of unknown size: it is followed by a look. */
export const UNKNOWN_WEIGHT = WEIGHT_BETWEEN_MEASURES

/** When a cell's write-ahead log is moved into its database file: only here (invariant 7). */
export class Checkpoints {
  readonly #connection: Connection
  readonly #path: string
  readonly #bounds: CheckpointBounds
  readonly #events: CheckpointEvents
  #state: Statement | undefined
  readonly #holds = new Set<{ broken: boolean }>()
  #weight = 0
  /** The length of the log at which the next checkpoint is tried. */
  #nextBytes: number
  /** The log has passed its bound, and was not begun anew since. */
  #isOvergrown = false
  #refused = 0
  /** Frames that were in the log when there was no room to move them. */
  #triedToRelieve = 0
  #readDescriptor: number | undefined
  #closed = false

  constructor(connection: Connection, path: string, bounds: CheckpointBounds, events: CheckpointEvents) {
    this.#connection = connection
    this.#path = path
    this.#bounds = bounds
    this.#events = events
    this.#nextBytes = bounds.checkpointBytes
  }

  /** True while somebody reads the file. */
  get held(): boolean {
    return this.#holds.size > 0
  }

  state(): WalState {
    this.#state ??= this.#connection.prepare('PRAGMA main.wal_checkpoint(NOOP)').raw() as Statement
    const [, frames, checkpointed] = this.#state.get() as [number, number, number]
    return { frames: Math.max(frames, 0), checkpointed: Math.max(checkpointed, 0) }
  }

  /** @returns false if it could not be finished: something holds it up, or a transaction is open */
  run(mode: 'PASSIVE' | 'TRUNCATE'): boolean {
    if (this.#isForbidden() || this.#connection.inTransaction) return false
    const wal = this.state()
    if (wal.frames > wal.checkpointed) this.#events.before(wal)
    else if (mode === 'PASSIVE' || wal.frames === 0) return true
    const [row] = this.#connection.pragma(`main.wal_checkpoint(${mode})`) as {
      busy: number
      log: number
      checkpointed: number
    }[]
    this.#events.after()
    const isComplete = row !== undefined && row.busy === 0 && row.checkpointed >= row.log
    if (isComplete) {
      this.#nextBytes = this.#bounds.checkpointBytes
      this.#triedToRelieve = 0
    }
    return isComplete
  }

  /**
   * The disk has no room left. Where the database need not grow for what the log holds, that is moved, and the next commits
   * overwrite the log in place. Never throws.
   */
  relieve(): void {
    try {
      const { frames, checkpointed } = this.state()
      if (frames === checkpointed || frames === this.#triedToRelieve) return
      this.#triedToRelieve = frames
      this.run('PASSIVE')
    } catch (error) {
      this.#events.failed(error)
    }
  }

  /**
   * Before a change. A log that can't be begun anew, because another program has been reading it all along, would grow with
   * every commit: at its bound, changes are refused until that program is done.
   *
   * @throws `busy`
   */
  assertRoom(): void {
    if (!this.#isOvergrown || this.#connection.inTransaction) return
    // Each try costs a look at all of the log: the first counts, and then one of many.
    if (this.#refused++ % REFUSED_BETWEEN_TRIES === 0 && this.run('TRUNCATE')) {
      this.#isOvergrown = false
      this.#refused = 0
      return
    }
    const limit = this.#bounds.walBytesMax
    throw new CellError(
      'busy',
      `Another program reads the cell, and its log has reached ${limit} bytes meanwhile. Try again when that has ended.`,
      { limit },
    )
  }

  hold(): CheckpointHold {
    const state = { broken: false }
    this.#holds.add(state)
    return {
      get broken() {
        return state.broken
      },
      release: () => {
        if (!this.#holds.delete(state)) return
        if (this.#closed) this.#closeDescriptor()
        else this.measure()
      },
    }
  }

  readDescriptor(): number {
    this.#readDescriptor ??= fs.openSync(this.#path, 'r')
    return this.#readDescriptor
  }

  /** After a commit. @param weight how many small changes it is worth in length of the log */
  committed(weight: number): void {
    this.#weight += weight
    if (this.#weight >= WEIGHT_BETWEEN_MEASURES) this.measure()
  }

  /** Looks at the log, and checkpoints if it is long. Never throws: whoever has just committed has committed. */
  measure(): void {
    this.#weight = 0
    if (this.#closed || this.#connection.inTransaction) return
    try {
      const { frames, checkpointed } = this.state()
      const bytes = walBytes(frames, PAGE_BYTES)
      this.#isOvergrown = bytes > this.#bounds.walBytesMax
      if (frames === checkpointed || bytes < this.#nextBytes) return
      if (bytes > this.#bounds.walBytesMax) this.#breakHolds()
      else if (this.#isForbidden()) return
      // Where another program reads the log, each try would cost as much again: the next one waits until it has grown.
      this.#nextBytes = bytes + this.#bounds.checkpointBytes
      this.run('PASSIVE')
    } catch (error) {
      this.#events.failed(error)
    }
  }

  /** The connection is about to be closed, with SQLite's own checkpoint, which asks no hold. */
  closing(): void {
    this.#breakHolds()
    this.#closed = true
  }

  /**
   * The connection is closed. Whoever still reads the file keeps the descriptor until it is done: closed at once, its number
   * could be another file's before the next read.
   */
  closed(): void {
    this.#closeDescriptor()
  }

  #isForbidden(): boolean {
    for (const { broken } of this.#holds) if (!broken) return true
    return false
  }

  #breakHolds(): void {
    for (const hold of this.#holds) hold.broken = true
  }

  #closeDescriptor(): void {
    if (this.#readDescriptor === undefined || this.#holds.size > 0) return
    fs.closeSync(this.#readDescriptor)
    this.#readDescriptor = undefined
  }
}
