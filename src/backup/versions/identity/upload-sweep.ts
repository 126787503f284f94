import type { Clock } from '../../../base/clock.ts'
import type { Log } from '../../../base/log.ts'
import { SLOWEST_BYTES_PER_SECOND } from '../../object-store/call-deadline.ts'
import type { ObjectStore } from '../../object-store/object-store.ts'
import { BACKUPS_PREFIX, LOG_PREFIX, parseLogKey, parseVersion } from '../object-keys.ts'

/** The interval of the sweep, and the least age of an abandoned upload. */
const DAY_MS = 24 * 60 * 60 * 1000
/** A backup object may be larger than the largest cell: it may hold logs, too. */
const OBJECT_SHARE_MAX = 4

/** An upload of this age is abandoned: the slowest upload of the largest object takes less time. */
function abandonedAfterMs(cellBytesMax: number): number {
  return Math.max(DAY_MS, ((OBJECT_SHARE_MAX * cellBytesMax) / SLOWEST_BYTES_PER_SECOND) * 1_000)
}

/**
 * Removes unfinished multipart uploads of processes that were killed or lost the connection: they cost money and never
 * show in a listing. Ends only uploads of backups and log objects: the bucket may be shared. Runs at most once a day, in parallel with backups, which neither wait for it nor fail with it.
 */
export class UploadSweep {
  readonly #store: ObjectStore
  readonly #clock: Clock
  readonly #log: Log
  readonly #ageMs: number
  readonly #abort = new AbortController()
  /** By the monotonic clock. */
  #notBefore = Number.NEGATIVE_INFINITY
  #running: Promise<void> | undefined

  /** @param cellBytesMax the size of the largest cell */
  constructor(store: ObjectStore, clock: Clock, log: Log, cellBytesMax: number) {
    this.#store = store
    this.#clock = clock
    this.#log = log
    this.#ageMs = abandonedAfterMs(cellBytesMax)
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
      const olderThan = this.#clock.now() - this.#ageMs
      const options = {
        signal,
        owns: (key: string) => [parseVersion, parseLogKey].some((parse) => parse(key)),
      }
      let ended = 0
      for (const prefix of [BACKUPS_PREFIX, LOG_PREFIX])
        ended += await this.#store.sweepUploads(prefix, olderThan, options)
      if (ended > 0) this.#log.info({ ended }, 'removed uploads that never finished')
    } catch (err) {
      if (!signal.aborted)
        this.#log.warn({ err }, 'could not remove all unfinished uploads; trying again in a day')
    }
  }
}
