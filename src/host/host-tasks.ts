import type { BackupProgressEvent } from '../backup/backup-manager.ts'
import type { HostCells } from './host-cells.ts'
import type { FromHost, HostTask } from './protocol.ts'
import { provenTransaction } from './transaction-note.ts'
import { toWireError } from './wire-error.ts'

/** Runs in a host what takes its time, beside the batches. */
export class HostTasks {
  readonly #cells: HostCells
  readonly #send: (message: FromHost) => void
  readonly #running = new Map<number, { cellId: string; abort: AbortController }>()

  constructor(cells: HostCells, send: (message: FromHost) => void) {
    this.#cells = cells
    this.#send = send
  }

  async run(id: number, task: HostTask): Promise<void> {
    const abort = new AbortController()
    this.#running.set(id, { cellId: task.cellId, abort })
    try {
      const value = await this.#perform(id, task, abort.signal)
      this.#send({ type: 'reply', id, value, error: undefined })
    } catch (error) {
      this.#send({ type: 'reply', id, value: undefined, error: toWireError(error) })
    } finally {
      this.#running.delete(id)
    }
  }

  abort(id: number): void {
    this.#running.get(id)?.abort.abort()
  }

  isAtWorkOn(cellId: string): boolean {
    return [...this.#running.values()].some((each) => each.cellId === cellId)
  }

  /** Synchronous up to its first wait: a question that was asked before a batch is answered before it. */
  #perform(id: number, task: HostTask, signal: AbortSignal): Promise<unknown> | unknown {
    const { local } = this.#cells
    const { cellId } = task
    const onProgress = (event: BackupProgressEvent) => this.#send({ type: 'progress', id, event })
    switch (task.task) {
      case 'backup':
        return this.#cells.backups[task.kind](cellId, { signal, onProgress })
      case 'restore': {
        const { version, accountId } = task
        return this.#cells.backups.restore(cellId, { version, accountId, signal, onProgress })
      }
      case 'ensure-local':
        return local.ensureLocal(cellId)
      case 'collect':
        return this.#cells.collect(cellId, signal)
      case 'release':
        return local.release(cellId)
      case 'quarantine':
        return local.pool.quarantine.state(cellId)
      case 'last-transaction':
        return local.files.exists(cellId) ? provenTransaction(local.pool.open(cellId)) : undefined
    }
  }
}
