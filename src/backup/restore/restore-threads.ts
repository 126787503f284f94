import type { Clock, Timer } from '../../base/clock.ts'
import { RestoreThread } from './restore-thread.ts'

/** Milliseconds that a thread is kept for the next restore: cells are often restored one after the other. */
const KEPT_MS = 10_000

/**
 * Threads for restores of large databases, and for the check of one that is backed up. The start of one takes 40 ms of processor time, so one is kept for a while
 * after its restore. The kept thread does not keep the process alive.
 */
export class RestoreThreads {
  readonly #clock: Clock
  #kept: RestoreThread | undefined
  #timer: Timer | undefined
  #closed = false

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The caller must release the thread or close it. */
  take(): RestoreThread {
    const kept = this.#takeKept()
    if (kept === undefined || kept.failed) return new RestoreThread()
    kept.keepsAlive(true)
    return kept
  }

  /** @param thread has finished all its tasks, and has no file open */
  async release(thread: RestoreThread): Promise<void> {
    if (this.#closed || this.#kept !== undefined) return thread.close()
    thread.keepsAlive(false)
    this.#kept = thread
    this.#timer = this.#clock.setTimer(() => void this.#takeKept()?.close(), KEPT_MS)
  }

  /** Closes the kept thread. No other is kept afterwards. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#takeKept()?.close()
  }

  #takeKept(): RestoreThread | undefined {
    const kept = this.#kept
    this.#kept = undefined
    this.#timer?.cancel()
    return kept
  }
}
