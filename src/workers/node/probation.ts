import type { Clock } from '../../base/clock.ts'
import { LruCache } from '../../base/lru-cache.ts'
import type { CellTime } from './batch.ts'

export interface ProbationTimes {
  /**
   * Milliseconds of an account's first probation, and of the one after each statement that took long on probation, or after
   * it held others up too often.
   */
  trialMs: number
  /** Milliseconds of probation after a statement or a task that cost a worker. */
  probationMs: number
}

export interface ProbationParts {
  clock: Clock
  times: ProbationTimes
  /** Milliseconds of its worker after which a statement counts as long: others would have been held up. */
  longMs: number
  /** Whether the account existed before this process: it needs no trial. */
  isKnown(accountId: string): boolean
}

interface Standing {
  /** Monotonic time at which its probation ends. The earlier, the better its standing. */
  until: number
  usedAt: number
  /** Milliseconds for which it held others up lately, beyond the share that is allowed. */
  heldMs: number
  heldAt: number
}

/** An account whose last operation is longer ago needs no protection now. */
const ACTIVE_MS = 10_000
/**
 * Milliseconds of the processor from which operations are heavy, in their mean: most take a twentieth of that. Nothing interrupts one, and of
 * those that wait a batch takes as many as a slice has time for.
 */
const HEAVY_MS = 1
/** The share of a worker's time for which one account may hold others up. Who needs no more loses little on probation. */
const HELD_SHARE = 1 / 8
/** Milliseconds beyond it. */
const HELD_BURST_MS = 250
/** About 10 MB. One that is forgotten is new again. */
const ACCOUNTS_MAX = 100_000

/**
 * Which accounts must not share a worker with the others: those that nobody knows yet, those that cost a worker lately, and those
 * that hold others up too often. Only where somebody is to be protected: the account of the best standing among the active ones is
 * never on probation, and so a node with one account has none.
 */
export class Probation {
  readonly #parts: ProbationParts
  readonly #standings = new LruCache<Standing>(ACCOUNTS_MAX)
  /** Those that had an operation lately. */
  readonly #active = new Set<Standing>()

  constructor(parts: ProbationParts) {
    this.#parts = parts
  }

  /** The account has an operation. */
  use(accountId: string): void {
    const now = this.#parts.clock.monotonic()
    const standing = this.#standings.get(accountId) ?? this.#first(accountId, now)
    standing.usedAt = now
    this.#active.add(standing)
  }

  isOn(accountId: string): boolean {
    const now = this.#parts.clock.monotonic()
    const own = this.#standings.get(accountId)
    if (own === undefined || own.until <= now) return false
    for (const other of this.#active)
      if (other.until < own.until && now - other.usedAt <= ACTIVE_MS) return true
    return false
  }

  /** One of its statements or tasks has cost a worker. */
  costWorker(accountId: string): void {
    this.#extend(accountId, this.#parts.times.probationMs)
  }

  /** One of its statements or tasks on probation runs, for so long until now. */
  ranOnProbation(accountId: string, ms: number): void {
    if (ms > this.#parts.longMs) this.#extend(accountId, this.#parts.times.trialMs)
  }

  /** Operations of one of its cells have run. */
  worked({ accountId, operations, ms }: Pick<CellTime, 'accountId' | 'operations' | 'ms'>): void {
    if (ms >= operations * HEAVY_MS) this.heldUp(accountId, ms)
  }

  /** What it asked for has held others up: heavy operations, a task of one of its cells, or what the node itself did. */
  heldUp(accountId: string, ms: number): void {
    const now = this.#parts.clock.monotonic()
    const standing = this.#standings.get(accountId) ?? this.#first(accountId, now)
    const paidOff = (now - standing.heldAt) * HELD_SHARE
    standing.heldMs = Math.max(0, standing.heldMs - paidOff) + ms
    standing.heldAt = now
    if (standing.heldMs <= HELD_BURST_MS) return
    standing.heldMs = HELD_BURST_MS
    this.#extend(accountId, this.#parts.times.trialMs)
  }

  /** Call it now and then. */
  forgetQuiet(): void {
    const now = this.#parts.clock.monotonic()
    for (const each of this.#active) if (now - each.usedAt > ACTIVE_MS) this.#active.delete(each)
  }

  #first(accountId: string, now: number): Standing {
    const { times, isKnown } = this.#parts
    const until = isKnown(accountId) ? now : now + times.trialMs
    const standing = { until, usedAt: now, heldMs: 0, heldAt: now }
    this.#standings.set(accountId, standing)
    return standing
  }

  #extend(accountId: string, ms: number): void {
    const now = this.#parts.clock.monotonic()
    const standing = this.#standings.get(accountId) ?? this.#first(accountId, now)
    standing.until = Math.max(standing.until, now + ms)
  }
}
