import { WorkerEnded, type WorkerHandle } from './worker-process.ts'

interface WaitingTask {
  cellId: string
  resolve(worker: WorkerHandle): void
  reject(error: unknown): void
}

/** Tasks of a slot that wait for its next worker. */
export class WaitingTasks {
  readonly #tasks = new Set<WaitingTask>()

  get size(): number {
    return this.#tasks.size
  }

  /** @throws `WorkerEnded` if the task has to look for another slot; the signal's reason */
  worker(cellId: string, signal: AbortSignal | undefined): Promise<WorkerHandle> {
    const { promise, resolve, reject } = Promise.withResolvers<WorkerHandle>()
    const task = { cellId, resolve, reject }
    const abandon = () => reject(signal?.reason)
    if (signal?.aborted === true) abandon()
    this.#tasks.add(task)
    signal?.addEventListener('abort', abandon, { once: true })
    return promise.finally(() => {
      this.#tasks.delete(task)
      signal?.removeEventListener('abort', abandon)
    })
  }

  provide(worker: WorkerHandle): void {
    for (const { resolve } of this.#tasks) resolve(worker)
  }

  /** @param cellId without it, the tasks of all cells */
  sendAway(cellId?: string): void {
    for (const task of this.#tasks)
      if (cellId === undefined || task.cellId === cellId) task.reject(new WorkerEnded())
  }
}
