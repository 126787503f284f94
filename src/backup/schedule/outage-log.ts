import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { isCellError } from '../../errors.ts'
import type { BaseReason } from '../changes/base-reason.ts'

/** Until the second line of an outage. Each further one comes after twice as long. */
const AGAIN_MS = 60_000
const AGAIN_MS_MAX = 3_600_000

/** A failed backup, as the log has it. */
export interface FailedBackup {
  cellId: string
  kind: string
  /** Why the cell needs it; undefined if only an interval is over. */
  reason: BaseReason | undefined
  err: unknown
  retryMs: number
}

/** By the monotonic clock. */
interface Outage {
  since: number
  againAt: number
  againMs: number
  failures: number
}

/**
 * Tells the log of scheduled backups that fail. While the object store does not answer, each changed cell fails again and again:
 * that has a line at its beginning, one with counts now and then, and one at its end. A failure for another reason has a line of
 * its own.
 */
export class OutageLog {
  readonly #clock: Clock
  readonly #log: Log
  /** Those that have failed in this outage and are not stored yet. */
  readonly #cells = new Set<string>()
  #outage: Outage | undefined

  constructor(clock: Clock, log: Log) {
    this.#clock = clock
    this.#log = log
  }

  failed(failed: FailedBackup): void {
    const { cellId, err } = failed
    const isOutage = isCellError(err, 'object_store_unavailable')
    const outage = this.#outage
    if (isOutage) this.#cells.add(cellId)
    if (!isOutage || outage === undefined) {
      if (isOutage) this.#outage = this.#begun()
      this.#log.warn({ ...failed }, 'a scheduled backup failed; trying again later')
      return
    }
    outage.failures++
    const now = this.#clock.monotonic()
    if (now < outage.againAt) return
    const { failures, since } = outage
    this.#log.warn(
      { cells: this.#cells.size, failures, downMs: now - since, err },
      'scheduled backups fail: the object store does not answer; trying again',
    )
    outage.againMs = Math.min(outage.againMs * 2, AGAIN_MS_MAX)
    outage.againAt = now + outage.againMs
  }

  /** The cell is stored, or gone. The outage is over with the last one: an object store may answer now and then. */
  ended(cellId: string): void {
    const outage = this.#outage
    if (!this.#cells.delete(cellId) || this.#cells.size > 0 || outage === undefined) return
    this.#outage = undefined
    this.#log.info(
      { failures: outage.failures, downMs: this.#clock.monotonic() - outage.since },
      'the scheduled backups that failed while the object store did not answer are stored',
    )
  }

  #begun(): Outage {
    const since = this.#clock.monotonic()
    return { since, againAt: since + AGAIN_MS, againMs: AGAIN_MS, failures: 1 }
  }
}
