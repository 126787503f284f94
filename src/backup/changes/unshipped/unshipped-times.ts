import { COMMIT_TIMES_MAX, type CommitTime, thinned } from '../../../engine/wal/commit-times.ts'
import { isBefore, type Place, type TimedFrames } from '../history.ts'

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
   * @param now the time of commits that nobody has timed, unless later ones have an earlier time
   */
  between(sequence: number, from: number, to: number, now: number): CommitTime[] {
    const known = this.#entries
      .filter(([of, frames]) => of === sequence && frames > from && frames <= to)
      .map(([, frames, time]): CommitTime => [frames, time])
    if (known.at(-1)?.[0] === to) return known
    const end = { sequence, frames: to }
    const next = this.#entries.find(([of, frames]) => isBefore(end, { sequence: of, frames }))
    const last: CommitTime = [to, next?.[2] ?? now]
    if (next === undefined) this.add(sequence, [last])
    return [...known, last]
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
