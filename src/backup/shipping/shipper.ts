import type { Clock, Timer } from '../../base/clock.ts'
import type { Emitter } from '../../base/emitter.ts'
import type { Log } from '../../base/log.ts'
import { unlessAborted } from '../../base/unless-aborted.ts'
import { CellError } from '../../errors.ts'
import type { CollectedLook, UnshippedLog } from '../changes/cell-log.ts'
import type { ObjectStore } from '../object-store/object-store.ts'
import { LagWatch } from './lag-watch.ts'
import { type LogObject, type MadeLogObject, makeLogObject } from './log-object.ts'
import type { EpochView, LogPort } from './log-port.ts'
import type { LogRetention } from './log-retention.ts'
import { selectLogs } from './log-selection.ts'
import { LogSequence } from './log-sequence.ts'
import { notBegun, type ShippingState } from './shipping-status.ts'
import { UnreadableCells } from './unreadable-cells.ts'
import { UnshippedBound, unshippedBytes } from './unshipped-bound.ts'

/** What one object is made of at most. */
const COLLECT = { cellsMax: 10_000, bytesMax: 64 * 1_048_576 }
/** Flushes make no more than ten objects per second. */
const TICK_MS_MIN = 100
const RETRY_MS = 1_000
const RETRY_MS_MAX = 60_000

/** At a stop, cells whose WALs are reset meanwhile are collected again so often. */
const LAST_TRIES_MAX = 10

export interface ShippingSettings {
  /** How long what a cell has committed is on this machine only. */
  lagMs: number
  /** How many bytes may wait if the object store does not answer. */
  bytesMax: number
}

export interface ShipperParts {
  settings: ShippingSettings
  /** Writes for the newest epoch only. */
  objectStore: ObjectStore
  epoch: EpochView & { lost: Pick<Emitter<[CellError]>, 'listen'>; held: Pick<Emitter<[number]>, 'listen'> }
  /** Proves that the prefix is this store's, before the first object. */
  claim(signal: AbortSignal): Promise<void>
  cells: LogPort
  storeId: string
  spoolDirectory: string
  makeVersion(cellId: string): Promise<void>
  retention: Pick<LogRetention, 'runIfDue' | 'stop'>
  /** Called after each tick. */
  onState(state: ShippingState): void
  clock: Clock
  random: () => number
  log: Log
}

/** Somebody waits for what was committed before the call: a look at the cells that begins after it finds all of that. */
interface Flush extends PromiseWithResolvers<Flushed>, FlushOptions {
  /** The first look that began after the call. */
  since?: number
}

export interface FlushOptions {
  /** It does not wait for others to share its object. */
  isAtOnce?: boolean | undefined
  /** The caller waits for these cells only. Undefined, or without any: for all, and it may be told of none. */
  about?: readonly string[] | undefined
}

/** What a flush leaves out. */
export interface Flushed {
  /** Cells that have changed but have no history: what they committed is stored with their next version. At least those that were asked for. */
  withoutHistory: readonly string[]
  /** Cells whose files cannot be read: what they committed is stored once they can. */
  unreadable: readonly string[]
}

/** Whether all that a cell had committed is stored with a flush. */
export function holdsAllOf(cellId: string, { withoutHistory, unreadable }: Flushed): boolean {
  return !withoutHistory.includes(cellId) && !unreadable.includes(cellId)
}

/**
 * `all`: everything is stored that could be read; `more`: the object had no room for all, and the next one follows at once;
 * `later`: some WALs were reset while they were read, or there may be cells that nobody has found yet.
 */
type Outcome = 'all' | 'more' | 'later'

