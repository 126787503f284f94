import type { Clock } from '../../base/clock.ts'
import { LruCache } from '../../base/lru-cache.ts'
import type { CellTime } from './batch.ts'

export interface ProbationTimes {
  /**
   * Milliseconds of an account's first probation, and of the one after each statement that took long on probation, or after
   * heavy operations that took too much of a worker.
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
  /** Milliseconds that its heavy operations took lately, beyond the share that they may take. */
  heavyMs: number
  heavyAt: number
}

/** An account whose last operation is longer ago needs no protection now. */
const ACTIVE_MS = 10_000
/** Milliseconds of the processor from which an operation is heavy: it can't be interrupted, so everybody else waits for it. */
const HEAVY_MS = 3
/** The share of a worker's time that heavy operations of one account may take. */
const HEAVY_SHARE = 1 / 4
/** Milliseconds that they may take beyond it. */
const HEAVY_BURST_MS = 250
/** About 10 MB. One that is forgotten is new again. */
const ACCOUNTS_MAX = 100_000

/**
 * Which accounts must not share a worker with the others: those that nobody knows yet, those that cost a worker lately, and those
 * that keep one busy with heavy operations. Only where somebody is to be protected: the account of the best standing among the active ones is never on probation, and so a node
 * with one account has none.
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
    if (ms < operations * HEAVY_MS) return
    const now = this.#parts.clock.monotonic()
    const standing = this.#standings.get(accountId) ?? this.#first(accountId, now)
    const paidOff = (now - standing.heavyAt) * HEAVY_SHARE
    standing.heavyMs = Math.max(0, standing.heavyMs - paidOff) + ms
    standing.heavyAt = now
    if (standing.heavyMs <= HEAVY_BURST_MS) return
    standing.heavyMs = HEAVY_BURST_MS
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
    const standing = { until, usedAt: now, heavyMs: 0, heavyAt: now }
    this.#standings.set(accountId, standing)
    return standing
  }

  #extend(accountId: string, ms: number): void {
    const now = this.#parts.clock.monotonic()
    const standing = this.#standings.get(accountId) ?? this.#first(accountId, now)
    standing.until = Math.max(standing.until, now + ms)
  }
}
