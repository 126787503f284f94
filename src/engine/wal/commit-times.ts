import type { Clock } from '../../base/clock.ts'

/** The log had so many frames when the millisecond (epoch) was over, or a little later: no commit is later than it was made. */
export type CommitTime = [frames: number, time: number]

/** The write-ahead log of an open cell. */
export interface TimedLog {
  /** Up to the last commit. Can't be asked inside a transaction. */
  frames(): number
  /** Where the commit begins that ends at so many frames. */
  framesBefore(frames: number): number
  readonly inTransaction: boolean
}

export interface TimesOptions {
  clock: Clock
  /** The time of the last commit that was timed before: no later one gets an earlier time. */
  last: number
  /** Called at the first commit since {@link CommitTimes.isNoted} was cleared. Must not throw. */
  onCommit(): void
}

/** At one entry a millisecond, a minute of commits without a break. Past this, every second entry goes. */
export const COMMIT_TIMES_MAX = 65_536

/**
 * Notes when the commits of an open cell were made, at most one entry per millisecond. A commit only marks its millisecond;
 * how many frames the log had at its end is asked once a later one begins, because each question costs a few microseconds.
 */
export class CommitTimes {
  /** {@link TimesOptions.onCommit} was called. Cleared, it is called again with the next commit. */
  isNoted = false
  readonly #log: TimedLog
  readonly #clock: Clock
  readonly #onCommit: () => void
  #entries: CommitTime[] = []
  /** The millisecond of the newest commit, or of what was timed before. */
  #last: number
  /** The commits of that millisecond have no entry yet. */
  #isOpen = false
  /** The millisecond of the first of them. */
  #openSince = 0
  /** How many frames the log has after the newest commit, if somebody has asked since. */
  #frames: number | undefined

  constructor(log: TimedLog, { clock, last, onCommit }: TimesOptions) {
    this.#log = log
    this.#clock = clock
    this.#last = last
    this.#onCommit = onCommit
  }

  /** The time of the newest commit; it never steps back. */
  get last(): number {
    return this.#last
  }

  /** Before a change, and before anything that asks for the frames. */
  changing(): void {
    if (this.#isOpen && this.#clock.now() > this.#last) this.#close()
  }

  /** After a commit. */
  committed(): void {
    const now = Math.max(this.#clock.now(), this.#last)
    // It began in the millisecond of the commits before it, and has ended in a later one.
    if (this.#isOpen && now > this.#last) this.#closeBeforeCommit()
    if (!this.#isOpen) this.#openSince = now
    this.#last = now
    this.#isOpen = true
    this.#frames = undefined
    if (this.isNoted) return
    this.isNoted = true
    this.#onCommit()
  }

  /** After a commit, and before the next one: the log has so many frames. It need not be asked again. */
  counted(frames: number): void {
    this.#frames = frames
  }

  /** A time that is not earlier than any commit so far, and not later than any that follows. */
  now(): number {
    this.changing()
    this.#last = Math.max(this.#clock.now(), this.#last)
    return this.#last
  }

  /** A time as of {@link now}, which all that follows is later than. */
  cut(): number {
    const at = this.now()
    if (this.#isOpen) this.#close()
    this.#last = at + 1
    return at
  }

  /** The entries since the last call: of one generation of the log, if it is called before each checkpoint. */
  take(): CommitTime[] {
    if (this.#isOpen) this.#close()
    const taken = this.#entries
    this.#entries = []
    return taken
  }

  #close(): void {
    if (this.#frames === undefined && this.#log.inTransaction) return
    try {
      this.#add(this.#frames ?? this.#log.frames())
    } catch {
      // It stays open: the next commits get its time.
    }
  }

  #closeBeforeCommit(): void {
    try {
      this.#add(this.#frames ?? this.#log.framesBefore(this.#log.frames()))
    } catch {
      // The commit that follows them gets their time.
    }
  }

  #add(frames: number): void {
    this.#isOpen = false
    if (frames <= (this.#entries.at(-1)?.[0] ?? 0)) return
    this.#entries.push([frames, this.#openSince])
    if (this.#entries.length > COMMIT_TIMES_MAX) this.#entries = thinned(this.#entries)
  }
}

/** Every second entry: its commits get the time of the entry before it, whose commits it has from here on. */
export function thinned<T extends number[]>(entries: readonly T[]): T[] {
  const kept = (i: number) => (entries.length - 1 - i) % 2 === 0
  return entries.flatMap((entry, i) =>
    kept(i) ? [entry.with(-1, entries[i - 1]?.at(-1) ?? (entry.at(-1) as number)) as T] : [],
  )
}