/** What a look at the cells has found. */
interface Pending
  extends Pick<CollectedLook, 'asOf' | 'withoutHistory' | 'unreadable' | 'askedIn' | 'whole'> {
  /** It is made, and may be stored already. Undefined if there is nothing to store. */
  object: LogObject | undefined
  outcome: Outcome
  bytes: number
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
  readonly #bound: UnshippedBound
  readonly #watch: LagWatch
  readonly #abort = new AbortController()
  #state: ShippingState
  #pending: Pending | undefined
  /** Flushes since the last look at the cells, and those that the look or one before it is for. */
  #waiting: Flush[] = []
  #looked: Flush[] = []
  #ticking: Promise<void> | undefined
  #isLooking = false
  #timer: { timer: Timer; at: number; keepsAlive: boolean } | undefined
  /** By the monotonic clock. */
  #begunAt = Number.NEGATIVE_INFINITY
  #failures = 0
  readonly #unreadable: UnreadableCells
  /** What waits is shipped once more, without a pause. */
  #isStopping = false
  #lastTries = 0
  /** Why it has ended. */
  #ended: CellError | undefined

  constructor(parts: ShipperParts) {
    const { objectStore, epoch, cells, settings, makeVersion, clock, log } = parts
    this.#parts = parts
    this.#sequence = new LogSequence(objectStore, epoch)
    this.#bound = new UnshippedBound({ cells, bytesMax: settings.bytesMax, makeVersion, log })
    this.#watch = new LagWatch(settings.lagMs, clock, log)
    this.#unreadable = new UnreadableCells(log)
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
   * have them: nobody's statement in another one holds it up.
   *
   * @throws `taken_over`, `store_closed`; what the object store throws: then it is shipped later
   */
  flush(signal?: AbortSignal, options: FlushOptions = {}): Promise<Flushed> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended)
    const flush: Flush = { ...Promise.withResolvers<Flushed>(), ...options }
    flush.promise.catch(() => {})
    this.#waiting.push(flush)
    if (isForCells(flush) && this.#isLooking) void this.#parts.cells.hurryLook().catch(() => {})
    this.#plan(this.#pace(this.#failures > 0 ? RETRY_MS : TICK_MS_MIN))
    return unlessAborted(flush.promise, signal)
  }

  /** Ships what waits, until the deadline, and ends. */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#isStopping = true
    if (this.#ended === undefined && this.#parts.epoch.epoch !== undefined) {
      await this.flush(deadline, { about: [] }).catch((err) => {
        this.#parts.log.warn({ err }, 'stopped before everything was shipped; the next start ships the rest')
      })
    }
    this.#end(new CellError('store_closed', 'The store is closed.'))
    await this.#ticking
    await this.#pending?.object?.dispose()
    await this.#parts.retention.stop()
    await this.#bound.settled()
  }

  #end(error: CellError): void {
    if (this.#ended !== undefined) return
    this.#ended = error
    this.#timer?.timer.cancel()
    this.#watch.stop()
    this.#abort.abort(error)
    this.#settle((flush) => flush.reject(error))
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
    const keepsAlive = this.#isWanted
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

  get #isWanted(): boolean {
    return this.#waiting.length > 0 || this.#looked.length > 0
  }

  /** What is left of an interval since the last tick began. */
  #pace(intervalMs: number): number {
    if (this.#isStopping || this.#waiting.some(({ isAtOnce }) => isAtOnce)) return 0
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
    if (this.#isWanted) this.#plan(this.#pace(this.#failures > 0 ? RETRY_MS : TICK_MS_MIN))
  }

  /** @returns when the next tick begins */
  #shipped(outcome: Outcome): number {
    this.#failures = 0
    this.#note({ failingSince: null })
    if (outcome === 'more') return 0
    this.#unreadable.tryAgain()
    if (outcome === 'later' && this.#isStopping) {
      if (++this.#lastTries > LAST_TRIES_MAX) this.#settle((flush) => flush.reject(notNow()))
      return 0
    }
    return this.#pace(this.#isWanted ? TICK_MS_MIN : this.#parts.settings.lagMs)
  }

  async #failed(error: unknown): Promise<number> {
    const { clock, random } = this.#parts
    if (this.#ended !== undefined) return 0
    this.#settle((flush) => flush.reject(error))
    this.#watch.failed(error)
    const backOffMs = Math.min(RETRY_MS * 2 ** this.#failures, RETRY_MS_MAX)
    this.#failures++
    this.#note({ failingSince: this.#state.failingSince ?? clock.now() })
    // Not if the cells could not be asked: then the next try asks again.
    const waitingBytes = await this.#bound.enforce().catch(() => this.#state.waitingBytes)
    this.#note({ waitingBytes })
    return backOffMs * (0.5 + random() / 2)
  }

  async #ship(): Promise<Outcome> {
    const { signal } = this.#abort
    const pending = this.#pending ?? (await this.#make(signal))
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
    if (outcome === 'all') this.#caughtUp(pending)
    this.#settleStored(pending)
    if (object !== undefined) {
      this.#bound.catchUp()
      this.#parts.retention.runIfDue()
    }
    return outcome
  }

  async #make(signal: AbortSignal): Promise<Pending> {
    const { claim, storeId, spoolDirectory, clock } = this.#parts
    this.#looked.push(...this.#waiting.splice(0))
    const collected = await this.#look()
    const { withoutHistory, withoutHistoryCount } = collected
    const waitingBytes = unshippedBytes(collected.logs)
    this.#note({ waitingBytes, withoutHistory: withoutHistoryCount })
    if (collected.logs.length === 0) {
      return { ...collected, object: undefined, outcome: collected.isAll ? 'all' : 'later', bytes: 0 }
    }
    await claim(signal)
    const { logs, isAll } = selectLogs(collected.logs)
    const next = await this.#sequence.next({ signal })
    const isWhole = isAll && collected.isAll
    const completeTo = isWhole && collected.unreadable.length === 0 ? collected.asOf : undefined
    const order = { ...next, store_id: storeId, logs, completeTo, now: clock.now() }
    const made = await makeLogObject(order, { directory: spoolDirectory, signal })
    const noted = this.#unreadable.note(made)
    const unreadable = [...collected.unreadable, ...noted.unreadable.map(({ cellId }) => cellId)]
    const hasMore = collected.hasMore || !isAll
    const outcome = outcomeOf({ object: made.object, ...noted }, { isWhole, hasMore })
    const whole = wholeIn(made.object, collected)
    const { object } = made
    return { ...collected, object, outcome, withoutHistory, unreadable, whole, bytes: unshippedBytes(logs) }
  }

  async #look(): Promise<CollectedLook> {
    const wanted = [...new Set(this.#looked.flatMap((flush) => (isForCells(flush) ? flush.about : [])))]
    this.#isLooking = true
    try {
      const collected = await this.#parts.cells.collectLogs({
        ...COLLECT,
        except: this.#unreadable.cellIds,
        about: askedBy(this.#looked),
        wanted,
        isHurried: wanted.length > 0 && !this.#isStopping,
      })
      for (const flush of this.#looked) flush.since ??= collected.look
      return collected
    } finally {
      this.#isLooking = false
    }
  }

  /** What was looked at for them is stored. Those for all cells are settled only if that was everything. */
  #settleStored({ outcome, askedIn, whole, withoutHistory, unreadable }: Omit<Pending, 'object'>): void {
    const isStored = (flush: Flush) => {
      const { since = Number.POSITIVE_INFINITY } = flush
      if (outcome === 'all' && askedIn >= since) return true
      return isForCells(flush) && flush.about.every((cellId) => (whole[cellId] ?? -1) >= since)
    }
    const [stored, waiting] = [this.#looked.filter(isStored), this.#looked.filter((each) => !isStored(each))]
    this.#looked = waiting
    for (const flush of stored) flush.resolve({ withoutHistory, unreadable })
  }

  #caughtUp({ asOf, unreadable }: Omit<Pending, 'object'>): void {
    if (unreadable.length > 0) return
    this.#note({ backedUpTo: asOf })
    this.#watch.caughtUp()
  }

  async #forget(object: LogObject): Promise<void> {
    this.#pending = undefined
    await object.dispose()
  }

  #settle(settle: (flush: Flush) => void): void {
    for (const flush of [...this.#looked.splice(0), ...this.#waiting.splice(0)]) settle(flush)
  }

  #note(changes: Partial<ShippingState>): void {
    this.#state = { ...this.#state, ...changes }
  }
}

