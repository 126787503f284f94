import { setImmediate } from '../../base/clock.ts'
import type { CellDatabase } from '../../engine/cell-database.ts'
import { hasCommitBetween, type WalEnd } from '../../engine/wal/wal-end.ts'
import type { FromWorker, WorkerTask } from '../protocol/protocol.ts'
import { toWireError, type WireError } from '../protocol/wire-error.ts'
import type { WorkerCells } from './worker-cells.ts'

/** A task that waits for its turn. */
interface WaitingTask {
  id: number
  task: WorkerTask
}

export interface WorkerTasksParts {
  cells: WorkerCells
  send(message: FromWorker): void
  /** The end of the batch that runs; undefined if none does. */
  batch(): Promise<void> | undefined
}

/** Each holds up the worker for some milliseconds: it flushes files, or closes or opens a cell. */
const IN_TURNS: ReadonlySet<WorkerTask['task']> = new Set(['cut', 'close', 'release', 'look-at-log'])

/**
 * Runs tasks in a worker, in parallel with the batches. Of those that hold it up one begins in each turn of the event loop, so that
 * a batch waits for one of them, and not for those of all cells whose backups or moves are under way. What comes for a cell still
 * runs in the order in which it came.
 */
export class WorkerTasks {
  readonly #parts: WorkerTasksParts
  readonly #running = new Map<number, { cellId: string; abort: AbortController }>()
  #waiting: WaitingTask[] = []
  #isScheduled = false

  constructor(parts: WorkerTasksParts) {
    this.#parts = parts
  }

  /**
   * Starts a task: in a later turn, or at once. What needs no wait is answered when it has started, before anything else is done for
   * the cell: the next batch may change its result, and the batch's messages must not overtake the answer.
   */
  run(id: number, task: WorkerTask): void {
    if (IN_TURNS.has(task.task)) {
      this.#waiting.push({ id, task })
      this.#scheduleNext()
      return
    }
    this.before(task.cellId)
    this.#start(id, task)
  }

  /** Before a batch: starts those of its cells that wait, and one of the others, for which there may be no turn after the batch. */
  beforeBatch(cellIds: readonly string[]): void {
    for (const cellId of cellIds) this.before(cellId)
    this.#startNext()
  }

  /** Before anything else is done for the cell: starts the cell's tasks that wait. */
  before(cellId: string): void {
    if (!this.#waiting.some(({ task }) => task.cellId === cellId)) return
    const { due = [], others = [] } = Object.groupBy(this.#waiting, ({ task }) =>
      task.cellId === cellId ? 'due' : 'others',
    )
    this.#waiting = others
    for (const { id, task } of due) this.#start(id, task)
  }

  /** Starts all that wait. */
  startAll(): void {
    for (const { id, task } of this.#waiting.splice(0)) this.#start(id, task)
  }

  #scheduleNext(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.#startNext()
      if (this.#waiting.length > 0) this.#scheduleNext()
    })
  }

  #startNext(): void {
    const next = this.#waiting.shift()
    if (next !== undefined) this.#start(next.id, next.task)
  }

  #start(id: number, task: WorkerTask): void {
    const abort = new AbortController()
    const reply = (value: unknown) => this.#reply(id, value)
    const refuse = (error: unknown) => this.#reply(id, undefined, toWireError(error))
    try {
      const value = this.#perform(task, abort.signal)
      if (!(value instanceof Promise)) {
        reply(value)
        return
      }
      this.#running.set(id, { cellId: task.cellId, abort })
      void value.then(reply, refuse).finally(() => this.#running.delete(id))
    } catch (error) {
      refuse(error)
    }
  }

  abort(id: number): void {
    this.#running.get(id)?.abort.abort()
  }

  /** Whether a task of the cell runs or waits. */
  isBusyWith(cellId: string): boolean {
    return this.#runs(cellId) || this.#waiting.some(({ task }) => task.cellId === cellId)
  }

  #runs(cellId: string): boolean {
    return [...this.#running.values()].some((each) => each.cellId === cellId)
  }

  #reply(id: number, value: unknown, error?: WireError): void {
    this.#parts.send({ type: 'reply', id, value, error })
  }

  #perform(task: WorkerTask, signal: AbortSignal): Promise<unknown> | unknown {
    const { cells } = this.#parts
    const { local } = cells
    const { cellId } = task
    switch (task.task) {
      case 'install':
        return this.#afterBatch(() => cells.install(cellId, task.options))
      case 'cut':
        return cells.cut(cellId, task.call)
      case 'begin-restore':
        return cells.beginRestore(cellId)
      case 'note-mark':
        return local.archived?.installer.noteMark(cellId, task.name)
      case 'collect-expired':
        return cells.collectExpired(cellId, signal)
      case 'export':
        return cells.export(cellId, task.file, signal)
      case 'close':
        return !this.#runs(cellId) && cells.closeForMove(cellId)
      case 'drop-history':
        return local.archived?.logs.dropHistory(cellId)
      case 'look-at-log':
        return local.lookAtLog(cellId)
      case 'release':
        return cells.release(cellId)
      case 'quarantine-state':
        return local.pool.quarantine.state(cellId)
      case 'was-committed':
        // Its files went after a COMMIT that was seen, or before one that then failed.
        if (!local.files.exists(cellId)) return task.before === undefined
        // Another program was the last one to close the cell, and has moved the WAL into the database.
        if (task.before !== undefined && !local.files.hasLogFile(cellId)) return null
        return local.pool.work(cellId, () => wasCommitted(local.open(cellId), task.before))
    }
  }

  /**
   * A batch that waits for its fsyncs has committed what it has not told of yet. It tells before the cell is restored, so that the node
   * knows that the restore has replaced it: in the durability `remote` it would be acknowledged, and be in no object.
   */
  #afterBatch(run: () => void): Promise<void> | undefined {
    const batch = this.#parts.batch()
    if (batch !== undefined) return batch.then(run)
    run()
    return undefined
  }
}

/** Makes sure that the commit is on disk: the process that made it may have been killed before its fsync. */
function wasCommitted(database: CellDatabase, before: WalEnd | undefined): boolean {
  const isCommitted = before === undefined || hasCommitBetween(before, database.walEnd())
  database.syncs.syncFound()
  return isCommitted
}
