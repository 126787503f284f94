import type { Clock } from '../../base/clock.ts'
import { LruCache } from '../../base/lru-cache.ts'
import { CellError } from '../../errors.ts'

/** So many are let pass: everybody writes a bad statement once. */
const STRIKES_FREE = 2
const WAIT_MS_MIN = 1_000
const WAIT_MS_MAX = 60_000
/** After this long without another, its strikes are forgotten. */
const FORGET_MS = 300_000
const CELLS_MAX = 10_000

interface Record {
  strikes: number
  lastAt: number
  blockedUntil: number
}

/**
 * Cells whose statements had to be ended by ending a worker. Who keeps doing that waits longer each time; nobody else does:
 * not the other cells of the account either, which may be a stranger each.
 */
export class CellBackoff {
  readonly #clock: Clock
  readonly #records = new LruCache<Record>(CELLS_MAX)

  constructor(clock: Clock) {
    this.#clock = clock
  }

  strike(cellId: string): void {
    const now = this.#clock.monotonic()
    const before = this.#records.get(cellId)
    const strikes = before === undefined || now - before.lastAt > FORGET_MS ? 1 : before.strikes + 1
    const over = strikes - STRIKES_FREE
    const waitMs = over <= 0 ? 0 : Math.min(WAIT_MS_MIN * 2 ** (over - 1), WAIT_MS_MAX)
    this.#records.set(cellId, { strikes, lastAt: now, blockedUntil: now + waitMs })
  }

  /** @throws `rate_limited` while the cell has to wait */
  check(cellId: string): void {
    const record = this.#records.get(cellId)
    if (record === undefined) return
    const waitMs = record.blockedUntil - this.#clock.monotonic()
    if (waitMs <= 0) return
    throw new CellError(
      'rate_limited',
      'Statements on this cell have run into their limits of time or memory again and again. Wait, and make them cheaper.',
      { retryAfterMs: Math.ceil(waitMs) },
    )
  }
}
