import type { Clock } from '../../../base/clock.ts'
import { TokenBuckets } from '../../../base/fairness/token-buckets.ts'
import { overLimit } from '../../../base/options/over-limit.ts'
import type { CellError } from '../../../errors.ts'
import type { WorkerLimits } from '../processes/worker-limits.ts'

/** Of what an account may cost, a cell has a third: each may belong to a different person. */
const CELL_SHARE = 1 / 3

/**
 * How many workers accounts and their cells may cost. A new one takes a tenth of a second of a processor, and everything
 * that waited behind the statement waits longer.
 */
export class WorkerCosts {
  readonly #limits: Pick<WorkerLimits, 'killsPerMinute' | 'killsBurst'>
  readonly #accounts: TokenBuckets
  readonly #cells: TokenBuckets

  constructor(limits: Pick<WorkerLimits, 'killsPerMinute' | 'killsBurst'>, clock: Clock) {
    this.#limits = limits
    const perSecond = limits.killsPerMinute / 60
    const burst = limits.killsBurst
    this.#accounts = new TokenBuckets({ perSecond, burst }, clock)
    const cellBurst = Math.max(1, Math.floor(burst * CELL_SHARE))
    this.#cells = new TokenBuckets({ perSecond: perSecond * CELL_SHARE, burst: cellBurst }, clock)
  }

  charge(accountId: string, cellId: string | undefined): void {
    this.#accounts.take(accountId)
    if (cellId !== undefined) this.#cells.take(cellId)
  }

  /** @returns an error if the account, or the cell, has used up its budget */
  refusal(accountId: string, cellId: string): CellError | undefined {
    const retryAfterMs = Math.max(this.#accounts.waitMs(accountId), this.#cells.waitMs(cellId))
    if (retryAfterMs === 0) return undefined
    const { killsBurst: limit, killsPerMinute } = this.#limits
    const usage = this.#accounts.taken(accountId)
    return overLimit(
      'rate_limited',
      `Cells of the account have ended ${usage} workers, of which ${killsPerMinute} a minute are forgotten (workers.killsPerMinute), and a cell may have ended a third of them`,
      { setting: 'workers.killsBurst', limit, usage, retryAfterMs },
      'Wait, and make their statements and schemas cheaper.',
    )
  }
}
