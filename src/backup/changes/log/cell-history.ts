import { randomUUID } from 'node:crypto'
import type { Clock } from '../../../base/clock.ts'
import type { CellPaths } from '../../../base/files/store-paths.ts'
import type { CellDatabase } from '../../../engine/cell-database.ts'
import type { CommitTime } from '../../../engine/wal/commit-times.ts'
import { walBytes } from '../../../engine/wal/wal-file.ts'
import type { BackupProgress } from '../backup-progress.ts'
import { type FileFingerprint, fingerprintOf } from '../file-fingerprint.ts'
import {
  type History,
  isBefore,
  isHistoryOutgrown,
  isTakenBack,
  isUntouchedSince,
  type Place,
  UnshippedTimes,
  unshippedSegments,
} from '../history.ts'
import type { LogPiece, LogPosition, ShippedPlace } from './cell-log.ts'
import { findUnkeptLog, type KeptLogs, unkeptLogOf } from './kept-logs.ts'
import type { Segment } from './segments.ts'

interface CellHistoryParts {
  progress: BackupProgress
  paths: CellPaths
  logs: KeptLogs
  clock: Clock
  /** Called when there may be something to ship. */
  onUnshipped(): void
}

/** What a cell has not shipped yet. */
export interface Unshipped extends UnshippedPieces {
  /** Whether it is all of it. */
  isAll: boolean
}

/**
 * The history of one cell: its write-ahead logs without a gap, and the place up to which they are shipped. Segments stay until
 * they are. The proof is that of a chain (see `ChangeTracker`); where it fails, the history ends, and the next version begins a new one.
 *
 *     none ── cut of a version ──▶ begun ── stored ──▶ shipped from here on
 *       ▲                            │ failed                │ a change may be in no log; too much is not shipped
 *       └────────────────────────────┴───────────────────────┘
 */
export class CellHistory {
  readonly #parts: CellHistoryParts
  readonly #times: UnshippedTimes
  /** The cell, while it is open. */
  #database: CellDatabase | undefined
  /** The end of what was collected last: only that can be shipped. */
  #collected: Place | undefined
  /** Logs up to this one were kept by an earlier process, which may have been killed with the times of their commits. */
  readonly #foundNewest: number
  /** As in the row that was found: the first change since the newest version's cut. */
  readonly #foundChangedAt: number

  constructor(parts: CellHistoryParts) {
    this.#parts = parts
    const { history, changedAt } = parts.progress
    this.#times = new UnshippedTimes(history?.times)
    this.#foundNewest = history?.newest ?? 0
    this.#foundChangedAt = changedAt ?? 0
    this.#last = history === null ? 0 : Math.max(history.at, this.#foundChangedAt)
  }

  /** Undefined if nothing can be shipped: there is none, or the version with which it begins is not stored yet. */
  get shipped(): History | undefined {
    const { history } = this.#parts.progress
    return history?.isStored ? history : undefined
  }

  /** Set while the history begins with the creation of the cell, and its first version is still to come. */
  get ofNew(): History | undefined {
    const { history } = this.#parts.progress
    return history?.origin !== undefined && !history.isStored ? history : undefined
  }

