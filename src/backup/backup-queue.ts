import { KeyedQueue } from '../base/keyed-queue.ts'
import { CellError } from '../errors.ts'
import { toBackupError } from './archive/backup-errors.ts'
import type { ChangeTrackers } from './changes/change-trackers.ts'

/** Runs one backup or restore of a cell at a time, and ends them all when the store closes. */
export class BackupQueue {
  readonly #trackers: ChangeTrackers
  readonly #queues = new KeyedQueue()
  readonly #abort = new AbortController()
  #stopping = false

  constructor(trackers: ChangeTrackers) {
    this.#trackers = trackers
  }

  /** @throws `store_closed` once {@link stop} was called */
  assertRunning(): void {
    if (this.#stopping) throw storeClosed()
  }

  /**
   * Runs `work` after what was queued for the cell before. It ends with the caller's signal, and when the store gives up.
   *
   * @throws a `CellError`, whatever `work` throws
   */
  async run<T>(
    cellId: string,
    signal: AbortSignal | undefined,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const either = signal === undefined ? this.#abort.signal : AbortSignal.any([signal, this.#abort.signal])
    this.#trackers.acquire(cellId)
    try {
      return await this.#queues.run(cellId, () => work(either))
    } catch (error) {
      throw toBackupError(error, either)
    } finally {
      this.#trackers.release(cellId)
    }
  }

  /** Takes no more work, and waits for what is under way until the deadline; what is left then is cancelled. */
  async stop(deadline: AbortSignal): Promise<void> {
    this.#stopping = true
    const abort = () => this.#abort.abort(storeClosed())
    if (deadline.aborted) abort()
    else deadline.addEventListener('abort', abort, { once: true })
    await this.#queues.idle()
    deadline.removeEventListener('abort', abort)
  }
}

function storeClosed(): CellError {
  return new CellError('store_closed', 'The store is closed.')
}
