import type { Clock, Timer } from '../../base/clock.ts'
import { RestoreThread } from './restore-thread.ts'

/** How long a thread is kept for the next restore: cells often come back one after the other. */
const KEPT_MS = 10_000

/**
 * Threads for restores of large databases. To start one takes 40 ms of a processor, so one is kept for a while after its
 * restore. It keeps no process alive.
 */
export class RestoreThreads {
  readonly #clock: Clock
  #kept: RestoreThread | undefined
  #timer: Timer | undefined
  #closed = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The caller gives it back, or closes it. */
  take(): RestoreThread {
    const kept = this.#keepNone()
    if (kept === undefined || kept.failed) return new RestoreThread()
    kept.keepsAlive(true)
    return kept
  }

  /** @param worker one that has done all it was asked to, and holds no file */
  async release(worker: RestoreThread): Promise<void> {
    if (this.#closed || this.#kept !== undefined) return worker.close()
    worker.keepsAlive(false)
    this.#kept = worker
    this.#timer = this.#clock.setTimer(() => void this.#keepNone()?.close(), KEPT_MS)
  }

  /** From now on no thread is kept. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#keepNone()?.close()
  }

  #keepNone(): RestoreThread | undefined {
    const kept = this.#kept
    this.#kept = undefined
    this.#timer?.cancel()
    return kept
  }
}
