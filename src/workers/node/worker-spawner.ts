import type { Clock, Timer } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { ProcessIdentity } from '../../catalog/directory-lock.ts'
import { CellError } from '../../errors.ts'
import type { WorkerSettings } from '../protocol/protocol.ts'
import type { WorkerHandle } from './worker-process.ts'

export interface SpawnerParts {
  clock: Clock
  log: Log
  settings: WorkerSettings
  /** Starts a process. @throws what the system says if it can't */
  spawnWorker(): WorkerHandle
  /** Puts the workers on record that are alive, or about to be. */
  publish(workers: readonly ProcessIdentity[]): void
  /** A worker is gone. */
  onEnded(worker: WorkerHandle): void
}

/** A worker that ends before anybody has used it is not replaced at once: what ails it may last. */
const RETRY_MS_MIN = 100
const RETRY_MS_MAX = 5_000

/** A node whose first workers all end before they can be asked is given up. */
const FAILURES_MAX = 4

/** Where workers come from. One is always kept ready, so that a slot that loses its own goes on at once. */
export class WorkerSpawner {
  readonly #parts: SpawnerParts
  readonly #alive = new Set<WorkerHandle>()
  /** Started, and not yet taken. */
  readonly #spares = new Set<WorkerHandle>()
  readonly #waiting: ((worker: WorkerHandle) => void)[] = []
  #retryMs = RETRY_MS_MIN
  #retryTimer: Timer | undefined
  #stopped = false
  /** In a row. */
  #failures = 0
  readonly #first = Promise.withResolvers<void>()

  constructor(parts: SpawnerParts) {
    this.#parts = parts
    this.#first.promise.catch(() => {})
  }

  /** Resolves once a worker was ready; rejects if none can be started. */
  get viable(): Promise<void> {
    return this.#first.promise
  }

  /** Every worker that has not ended. */
  get alive(): Iterable<WorkerHandle> {
    return this.#alive
  }

  get hasSpare(): boolean {
    return this.#waiting.length === 0 && [...this.#spares].some(({ isReady }) => isReady)
  }

  /** Resolves with a worker that can be asked. */
  take(): Promise<WorkerHandle> {
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      this.#provide()
    })
  }

  /** Ends the spares; there will be no others. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#retryTimer?.cancel()
    const spares = [...this.#spares]
    for (const spare of spares) spare.kill()
    await Promise.all(spares.map(({ ended }) => ended))
  }

  /** Hands out what is ready, and starts as many as are missing: one for each who waits, and one in reserve. */
  #provide(): void {
    for (const spare of this.#spares) {
      if (this.#waiting.length === 0) break
      if (!spare.isReady) continue
      this.#spares.delete(spare)
      this.#retryMs = RETRY_MS_MIN
      this.#waiting.shift()?.(spare)
    }
    while (this.#spares.size < this.#waiting.length + 1) {
      if (this.#stopped || this.#retryTimer !== undefined) return
      this.#spawn()
    }
  }

  #spawn(): void {
    let worker: WorkerHandle
    try {
      worker = this.#parts.spawnWorker()
    } catch (err) {
      this.#failed({ err }, 'a worker could not be started')
      return
    }
    this.#spares.add(worker)
    this.#alive.add(worker)
    // On record before it opens anything: whoever owns the store next can end it.
    this.#parts.publish([...this.#alive].map(({ identity }) => identity))
    worker.begin(this.#parts.settings)
    worker.ready.then(
      () => {
        this.#failures = 0
        this.#first.resolve()
        this.#provide()
      },
      () => {},
    )
    void worker.ended.then(() => {
      this.#alive.delete(worker)
      this.#parts.onEnded(worker)
      if (this.#spares.delete(worker))
        this.#failed({ worker: worker.identity.pid }, 'a worker has ended before it could be asked')
    })
  }

  #failed(fields: object, message: string): void {
    if (this.#stopped) return
    this.#parts.log.error(fields, message)
    this.#failures++
    if (this.#failures === FAILURES_MAX) {
      const reason = 'No worker process can be started: they end before they can be asked. The log says more.'
      this.#first.reject(new CellError('internal', reason))
    }
    const provide = () => {
      this.#retryTimer = undefined
      this.#provide()
    }
    this.#retryTimer ??= this.#parts.clock.setTimer(provide, this.#retryMs, { keepsAlive: true })
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS_MAX)
  }
}
