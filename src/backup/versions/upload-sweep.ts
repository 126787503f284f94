import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { ObjectStore } from '../object-store/object-store.ts'

/** The age of an abandoned upload, since no upload takes this long. Also the interval of the sweep. */
const DAY_MS = 24 * 60 * 60 * 1000

/**
 * Removes unfinished multipart uploads of processes that were killed or lost the connection: they cost money and never
 * show in a listing. Runs at most once a day, in parallel with backups, which neither wait for it nor fail with it.
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

  /** Starts a sweep if it is due. Only the owner of the prefix may call it. */
  sweepIfDue(): void {
    if (this.#clock.monotonic() < this.#notBefore || this.#abort.signal.aborted) return
    this.#notBefore = this.#clock.monotonic() + DAY_MS
    this.#running = this.#sweep()
  }

  /** Cancels a running sweep. No other starts afterwards. */
  async stop(): Promise<void> {
    this.#abort.abort()
    await this.#running
  }

  async #sweep(): Promise<void> {
    const { signal } = this.#abort
    try {
      const ended = await this.#store.sweepUploads('', this.#clock.now() - DAY_MS, { signal })
      if (ended > 0) this.#log.info({ ended }, 'removed unfinished uploads older than a day')
    } catch (err) {
      if (!signal.aborted)
        this.#log.warn({ err }, 'could not remove unfinished uploads; trying again in a day')
    }
  }
}