  /** The newest time that was given to a commit or a cut. It outlives the history. */
  get #last(): number {
    return this.#parts.progress.line
  }

  set #last(time: number) {
    const { progress } = this.#parts
    progress.line = Math.max(progress.line, time)
  }

  /** As in the row, and of the commits since: no later commit of the cell may get an earlier time. */
  get line(): number {
    this.#last = this.#database?.times?.last ?? 0
    return this.#last
  }

  get #history(): History | null {
    return this.#parts.progress.history
  }

  /** From here on the times of commits are noted. What is in the log was committed by a process that did not live to ship it. */
  opened(database: CellDatabase): void {
    const { clock, progress, onUnshipped } = this.#parts
    this.#database = database
    database.keepTimes({ clock, last: this.#last, onCommit: onUnshipped })
    const frames = database.checkpoints.frames()
    const history = this.#history
    if (frames > 0 || (!history?.isStored && progress.dirty)) onUnshipped()
    if (history === null) return
    const kept = this.#parts.logs.list()
    if (!isUntouchedSince(history, fingerprintOf(this.#parts.paths.database))) this.end()
    else this.#setBack(history, frames, kept)
    if (this.shipped !== undefined && unshippedSegments(history, kept)?.length !== 0) onUnshipped()
  }

  closed(): void {
    this.#takeTime()
    this.#database = undefined
  }

  /** The commits are all shipped: the next one is told of. */
  settled(): void {
    if (this.#database?.times !== undefined) this.#database.times.isNoted = false
  }

  /** The cut of a version, for which all is in segments that are proven. */
  cut(): LogPosition | undefined {
    const { logs, paths, progress } = this.#parts
    const at = this.#cutTime()
    const database = fingerprintOf(paths.database)
    if (database === undefined) return undefined
    const history = this.#history
    const kept = logs.list()
    const goesOn =
      history?.isStored &&
      isUntouchedSince(history, database) &&
      unshippedSegments(history, kept) !== undefined
    const last = kept.at(-1)
    const place = { sequence: logs.newest, frames: last?.sequence === logs.newest ? last.frames : 0 }
    // A segment that is shipped may have gone.
    if (goesOn && history.sequence === place.sequence) place.frames = Math.max(place.frames, history.frames)
    if (!goesOn) {
      this.end()
      // What was timed so far is in the version. Of a log that another program moved, it would be taken for times of the next one.
      this.#takeTime()
      progress.history = {
        id: randomUUID(),
        ...place,
        at,
        shippedAt: at,
        newest: logs.newest,
        sealed: logs.newest,
        database,
        isStored: false,
      }
    }
    const { id } = progress.history as History
    Object.assign(progress.history as History, { at, sealed: logs.newest, sealedAt: at })
    return { history: id, ...place, at }
  }

  /** The version of the cut is in the object store. */
  stored(position: LogPosition | undefined): void {
    const history = this.#history
    if (history === null || history.id !== position?.history || history.isStored) return
    history.isStored = true
    history.shippedSince = this.#parts.clock.now()
    this.#parts.onUnshipped()
  }

  /** The version of the cut is not stored: nothing could be restored from a history that begins with it. One of a new cell is tried again. */
  failed(): void {
    if (this.#history?.isStored === false && this.ofNew === undefined) this.end()
  }

  /** The log was kept as the newest segment. */
  kept(): void {
    const { logs } = this.#parts
    const history = this.#history
    const times = this.#takeTime()
    if (history === null) return
    this.#times.add(logs.newest, times)
    Object.assign(history, { newest: logs.newest, at: this.#last })
  }

  /** Our own checkpoint has moved what was kept. */
  checkpointed(now: FileFingerprint): void {
    if (this.#history !== null) this.#history.database = now
  }

  /** Ends if another program wrote the file. */
  check(now: FileFingerprint | undefined): void {
    if (this.#history !== null && !isUntouchedSince(this.#history, now)) this.end()
  }

  /** Ends if what is not shipped costs more than another base. */
  bound(kept: readonly Segment[], databaseBytes: number): void {
    const history = this.#history
    const needed = kept.filter((each) => this.needs(each))
    if (history !== null && isHistoryOutgrown(history, needed, databaseBytes)) this.end()
  }

  end(): void {
    this.#parts.progress.history = null
    this.#times.clear()
    this.#collected = undefined
  }

  /** How many frames of the log with this number are shipped. */
  shippedOf(sequence: number): number {
    const history = this.shipped
    return history?.sequence === sequence ? history.frames : 0
  }

  /** Whether a segment has what is not shipped, or may grow. */
  needs({ sequence, frames }: Segment): boolean {
    const history = this.#history
    if (history === null || sequence < history.sequence) return false
    if (sequence > history.sequence || frames > history.frames) return true
    return sequence === history.newest && (fingerprintOf(this.#parts.paths.wal)?.size ?? 0) > 0
  }

  /**
   * Where the bytes are that are not shipped.
   *
   * @param room the most bytes, unless the first commit has more
   * @returns undefined if the history has ended, or cannot be shipped
   */
  collect(room: number): Unshipped | undefined {
    const history = this.shipped
    if (history === undefined) return undefined
    const { logs, paths } = this.#parts
    const kept = logs.list()
    const segments = unshippedSegments(history, kept)
    const isWhole = segments !== undefined && isUntouchedSince(history, fingerprintOf(paths.database))
    const live = isWhole ? this.#live(kept) : undefined
    // The segments of a cell that is kept closed are shipped first.
    const isOver = live === 'out of reach' ? segments?.length === 0 : isTakenBack(history, live)
    if (!isWhole || isOver) {
      this.end()
      return undefined
    }
    const isUnknown = live === 'later' || live === 'out of reach'
    const ofLive = live === undefined || isUnknown ? [] : [{ ...live, path: paths.wal }]
    const { end, ...unshipped } = takePieces([...segments, ...ofLive], history, room, (log, from) =>
      this.#times.between(log.sequence, from, log.frames, this.#untimed(log.sequence)),
    )
    this.#collected = end
    return { ...unshipped, isAll: !isUnknown && !unshipped.hasMore }
  }

  /** Notes that everything before the place is in the object store. @returns false if it says nothing about what is here */
  ship({ history: id, sequence, frames }: ShippedPlace): boolean {
    const history = this.shipped
    const place = { sequence, frames }
    if (history?.id !== id || this.#collected === undefined || isBefore(this.#collected, place)) return false
    if (!isBefore(history, place)) return false
    Object.assign(history, place)
    history.at = Math.max(history.at, this.#last)
    history.shippedAt = this.#times.at(place) ?? history.at
    this.#times.dropThrough(place)
    return true
  }

  /** As the row has it. @param withTimes of unshipped commits, when this process is about to forget them */
  row(withTimes: boolean): History | null {
    return this.#history && { ...this.#history, times: withTimes ? this.#times.saved() : undefined }
  }

  /**
   * A power loss may have taken from the log what was shipped and not fsynced yet. So the last commit that is found is
   * shipped once more: that piece replaces whatever was shipped after its beginning.
   */
  #setBack(history: History, frames: number, kept: readonly Segment[]): void {
    this.#collected = undefined
    const shippedTo = history.frames
    const live = unkeptLogOf(this.#parts, frames, kept)
    const segment = kept.find(({ sequence }) => sequence === history.sequence)
    if (history.sequence > history.newest || live?.sequence === history.sequence) {
      const before =
        live === undefined ? 0 : (this.#database as CellDatabase).checkpoints.framesBefore(live.frames)
      history.frames = Math.min(history.frames, before)
      this.#times.dropAfter({ sequence: history.sequence, frames: live?.frames ?? 0 })
    } else if (segment !== undefined && history.frames > segment.frames) {
      // What was shipped of this log after its segment was kept is gone, and nothing would replace it.
      this.end()
      return
    }
    if (live === undefined) return
    const isShipped = live.sequence === history.sequence && live.frames <= shippedTo
    this.#times.add(live.sequence, [
      [live.frames, isShipped ? history.shippedAt : this.#earliest(history, live.sequence)],
    ])
  }

  /** The time of commits in a log that this process has not timed: it has found them, or another program makes them now. */
  #untimed(sequence: number): number {
    const history = this.shipped
    if (history === undefined || sequence > this.#foundNewest) return this.#now()
    return this.#earliest(history, sequence)
  }

  /**
   * No commit of the log that is not shipped was made before it. Those whose times went with their process get it: at any later time,
   * a restore to a moment would lack commits that were acknowledged before that.
   */
  #earliest({ shippedAt, sealed, sealedAt, at }: History, sequence: number): number {
    if (sequence <= sealed) return shippedAt
    return Math.max(shippedAt, (sealedAt ?? at) + 1, this.#foundChangedAt)
  }

  #live(kept: readonly Segment[]): ReturnType<typeof findUnkeptLog> {
    const live = findUnkeptLog(this.#parts, this.#database, kept)
    if (this.#database?.holds.framesToKeep() === undefined) return live
    const times = this.#takeTime()
    if (typeof live === 'object') this.#times.add(live.sequence, times)
    return live
  }

  #takeTime() {
    const times = this.#database?.times
    const taken = times?.take() ?? []
    this.#last = times?.last ?? 0
    return taken
  }

  /** What is committed after a cut gets a later time: at its own, the version is exactly what the cell was. */
  #cutTime(): number {
    const at = this.#database?.times?.cut() ?? Math.max(this.#parts.clock.now(), this.#last)
    this.#last = at + 1
    return at
  }

  #now(): number {
    const times = this.#database?.times
    this.#last = times?.now() ?? this.#parts.clock.now()
    return this.#last
  }
}

/** What a cell has not shipped yet, or as much of it as there is room for. */
interface UnshippedPieces {
  pieces: LogPiece[]
  bytes: number
  /** Whether there was no room for some of it. */
  hasMore: boolean
}

/** The live log, or a segment. */
type LogWithFrames = Pick<Segment, 'sequence' | 'frames' | 'pageSize' | 'salts' | 'path'>

/**
 * Takes what follows a place, commit by commit.
 *
 * @param room the most bytes, unless the first commit has more
 * @param commitsOf those of a log's frames; the last one has all frames
 * @returns the pieces, and the place at which they end
 */
function takePieces(
  logs: readonly LogWithFrames[],
  from: Place,
  room: number,
  commitsOf: (log: LogWithFrames, from: number) => CommitTime[],
): UnshippedPieces & { end: Place } {
  const pieces: LogPiece[] = []
  let bytes = 0
  let end: Place = { sequence: from.sequence, frames: from.frames }
  for (const log of logs) {
    const { sequence, salts, pageSize, path } = log
    const begin = end.sequence === sequence ? end.frames : 0
    if (begin >= log.frames) continue
    const bytesUpTo = (frames: number) =>
      walBytes(frames, pageSize) - (begin === 0 ? 0 : walBytes(begin, pageSize))
    const commits = commitsOf(log, begin).filter(
      ([frames], i) => (pieces.length === 0 && i === 0) || bytes + bytesUpTo(frames) <= room,
    )
    const to = commits.at(-1)?.[0]
    if (to !== undefined) {
      pieces.push({ sequence, salts, pageSize, from: begin, to, path, commits })
      bytes += bytesUpTo(to)
      end = { sequence, frames: to }
    }
    if (to !== log.frames) return { pieces, bytes, hasMore: true, end }
  }
  return { pieces, bytes, hasMore: false, end }
}
