import { exists } from '../../../base/files/durable-files.ts'
import type { StorePaths } from '../../../base/files/store-paths.ts'
import type { Log } from '../../../base/log.ts'
import { logOwner, type ProcessIdentity } from '../../../catalog/directory-lock.ts'
import { supersede } from '../../../commit-log/redo.ts'

/** The commit logs of workers that were killed: they hold up no cell, and go once they are needed no more. */
export class LeftLogs {
  readonly #paths: StorePaths
  readonly #log: Log
  #last: Promise<void> = Promise.resolve()

  constructor(paths: StorePaths, log: Log) {
    this.#paths = paths
    this.#log = log
  }

  /** A worker has ended. One that was stopped has left nothing. */
  ended(worker: ProcessIdentity): void {
    this.#last = this.#last.then(() => this.#supersede(worker))
  }

  /** Resolves once no log is worked on. */
  idle(): Promise<void> {
    return this.#last
  }

  async #supersede(worker: ProcessIdentity): Promise<void> {
    const { commitLogs: directory } = this.#paths
    try {
      const wal = (cellId: string) => this.#paths.cell(cellId).wal
      const hasFailed = (cellId: string) => exists(this.#paths.cell(cellId).quarantine)
      if (await supersede({ directory, wal }, logOwner(worker), hasFailed)) return
      this.#log.error(
        { worker: worker.pid },
        'the commit log of a worker that has ended is damaged; it stays',
      )
    } catch (err) {
      this.#log.error({ worker: worker.pid, err }, 'the commit log of a worker that has ended stays')
    }
  }
}