/** @param wanted `isWhole`: all that waits was to be in the object; `hasMore`: there was no room for some of it */
function outcomeOf(
  { object, leftOut, unreadable }: MadeLogObject,
  wanted: { isWhole: boolean; hasMore: boolean },
): Outcome {
  const isFutile = object === undefined && unreadable.length === 0
  if (wanted.hasMore && !isFutile) return 'more'
  return leftOut.length > 0 || !wanted.isWhole ? 'later' : 'all'
}

/** The wanted cells of which everything that was collected is in the object. */
function wholeIn(object: LogObject | undefined, { whole, logs }: CollectedLook): Record<string, number> {
  const places = new Map(object?.places.map((place) => [place.cellId, place]))
  const isIn = ({ cellId, pieces }: UnshippedLog) => {
    const [place, last] = [places.get(cellId), pieces.at(-1)]
    return place?.sequence === last?.sequence && place?.frames === last?.to
  }
  const partial = new Set(logs.filter((log) => !isIn(log)).map(({ cellId }) => cellId))
  return Object.fromEntries(Object.entries(whole).filter(([cellId]) => !partial.has(cellId)))
}

function isForCells(flush: Flush): flush is Flush & { about: readonly string[] } {
  return flush.about !== undefined && flush.about.length > 0
}

/** The cells that some flushes want to know of. */
function askedBy(flushes: readonly Flush[]): string[] | undefined {
  const asked = new Set<string>()
  for (const { about } of flushes) {
    if (about === undefined) return undefined
    for (const cellId of about) asked.add(cellId)
  }
  return [...asked]
}

function notNow(): CellError {
  return new CellError(
    'busy',
    'What some cells have committed could not be read just now; it is shipped later.',
  )
}
