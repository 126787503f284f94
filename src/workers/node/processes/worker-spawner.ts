import { type Clock, setImmediate, type Timer } from '../../../base/clock.ts'
import type { Log } from '../../../base/log.ts'
import type { ProcessIdentity } from '../../../catalog/directory-lock.ts'
import { CellError } from '../../../errors.ts'
import type { WorkerSettings } from '../../protocol/protocol.ts'
import type { WorkerHandle } from './worker-process.ts'

export interface SpawnerParts {
  clock: Clock
  log: Log
  /** What a worker gets that starts now. */
  settings(): WorkerSettings
  /** Starts a process. @throws the system's error if it can't */
  spawnWorker(): WorkerHandle
  /** Records the living workers in the store's directory, so that its next owner can end them. */
  publish(workers: readonly ProcessIdentity[]): void
  /** Called when a worker has ended, however it did. */
  onEnded?: ((worker: WorkerHandle) => void) | undefined
}

/** Delays after a failed start: its cause may last. */
const RETRY_MS_MIN = 100
const RETRY_MS_MAX = 5_000

/** The node's start fails after this many failures in a row without a first ready worker. */
const FAILURES_MAX = 4

/** Starts workers. Keeps one ready in reserve, so that a slot whose worker ended continues at once. */
export class WorkerSpawner {
  readonly #parts: SpawnerParts
  readonly #alive = new Set<WorkerHandle>()
  /** Started, but not taken yet. */
  readonly #spares = new Set<WorkerHandle>()
  readonly #waiting: ((worker: WorkerHandle | undefined) => void)[] = []
  #retryMs = RETRY_MS_MIN
  #retryTimer: Timer | undefined
  #stopped = false
  /** The next start is due in a moment. */
  #isFilling = false
  /** In a row. */
  #failures = 0
  readonly #firstReady = Promise.withResolvers<void>()

  constructor(parts: SpawnerParts) {
    this.#parts = parts
    this.#firstReady.promise.catch(() => {})
  }

  /** Resolves once a worker has been ready; rejects if no worker can be started, or if {@link stop} comes first. */
  get firstReady(): Promise<void> {
    return this.#firstReady.promise
  }

  /** All workers that have not ended. */
  get alive(): Iterable<WorkerHandle> {
    return this.#alive
  }

  get hasSpare(): boolean {
    return this.#waiting.length === 0 && [...this.#spares].some(({ isReady }) => isReady)
  }

  /** Resolves with a ready worker; with none once the spawner is stopped. */
  take(): Promise<WorkerHandle | undefined> {
    if (this.#stopped) return Promise.resolve(undefined)
    return new Promise((resolve) => {
      this.#waiting.push(resolve)
      this.#provide()
    })
  }

  /** Kills the spare workers. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#retryTimer?.cancel()
    this.#firstReady.reject(stopping())
    for (const giveUp of this.#waiting.splice(0)) giveUp(undefined)
    const spares = [...this.#spares]
    for (const spare of spares) spare.kill()
    await Promise.all(spares.map(({ ended }) => ended))
  }

  /** Hands out ready workers and starts missing ones: one for each waiting slot, and one in reserve. */
  #provide(): void {
    for (const spare of this.#spares) {
      if (this.#waiting.length === 0) break
      if (!spare.isReady) continue
      this.#spares.delete(spare)
      this.#retryMs = RETRY_MS_MIN
      this.#waiting.shift()?.(spare)
    }
    if (!this.#isFilling && this.#isShort) this.#fill()
  }

  get #isShort(): boolean {
    const isAllowed = !this.#stopped && this.#retryTimer === undefined
    return isAllowed && this.#spares.size < this.#waiting.length + 1
  }

  /** To start a process holds up the event loop: what a worker that was handed out has to do goes first, and so do answers between two starts. */
  #fill(): void {
    this.#isFilling = true
    setImmediate(() =>
      setImmediate(() => {
        this.#isFilling = false
        if (this.#isShort) this.#spawn()
        this.#provide()
      }),
    )
  }

  #spawn(): void {
    let worker: WorkerHandle
    try {
      worker = this.#parts.spawnWorker()
    } catch (err) {
      this.#failed({ err }, 'could not start a worker process')
      return
    }
    this.#spares.add(worker)
    this.#alive.add(worker)
    // Recorded before it opens anything, so that the next owner of the directory can end it.
    this.#parts.publish([...this.#alive].map(({ identity }) => identity))
    worker.configure(this.#parts.settings())
    worker.ready.then(
      () => {
        this.#failures = 0
        this.#firstReady.resolve()
        this.#provide()
      },
      () => {},
    )
    void worker.ended.then(() => {
      this.#alive.delete(worker)
      this.#parts.onEnded?.(worker)
      if (this.#spares.delete(worker))
        this.#failed({ worker: worker.identity.pid }, 'a spare worker ended before it got any work')
    })
  }

  #failed(fields: object, message: string): void {
    if (this.#stopped) return
    this.#parts.log.error(fields, message)
    this.#failures++
    if (this.#failures === FAILURES_MAX) {
      const reason = `No worker process became ready in ${FAILURES_MAX} tries. The log has the errors.`
      this.#firstReady.reject(new CellError('internal', reason))
    }
    const provide = () => {
      this.#retryTimer = undefined
      this.#provide()
    }
    this.#retryTimer ??= this.#parts.clock.setTimer(provide, this.#retryMs, { keepsAlive: true })
    this.#retryMs = Math.min(this.#retryMs * 2, RETRY_MS_MAX)
  }
}

export function stopping(): CellError {
  return new CellError('shutting_down', 'The node is stopping.')
}
