import { rest } from '../../base/async/back-off.ts'
import type { Clock } from '../../base/clock.ts'
import { isCellError } from '../../errors.ts'

/** What did not prove itself is fetched so often again from the same place. */
const DAMAGED_MAX = 1
/** After a connection broke off: an object store that starts again takes some seconds. */
const WAITS_MS = [500, 1_000, 2_000, 4_000]

/**
 * Decides whether a part of an archive is fetched again. Bytes that came damaged or too few may be right the next time, and
 * a connection that broke off may come back. An object store that has not given a byte yet is not waited for: its own
 * retries are over, and the caller can try elsewhere or later.
 */
export class Refetches {
  readonly #clock: Clock
  readonly #signal: AbortSignal | undefined
  #hasReceived = false
  #place: string | undefined
  #damaged = 0
  #brokenOff = 0

  constructor(clock: Clock, signal: AbortSignal | undefined) {
    this.#clock = clock
    this.#signal = signal
  }

  /** Bytes have come. */
  received(): void {
    this.#hasReceived = true
  }

  /** @param place where the next try begins @returns whether there is one; resolves when it should begin */
  async allow(error: unknown, place: string): Promise<boolean> {
    if (place !== this.#place) {
      this.#place = place
      this.#damaged = 0
      this.#brokenOff = 0
    }
    if (this.#isCancelled()) return false
    if (isCellError(error, 'backup_corrupt')) return this.#damaged++ < DAMAGED_MAX
    if (!isCellError(error, 'object_store_unavailable') || !this.#hasReceived) return false
    const waitMs = WAITS_MS[this.#brokenOff++]
    if (waitMs === undefined) return false
    await rest(this.#clock, waitMs, this.#signal, { keepsAlive: true })
    return !this.#isCancelled()
  }

  #isCancelled(): boolean {
    return this.#signal?.aborted === true
  }
}
