import { COMMIT_TIMES_MAX, type CommitTime, thinned } from '../../engine/wal/commit-times.ts'
import { walBytes } from '../../engine/wal/wal-file.ts'
import { type FileFingerprint, sameFingerprint } from './file-fingerprint.ts'
import type { Segment } from './log/segments.ts'

/** What is not shipped of a cell may be as large as its database, but always this. */
const UNSHIPPED_BYTES_MIN = 64 * 1_048_576

/** The unbroken row of a cell's write-ahead logs, as its row in `local.db` has it (docs/decisions/0021). */
export interface History {
  id: string
  /** Up to this place everything is shipped: so many frames of the log with this number. */
  sequence: number
  frames: number
  /** The time of the newest commit that is known, in epoch milliseconds: no later one gets an earlier time. */
  at: number
  /** The time of the commit that ends at the place. */
  shippedAt: number
  /** When the version was stored with which it begins: collected is what was asked for later. */
  shippedSince?: number | undefined
  /** The newest number in use. */
  newest: number
  /** Segments up to this one are in versions, or will be: none of them may grow. */
  sealed: number
  /** When the version was cut that has sealed them: what is in later ones was committed after it. Rows of earlier versions lack it. */
  sealedAt?: number | undefined
  /** The database file as our own last checkpoint left it. */
  database: FileFingerprint
  /** The version is stored with which it begins: what follows can be restored. */
  isStored: boolean
  /** Of a history that begins with the creation of its cell: the database file as it was made. */
  origin?: FileFingerprint | undefined
  /** That cell was made empty, and not of a file or of another cell. */
  isEmpty?: boolean | undefined
  /** When unshipped commits were made, as the process knew when it closed the cell. */
  times?: TimedFrames[] | undefined
}

/** So many frames of the log of this number were there when the millisecond `time` was over. */
type TimedFrames = [sequence: number, frames: number, time: number]

/** A place in the history. */
export interface Place {
  sequence: number
  frames: number
}

export function isBefore(a: Place, b: Place): boolean {
  return a.sequence < b.sequence || (a.sequence === b.sequence && a.frames < b.frames)
}

/** The segments with something that is not shipped. @returns undefined if one is missing: then the history has ended */
export function unshippedSegments(history: History, kept: readonly Segment[]): Segment[] | undefined {
  const after = kept.filter(({ sequence }) => sequence > history.sequence)
  const isComplete = after.every(({ sequence }, i) => sequence === history.sequence + 1 + i)
  // A segment that the row does not know was kept before a power loss took the row back, and may lack what was shipped then.
  const isKnown = kept.every(({ sequence }) => sequence <= history.newest)
  const isPast = history.sequence > history.newest && isKnown
  if (!isPast && (!isComplete || history.sequence + after.length !== history.newest)) return undefined
  const begun = kept.filter(
    ({ sequence, frames }) => sequence === history.sequence && frames > history.frames,
  )
  return [...begun, ...after]
}

/** Whether what is not shipped costs more than another base. @param needed the segments that have some of it */
export function isHistoryOutgrown(
  { sequence, frames }: History,
  needed: readonly Segment[],
  databaseBytes: number,
): boolean {
  // What is shipped of a segment is a hole, or there for others.
  const unshipped = ({ size, pageSize, ...segment }: Segment) =>
    segment.sequence === sequence ? Math.max(0, size - walBytes(frames, pageSize)) : size
  const bytes = needed.reduce((sum, each) => sum + unshipped(each), 0)
  return bytes > Math.max(databaseBytes, UNSHIPPED_BYTES_MIN)
}

/** What is shipped of the live log is no longer there: another program has begun it again. */
export function isTakenBack(history: History, live: Place | undefined | 'later'): boolean {
  if (live === 'later') return false
  if (live?.sequence === history.sequence) return live.frames < history.frames
  return history.sequence > history.newest && history.frames > 0
}

/** The history of a cell that was made at `at`, with the database file `origin`. Its first version is still to come. */
export function historyOfNew(id: string, at: number, origin: FileFingerprint, isEmpty: boolean): History {
  const none = { sequence: 0, frames: 0, newest: 0, sealed: 0 }
  return { id, ...none, at, shippedAt: at, database: origin, origin, isEmpty, isStored: false }
}

/** Whether no other program has written the database file. */
export function isUntouchedSince(history: History, now: FileFingerprint | undefined): boolean {
  return now !== undefined && sameFingerprint(now, history.database)
}

export function isHistory({
  id,
  sequence,
  frames,
  at,
  shippedAt,
  newest,
  sealed,
  ...rest
}: History): boolean {
  const numbers = [sequence, frames, at, shippedAt, newest, sealed]
  return (
    typeof id === 'string' &&
    numbers.every((each) => Number.isSafeInteger(each) && each >= 0) &&
    typeof rest.database?.size === 'number' &&
    typeof rest.isStored === 'boolean' &&
    (rest.origin === undefined || typeof rest.origin.size === 'number') &&
    (rest.times === undefined || Array.isArray(rest.times))
  )
}

/** A row in `local.db` keeps at most so many. */
const SAVED_MAX = 4_096

/** When the commits of a cell were made that are not shipped yet, in all of its logs. */
export class UnshippedTimes {
  #entries: TimedFrames[] = []

  constructor(saved: readonly TimedFrames[] = []) {
    this.#entries = [...saved]
  }

  add(sequence: number, times: readonly CommitTime[]): void {
    for (const [frames, time] of times) {
      const last = this.#entries.at(-1)
      if (last === undefined || isBefore({ sequence: last[0], frames: last[1] }, { sequence, frames }))
        this.#entries.push([sequence, frames, time])
    }
    while (this.#entries.length > COMMIT_TIMES_MAX) this.#entries = thinned(this.#entries)
  }

  /**
   * Of the log's frames after `from`, up to `to`; the last entry has `to`.
   *
   * @param untimed the time of commits that nobody has timed, as far as it is between those of their neighbours
   */
  between(sequence: number, from: number, to: number, untimed: number): CommitTime[] {
    const known = this.#entries
      .filter(([of, frames]) => of === sequence && frames > from && frames <= to)
      .map(([, frames, time]): CommitTime => [frames, time])
    if (known.at(-1)?.[0] === to) return known
    const end = { sequence, frames: to }
    const after = this.#entries.findIndex(([of, frames]) => isBefore(end, { sequence: of, frames }))
    const at = after === -1 ? this.#entries.length : after
    const next = this.#entries[at]?.[2] ?? Number.POSITIVE_INFINITY
    const time = Math.max(this.#entries[at - 1]?.[2] ?? 0, Math.min(untimed, next))
    this.#entries.splice(at, 0, [sequence, to, time])
    return [...known, [to, time]]
  }

  /** When the commit was made that ends at the place, if it is not known to be shipped. */
  at({ sequence, frames }: Place): number | undefined {
    return this.#entries.find((entry) => entry[0] === sequence && entry[1] === frames)?.[2]
  }

  /** What is shipped needs no times. */
  dropThrough(place: Place): void {
    this.#entries = this.#entries.filter(([sequence, frames]) => isBefore(place, { sequence, frames }))
  }

  /** What is after the place was taken back. */
  dropAfter(place: Place): void {
    this.#entries = this.#entries.filter(([sequence, frames]) => !isBefore(place, { sequence, frames }))
  }

  clear(): void {
    this.#entries = []
  }

  saved(): TimedFrames[] {
    let saved = this.#entries
    while (saved.length > SAVED_MAX) saved = thinned(saved)
    return saved
  }
}
