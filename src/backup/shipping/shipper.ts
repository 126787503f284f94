import { backOffMs } from '../../base/async/back-off.ts'
import type { Emitter } from '../../base/async/emitter.ts'
import { unlessAborted } from '../../base/async/unless-aborted.ts'
import type { Clock, Timer } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { CellError } from '../../errors.ts'
import type { CollectedLook } from '../changes/log/cell-log.ts'
import type { ObjectStore } from '../object-store/object-store.ts'
import { ClockWatch } from '../versions/clock-watch.ts'
import { type Flushed, Flushes, type FlushOptions } from './flushes.ts'
import type { LogObject } from './log/log-object.ts'
import { LogSequence } from './log/log-sequence.ts'
import type { EpochView, LogPort } from './log-port.ts'
import { ShippingOrder } from './log-selection.ts'
import { type Look, type LookParts, lookAtCells, type Outcome, UnreadableCells } from './look-at-cells.ts'
import { notBegun, type ShippingState } from './shipping-status.ts'
import type { LogRetention } from './stored/log-retention.ts'
import { UnshippedBound, unshippedBytes } from './unshipped-bound.ts'

/** Flushes make no more than ten objects per second. */
const TICK_MS_MIN = 100
const BACK_OFF = { minMs: 1_000, maxMs: 60_000 }
const DAY_MS = 86_400_000

/** At a stop, cells whose WALs are reset meanwhile are collected again so often. */
const LAST_TRIES_MAX = 10

export interface ShippingSettings {
  /** How long what a cell has committed is on this machine only. */
  lagMs: number
  /** How many bytes may wait if the object store does not answer. */
  bytesMax: number
}

interface ShipperParts {
  settings: ShippingSettings
  /** Writes for the newest epoch only. */
  objectStore: ObjectStore
  epoch: EpochView & { lost: Pick<Emitter<[CellError]>, 'listen'>; held: Pick<Emitter<[number]>, 'listen'> }
  /** Proves that the prefix is this store's, before the first object. */
  claim(signal: AbortSignal): Promise<void>
  cells: LogPort
  storeId: string
  spoolDirectory: string
  retention: Pick<LogRetention, 'runIfDue' | 'stop'>
  /** Called after each tick. */
  onState(state: ShippingState): void
  clock: Clock
  random: () => number
  log: Log
}

/**
 * Ships what all cells commit, one object per tick (docs/decisions/0021):
 *
 *     waiting ──lag, or a flush──▶ collecting ──nothing──▶ waiting
 *        ▲                             │ an object
 *        │                             ▼
 *        ├─────────stored────────── storing ──it failed──▶ backing off
 *        │                             ▲                        │
 *        └── if not all was collected  └──the same object again─┘
 *            it collects again
 *
 * It ends when another node takes over, or when it is stopped.
 */
export class Shipper {
  readonly #parts: ShipperParts
  readonly #sequence: LogSequence
  readonly #unreadable: UnreadableCells
  readonly #look: LookParts
  readonly #bound: UnshippedBound
  readonly #watch: LagWatch
  readonly #abort = new AbortController()
  #state: ShippingState
  /** Its object is made, and may be stored already. */
  #pending: Look | undefined
  readonly #flushes = new Flushes()
  #ticking: Promise<void> | undefined
  #isLooking = false
  #timer: { timer: Timer; at: number; keepsAlive: boolean } | undefined
  /** By the monotonic clock. */
  #begunAt = Number.NEGATIVE_INFINITY
  #failures = 0
  /** What waits is shipped once more, without a pause. */
  #isStopping = false
  #lastTries = 0
  /** Why it has ended. */
  #ended: CellError | undefined

