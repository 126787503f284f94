import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import type { CellDatabase } from '../engine/cell-database.ts'
import type { Clock, Timer } from '../engine/clock.ts'
import type { Log } from '../engine/log.ts'
import { isCellError } from '../errors.ts'
import type { ExpiryHints } from './expiry-hints.ts'
import { DELETE_EXPIRED, NEXT_EXPIRY } from './queries.ts'

/** Expired entries are invisible at once, so collecting them can wait until more have come together. */
const COLLECT_AFTER_MS = 1_000
/** A batch that takes longer is followed by a smaller one. */
const BATCH_MS_MAX = 3
const BATCH_MIN = 16
const BATCH_MAX = 1_024
/** A cell that could not be opened is looked at again after this. */
const RETRY_MS = 60_000
/** Timers don't notice that the clock was set, or that the machine slept: nothing waits longer than this. */
const LOOK_MS_MAX = 3_600_000

export interface SweepTarget {
  /** Opens the cell, also one that the pool has closed; `done` leaves it as it was found. Throws if it can't. */
  borrow(cellId: string): { database: CellDatabase; done: () => void }
}

/**
 * Collects expired entries in the background, in all cells of the store, also closed ones: in batches so small that none
 * holds up the event loop for more than a few milliseconds, with a turn of the loop between them.
 */
export class ExpirySweeper {
  readonly #hints: ExpiryHints
  readonly #target: SweepTarget
  readonly #clock: Clock
  readonly #log: Log
  #timer: Timer | undefined
  #timerDue = Number.POSITIVE_INFINITY
  #sweeping: Promise<void> | undefined
  #stopped = false

  constructor(hints: ExpiryHints, target: SweepTarget, clock: Clock, log: Log) {
    this.#hints = hints
    this.#target = target
    this.#clock = clock
    this.#log = log
  }

  start(): void {
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

  /** A cell that may hold expired entries: looked at soon. */
  lookAt(cellId: string): void {
    this.note(cellId, this.#clock.now())
  }

  /** Resolves once the batch that is running has ended. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#timer?.cancel()
    await this.#sweeping
  }

  #schedule(): void {
    if (this.#stopped || this.#sweeping !== undefined) return
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
      if (!this.#stopped) this.#setTimer(RETRY_MS)
    }
  }

  async #sweepDue(): Promise<void> {
    while (!this.#stopped) {
      const first = this.#hints.first()
      if (first === undefined || first.due > this.#clock.now()) return
      await this.#sweepCell(first.cellId)
      // Opening and closing a cell takes milliseconds too.
      await turnOfTheLoop()
    }
  }

  async #sweepCell(cellId: string): Promise<void> {
    try {
      const { database, done } = this.#target.borrow(cellId)
      try {
        await this.#collect(cellId, database)
      } finally {
        done()
      }
    } catch (err) {
      if (isCellError(err, 'cell_not_found')) return this.#hints.remove(cellId)
      this.#log.warn({ cellId, err }, 'expired entries could not be collected')
      this.#hints.set(cellId, this.#clock.now() + RETRY_MS)
    }
  }

  async #collect(cellId: string, database: CellDatabase): Promise<void> {
    const remove = database.prepare(DELETE_EXPIRED)
    let batch = BATCH_MIN
    while (!this.#stopped && database.open) {
      const started = this.#clock.monotonic()
      // A lost deletion of what is expired is made again: it needs no fsync of its own.
      const removed = database.withoutSync(() =>
        database.write(() => remove.run(this.#clock.now(), batch).changes, batch),
      )
      if (removed < batch) {
        const next = database.prepare(NEXT_EXPIRY).pluck().get() as number | null
        if (next === null) this.#hints.remove(cellId)
        else this.#hints.set(cellId, next)
        return
      }
      const slow = this.#clock.monotonic() - started > BATCH_MS_MAX
      batch = slow ? Math.max(BATCH_MIN, batch / 2) : Math.min(BATCH_MAX, batch * 2)
      await turnOfTheLoop()
    }
  }
}
