import { KeyedQueue } from '../base/keyed-queue.ts'
import { CellError } from '../errors.ts'
import { toBackupError } from './archive/backup-errors.ts'
import type { ChangeTrackers } from './changes/change-trackers.ts'
import type { BackupOptions } from './versions/backup-types.ts'

/** Runs one backup or restore of a cell at a time, and ends all of them when the store closes. */
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
   * Runs `work` after the cell's earlier work, if the caller may still do it then. Its signal aborts with the caller's, and at the deadline of {@link stop}.
   *
   * @throws always a `CellError`: other errors of `work` are translated
   */
  async run<T>(
    cellId: string,
    { signal, permit }: Pick<BackupOptions, 'signal' | 'permit'>,
    work: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const either = signal === undefined ? this.#abort.signal : AbortSignal.any([signal, this.#abort.signal])
    this.#trackers.acquire(cellId)
    try {
      return await this.#queues.run(cellId, async () => {
        permit?.check()
        return await work(either)
      })
    } catch (error) {
      throw toBackupError(error, either)
    } finally {
      this.#trackers.release(cellId)
    }
  }

  /** Takes no more work. Waits for running work until the deadline, then cancels it. */
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
