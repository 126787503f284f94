import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import type { Clock, Timer } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { isCellError } from '../errors.ts'
import type { ExpiryHints } from './expiry-hints.ts'

/** Expired entries are invisible at once, so collecting them can wait until more have come together. */
const COLLECT_AFTER_MS = 1_000
/** A cell that could not be opened is looked at again after this. */
const RETRY_MS = 60_000
/** Timers don't notice that the clock was set, or that the machine slept: nothing waits longer than this. */
const LOOK_MS_MAX = 3_600_000

/** Collects what is expired in one cell, also in one that the pool has closed, and brings its hint up to date. */
export type CollectCell = (cellId: string, signal: AbortSignal) => Promise<void>

/** Has expired entries collected in the background, in all cells of the store, one cell after the other. */
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

  /** Collects what has expired, now and from here on. */
  start(collect: CollectCell): void {
    this.#collect = collect
    this.#schedule()
  }

  /** Told of every time to live that is set in a cell. Never throws: the entry is put, whatever becomes of the hint. */
  note(cellId: string, expiresAt: number): void {
    try {
      if (this.#hints.note(cellId, expiresAt) && expiresAt < this.#timerDue) this.#schedule()
    } catch (err) {
      this.#log.warn({ cellId, err }, 'when an entry expires could not be noted; it will be collected later')
    }
  }

  /** The hints have changed in another process: reads them again. */
  reschedule(): void {
    this.#schedule()
  }

  /** A cell that may hold expired entries: looked at soon. */
  sweepSoon(cellId: string): void {
    this.note(cellId, this.#clock.now())
  }

  /** Resolves once the batch that is running has ended. */
  async stop(): Promise<void> {
    this.#stop.abort()
    this.#timer?.cancel()
    await this.#sweeping
  }

  #schedule(): void {
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
      this.#schedule()
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
    try {
      await this.#collect?.(cellId, this.#stop.signal)
    } catch (err) {
      if (isCellError(err, 'cell_not_found')) return this.#hints.remove(cellId)
      this.#log.warn({ cellId, err }, 'expired entries could not be collected')
      this.#hints.set(cellId, this.#clock.now() + RETRY_MS)
    }
  }
}
