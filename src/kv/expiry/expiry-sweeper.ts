import { unlessAborted } from '../../base/async/unless-aborted.ts'
import { type Clock, type Timer, turnOfTheLoop } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { isCellError } from '../../errors.ts'
import type { ExpiryHints } from './expiry-hints.ts'

/** Expired entries are invisible immediately, so their collection can wait for more of them. */
const COLLECT_AFTER_MS = 1_000
/** A cell that could not be opened is tried again after this time. */
const RETRY_MS = 60_000
/** One cell may hold up the others for so long: its worker may be busy with a tenant's statements. */
const CELL_MS_MAX = 10_000
/** The longest wait: timers do not notice that the clock was set, or that the machine slept. */
const LOOK_MS_MAX = 3_600_000

/** Collects the expired entries of one cell, open or closed, and updates its hint. */
export type CollectCell = (cellId: string, signal: AbortSignal) => Promise<void>

/** Collects expired entries in the background, in all cells of the store, one cell after the other. */
export class ExpirySweeper {
  readonly #hints: ExpiryHints
  #collect: CollectCell | undefined
  readonly #clock: Clock
  readonly #log: Log
  #timer: Timer | undefined
  #timerDue = Number.POSITIVE_INFINITY
  readonly #stop = new AbortController()
  #sweeping: Promise<void> | undefined

  constructor(hints: ExpiryHints, clock: Clock, log: Log) {
    this.#hints = hints
    this.#clock = clock
    this.#log = log
  }

  /** Starts to collect. */
  start(collect: CollectCell): void {
    this.#collect = collect
    this.reschedule()
  }

  /** Called for every time to live that is set in a cell. Never throws: the entry is stored, even if its hint is not. */
  note(cellId: string, expiresAt: number): void {
    try {
      if (this.#hints.note(cellId, expiresAt) && expiresAt < this.#timerDue) this.reschedule()
    } catch (err) {
      this.#log.warn({ cellId, err }, 'when an entry expires could not be noted; it will be collected later')
    }
  }

  /** Schedules a cell that may hold expired entries. */
  sweepSoon(cellId: string): void {
    this.note(cellId, this.#clock.now())
  }

  /** Resolves once the running batch has ended. */
  async stop(): Promise<void> {
    this.#stop.abort()
    this.#timer?.cancel()
    await this.#sweeping
  }

  /** Sets the timer for the first hint. Call it also when the hints have changed in another process. */
  reschedule(): void {
    if (this.#collect === undefined || this.#stop.signal.aborted || this.#sweeping !== undefined) return
    this.#timer?.cancel()
    this.#timer = undefined
    const first = this.#hints.first()
    this.#timerDue = first?.due ?? Number.POSITIVE_INFINITY
    if (first === undefined) return
    this.#setTimer(Math.max(first.due - this.#clock.now(), 0) + COLLECT_AFTER_MS)
  }

  #setTimer(delayMs: number): void {
    this.#timer = this.#clock.setTimer(
      () => {
        this.#sweeping = this.#sweep()
      },
      Math.min(delayMs, LOOK_MS_MAX),
    )
  }

  async #sweep(): Promise<void> {
    try {
      await this.#sweepDue()
      this.#sweeping = undefined
      this.reschedule()
    } catch (err) {
      this.#sweeping = undefined
      this.#log.error({ err }, 'expired entries cannot be collected now')
      if (!this.#stop.signal.aborted) this.#setTimer(RETRY_MS)
    }
  }

  async #sweepDue(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const first = this.#hints.first()
      if (first === undefined || first.due > this.#clock.now()) return
      await this.#sweepCell(first.cellId)
      // Opening and closing a cell takes milliseconds too.
      await turnOfTheLoop()
    }
  }

  async #sweepCell(cellId: string): Promise<void> {
    const late = new AbortController()
    const timer = this.#clock.setTimer(() => late.abort(tookTooLong()), CELL_MS_MAX)
    const signal = AbortSignal.any([this.#stop.signal, late.signal])
    try {
      await unlessAborted(this.#collect?.(cellId, signal) ?? Promise.resolve(), signal)
    } catch (err) {
      if (isCellError(err, 'cell_not_found')) return this.#hints.remove(cellId)
      this.#log.warn({ cellId, err }, 'expired entries could not be collected')
      this.#hints.set(cellId, this.#clock.now() + RETRY_MS)
    } finally {
      timer.cancel()
    }
  }
}

function tookTooLong(): Error {
  return new Error(`The cell was too busy for ${CELL_MS_MAX} ms; trying again.`)
}