  constructor(parts: ShipperParts) {
    const { objectStore, epoch, cells, settings, clock, log } = parts
    this.#parts = parts
    this.#sequence = new LogSequence(objectStore, epoch)
    this.#unreadable = new UnreadableCells(log)
    this.#bound = new UnshippedBound({ cells, bytesMax: settings.bytesMax, clock, log })
    this.#watch = new LagWatch(settings.lagMs, clock, log)
    const onCollected = ({ look, logs, withoutHistoryCount }: CollectedLook) => {
      this.#isLooking = false
      this.#flushes.lookedIn(look)
      this.#note({ waitingBytes: unshippedBytes(logs), withoutHistory: withoutHistoryCount })
    }
    const clockWatch = new ClockWatch(clock, DAY_MS)
    const [sequence, unreadable, order] = [this.#sequence, this.#unreadable, new ShippingOrder()]
    this.#look = { ...parts, sequence, unreadable, onCollected, clockWatch, order }
    this.#state = notBegun(clock.now())
    epoch.lost.listen((error) => this.#end(error))
  }

  /** Ships what waits, and goes on. Without an epoch it fails, and tries again once one is held. */
  start(): void {
    this.#watch.caughtUp()
    this.#plan(0)
    this.#parts.epoch.held.listen(() => this.#plan(0))
  }

  get state(): ShippingState {
    return this.#state
  }

  /** The newest log object, as far as this node knows. */
  get lastLogObject(): string | null {
    return this.#sequence.lastKey
  }

  /**
   * Resolves once everything that was committed before this call is stored and counts. For some cells, it waits for the processes that
   * may have them: no statement in another one holds it up.
   *
   * @throws `taken_over`, `store_closed`; what the object store throws: then it is shipped later
   */
  flush(signal?: AbortSignal, options: FlushOptions = {}): Promise<Flushed> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended)
    const flushed = this.#flushes.add(options)
    // One hurry is enough.
    if (this.#isLooking && (options.cells ?? []).length > 0) {
      this.#isLooking = false
      void this.#parts.cells.hurryLook().catch(() => {})
    }
    this.#plan(this.#pace(this.#failures > 0 ? BACK_OFF.minMs : TICK_MS_MIN))
    return unlessAborted(flushed, signal)
  }

  /** Ships what waits, until the deadline, and ends. */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#isStopping = true
    if (this.#ended === undefined && this.#parts.epoch.epoch !== undefined) {
      await this.flush(deadline, { cells: [] }).catch((err) => {
        this.#parts.log.warn({ err }, 'stopped before everything was shipped; the next start ships the rest')
      })
    }
    this.#end(new CellError('store_closed', 'The store is closed.'))
    await this.#ticking
    await this.#pending?.object?.dispose()
    await this.#parts.retention.stop()
  }

  #end(error: CellError): void {
    if (this.#ended !== undefined) return
    this.#ended = error
    this.#timer?.timer.cancel()
    this.#watch.stop()
    this.#abort.abort(error)
    this.#flushes.reject(error)
  }

  /**
   * A tick that is already planned for an earlier time stays. A tick that somebody waits for keeps the process alive, as all
   * that programs wait for does.
   */
  #plan(delayMs: number): void {
    const { clock } = this.#parts
    if (this.#ended !== undefined || this.#ticking !== undefined) return
    const now = clock.monotonic()
    const planned = this.#timer
    const at = Math.min(now + delayMs, planned?.at ?? Number.POSITIVE_INFINITY)
    const keepsAlive = this.#flushes.isAny
    if (planned?.at === at && (planned.keepsAlive || !keepsAlive)) return
    planned?.timer.cancel()
    this.#timer = undefined
    if (at <= now) {
      this.#ticking = Promise.resolve().then(() => this.#tick())
      return
    }
    const run = () => {
      this.#timer = undefined
      this.#ticking = this.#tick()
    }
    this.#timer = { timer: clock.setTimer(run, at - now, { keepsAlive }), at, keepsAlive }
  }

  /** What is left of an interval since the last tick began. */
  #pace(intervalMs: number): number {
    if (this.#isStopping || this.#flushes.isAtOnce) return 0
    return Math.max(0, this.#begunAt + intervalMs - this.#parts.clock.monotonic())
  }

  async #tick(): Promise<void> {
    const { clock, onState } = this.#parts
    this.#begunAt = clock.monotonic()
    const delayMs = await this.#ship().then(
      (outcome) => this.#shipped(outcome),
      (error) => this.#failed(error),
    )
    this.#ticking = undefined
    if (this.#ended !== undefined) return
    onState(this.#state)
    this.#plan(delayMs)
    // A flush may have come since the pause was chosen.
    if (this.#flushes.isAny) this.#plan(this.#pace(this.#failures > 0 ? BACK_OFF.minMs : TICK_MS_MIN))
  }

  /** @returns when the next tick begins */
  async #shipped(outcome: Outcome): Promise<number> {
    this.#failures = 0
    this.#note({ failingSince: null })
    if (outcome === 'more') {
      // The object store may take less than is committed.
      if (!this.#isStopping) await this.#keepBound(() => this.#bound.enforceNowAndThen())
      this.#bound.catchUp()
      return 0
    }
    this.#unreadable.tryAgain()
    if (outcome === 'later' && this.#isStopping) {
      if (++this.#lastTries > LAST_TRIES_MAX) this.#flushes.reject(notNow())
      return 0
    }
    const { lagMs } = this.#parts.settings
    // At a start, cells are searched for in the first moments; nobody knows before its end how far all are backed up.
    const isUnknown = outcome === 'later' && this.#state.backedUpTo === null
    return this.#pace(this.#flushes.isAny ? TICK_MS_MIN : isUnknown ? Math.min(BACK_OFF.minMs, lagMs) : lagMs)
  }

  async #failed(error: unknown): Promise<number> {
    const { clock, random } = this.#parts
    if (this.#ended !== undefined) return 0
    this.#flushes.reject(error)
    this.#watch.failed(error)
    const waitMs = backOffMs(this.#failures++, BACK_OFF, random)
    this.#note({ failingSince: this.#state.failingSince ?? clock.now() })
    await this.#keepBound(() => this.#bound.enforce())
    return waitMs
  }

  /** Not if the cells could not be asked: then the next try asks again. */
  async #keepBound(enforce: () => Promise<number | undefined>): Promise<void> {
    const waitingBytes = await enforce().catch(() => undefined)
    if (waitingBytes !== undefined) this.#note({ waitingBytes })
  }

  async #ship(): Promise<Outcome> {
    const { signal } = this.#abort
    const pending = this.#pending ?? (await this.#lookAtCells(signal))
    this.#pending = pending
    const { object, outcome, bytes } = pending
    if (object !== undefined) {
      const isStored = await this.#sequence.store(object, { signal })
      await this.#forget(object)
      if (!isStored) return 'more'
      const { objects, bytes: stored, waitingBytes } = this.#state
      this.#note({
        lastObject: object.manifest.key,
        objects: objects + 1,
        bytes: stored + object.body.size,
        waitingBytes: Math.max(0, waitingBytes - bytes),
      })
      await this.#parts.cells.logsShipped(object.places)
    }
    this.#pending = undefined
    this.#flushes.stored({ ...pending, isAll: outcome === 'all' })
    if (outcome === 'all') this.#caughtUp(pending)
    if (object !== undefined) {
      this.#bound.catchUp()
      this.#parts.retention.runIfDue()
    }
    return outcome
  }

  async #lookAtCells(signal: AbortSignal): Promise<Look> {
    const needs = this.#flushes.look()
    this.#isLooking = true
    try {
      const isHurried = needs.isHurried && !this.#isStopping
      return await lookAtCells(this.#look, { ...needs, isHurried }, signal)
    } finally {
      this.#isLooking = false
    }
  }

  #caughtUp({ asOf, allAsOf, unreadable }: Look): void {
    if (unreadable.length > 0) return
    const { allBackedUpTo: known } = this.#state
    // What is known goes back only with the clock.
    const isLater = allAsOf !== null && (known === null || known > asOf || allAsOf > known)
    this.#note({ backedUpTo: asOf, ...(isLater && { allBackedUpTo: allAsOf }) })
    this.#watch.caughtUp()
  }

  async #forget(object: LogObject): Promise<void> {
    this.#pending = undefined
    await object.dispose()
  }

  #note(changes: Partial<ShippingState>): void {
    this.#state = { ...this.#state, ...changes }
  }
}

