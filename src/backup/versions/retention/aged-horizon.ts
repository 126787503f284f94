import type { Clock } from '../../../base/clock.ts'
import { ClockWatch } from '../clock-watch.ts'

/** As from the mark of a version to its removal: time to notice a clock or a setting that is wrong. */
const AGED_MS = 24 * 3_600_000

export interface KeptHorizons {
  /** What log objects may be older than to go; null if nothing was allowed for long enough. */
  allowed: number | null
  /** What was noted after that. In epoch milliseconds, as all of this. */
  noted: { at: number; horizon: number }
}

/** Keeps what was noted across restarts. */
export interface HorizonNotes {
  horizons(): KeptHorizons | undefined
  noteHorizons(kept: KeptHorizons): void
}

/**
 * The horizon of log retention: what is older may go. It counts a day after it was noted, and only as long as the current one allows
 * it too. So a start with a wrong clock, or once with too short a history, removes nothing that it should not.
 */
export class AgedHorizon {
  readonly #notes: HorizonNotes
  readonly #clock: Clock
  readonly #clockWatch: ClockWatch

  constructor(notes: HorizonNotes, clock: Clock) {
    this.#notes = notes
    this.#clock = clock
    this.#clockWatch = new ClockWatch(clock, AGED_MS)
  }

  /** Notes the horizon of now. @returns the one that counts; undefined if none does yet */
  of(historyMs: number): number | undefined {
    if (this.#clockWatch.isPaused()) return undefined
    const now = this.#clock.now()
    const horizon = now - historyMs
    const { allowed, noted } = this.#notes.horizons() ?? { allowed: null, noted: undefined }
    const isAged = noted !== undefined && now - noted.at >= AGED_MS
    // One from the future is none: the clock was wrong then, or is now.
    const isOver = noted === undefined || isAged || noted.at > now
    const counts = isAged ? noted.horizon : allowed
    if (isOver) this.#notes.noteHorizons({ allowed: counts, noted: { at: now, horizon } })
    return counts === null ? undefined : Math.min(counts, horizon)
  }
}
