import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { ObjectStore } from '../object-store/object-store.ts'

/** No upload takes this long: one that was begun before it is nobody's any more. It is also how often to look. */
const DAY_MS = 24 * 60 * 60 * 1000

/**
 * Ends what a process that was killed, or could not reach the object store, left behind half stored: it is billed for
 * and never shows in a listing. Looks once a day at most, beside the backups, which neither wait for it nor fail with it.
 */
export class UploadSweep {
  readonly #store: ObjectStore
  readonly #clock: Clock
  readonly #log: Log
  readonly #abort = new AbortController()
  /** By the monotonic clock. */
  #notBefore = Number.NEGATIVE_INFINITY
  #running: Promise<void> | undefined

  constructor(store: ObjectStore, clock: Clock, log: Log) {
    this.#store = store
    this.#clock = clock
    this.#log = log
  }

  /** Begins one if it is time. Only for whom the prefix belongs to. */
  sweepIfDue(): void {
    if (this.#clock.monotonic() < this.#notBefore || this.#abort.signal.aborted) return
    this.#notBefore = this.#clock.monotonic() + DAY_MS
    this.#running = this.#sweep()
  }

  /** Gives up what is under way; none begins afterwards. */
  async stop(): Promise<void> {
    this.#abort.abort()
    await this.#running
  }

  async #sweep(): Promise<void> {
    const { signal } = this.#abort
    try {
      const ended = await this.#store.sweepUploads('', this.#clock.now() - DAY_MS, { signal })
      if (ended > 0) this.#log.info({ ended }, 'ended uploads that were begun long ago and never finished')
    } catch (err) {
      if (!signal.aborted) this.#log.warn({ err }, 'could not look for uploads that were never finished')
    }
  }
}