function notNow(): CellError {
  return new CellError(
    'busy',
    'What some cells have committed could not be read just now; it is shipped later.',
  )
}

/** The lag that is worth a warning, as a multiple of the target. */
const FACTOR = 5

/** Says once that shipping is far behind, and once that it has caught up. */
class LagWatch {
  readonly #lagMs: number
  readonly #clock: Clock
  readonly #log: Log
  #timer: Timer | undefined
  #isLate = false
  /** Why the last try has failed. */
  #err: unknown

  /** @param lagMs the target */
  constructor(lagMs: number, clock: Clock, log: Log) {
    this.#lagMs = lagMs
    this.#clock = clock
    this.#log = log
  }

  /** Everything is stored that was committed until now. */
  caughtUp(): void {
    if (this.#isLate)
      this.#log.info({}, 'shipping has caught up: what the cells committed is in the object store')
    this.#isLate = false
    this.#err = undefined
    this.#timer?.cancel()
    this.#timer = this.#clock.setTimer(() => this.#late(), FACTOR * this.#lagMs)
  }

  failed(error: unknown): void {
    this.#err = error
  }

  stop(): void {
    this.#timer?.cancel()
  }

  #late(): void {
    this.#isLate = true
    this.#log.warn(
      { err: this.#err, lagMs: FACTOR * this.#lagMs },
      'shipping is behind: what the cells have committed since then is on this machine only',
    )
  }
}
