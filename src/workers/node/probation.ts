import type { Clock } from '../../base/clock.ts'
import { LruCache } from '../../base/lru-cache.ts'

export interface ProbationTimes {
  /** Milliseconds of an account's first probation, and of the one after each statement that took long on probation. */
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
}

/** An account whose last operation is longer ago needs no protection now. */
const ACTIVE_MS = 10_000
/** About 10 MB. One that is forgotten is new again. */
const ACCOUNTS_MAX = 100_000

/**
 * Which accounts must not share a worker with the others: those that nobody knows yet, and those that cost a worker lately. Only
 * where somebody is to be protected: the account of the best standing among the active ones is never on probation, and so a node
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

  /** Call it now and then. */
  forgetQuiet(): void {
    const now = this.#parts.clock.monotonic()
    for (const each of this.#active) if (now - each.usedAt > ACTIVE_MS) this.#active.delete(each)
  }

  #first(accountId: string, now: number): Standing {
    const { times, isKnown } = this.#parts
    const standing = { until: isKnown(accountId) ? now : now + times.trialMs, usedAt: now }
    this.#standings.set(accountId, standing)
    return standing
  }

  #extend(accountId: string, ms: number): void {
    const now = this.#parts.clock.monotonic()
    const standing = this.#standings.get(accountId) ?? this.#first(accountId, now)
    standing.until = Math.max(standing.until, now + ms)
  }
}
