import type { Clock } from '../../base/clock.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import { CellError } from '../../errors.ts'
import { wasCommitted } from '../protocol/commit-marker.ts'
import type { WorkerTask, WorkerTaskResults } from '../protocol/protocol.ts'
import { Batch, type ProvisionalResults, type RunningStatement } from './batch.ts'
import { OperationQueue, type QueueBounds, type QueuedOperation } from './operation-queue.ts'
import { type TaskOptions, WorkerEnded, type WorkerHandle } from './worker-process.ts'

export interface SlotContext {
  clock: Clock
  bounds: QueueBounds
  record(cellId: string): CellRecord | undefined
  /** Unique among all batches of all nodes. */
  nextBatchName(): string
  /** Has operations run again, each where its cell is now. */
  putBack(operations: readonly QueuedOperation[]): void
}

/** Why a node ends a worker. */
export type KillReason = 'timeout' | 'held-up' | 'abandoned' | 'memory' | 'silent'

/** What a worker that has ended has left. */
export interface LostWorker {
  worker: WorkerHandle
  /** Undefined if it ended by itself. */
  reason: KillReason | undefined
  /** The statement that ran when it was ended, if any did. */
  statement: QueuedOperation | undefined
  /** May have been committed. */
  provisional: ProvisionalResults[]
  /** Was not, and has to be run again; holds the statement's operation. */
  unrun: QueuedOperation[]
}

interface WaitingTask {
  resolve(worker: WorkerHandle): void
  reject(error: unknown): void
}

/**
 * A queue in front of one worker at a time. The worker gets one batch; what comes meanwhile waits here, and makes the next.
 * If the worker ends, the slot goes on with another.
 */
export class WorkerSlot {
  readonly queue: OperationQueue
  readonly #context: SlotContext
  readonly #onLost: (slot: WorkerSlot, lost: LostWorker) => void
  #worker: WorkerHandle | undefined
  #batch: Batch | undefined
  #scheduled = false
  #endReason: KillReason | undefined
  #endedStatement: QueuedOperation | undefined
  #stopping = false
  /** Asked of each worker until one has answered. */
  readonly #unresolved = new Set<ProvisionalResults>()
  /** Tasks that wait for a worker. */
  readonly #waiting = new Set<WaitingTask>()

  constructor(context: SlotContext, onLost: (slot: WorkerSlot, lost: LostWorker) => void) {
    this.#context = context
    this.#onLost = onLost
    this.queue = new OperationQueue(context.bounds)
  }

  get worker(): WorkerHandle | undefined {
    return this.#worker
  }

  get statement(): RunningStatement | undefined {
    return this.#batch?.statement
  }

  get stopping(): boolean {
    return this.#stopping
  }

  /** Nothing is under way, and nothing waits. */
  get idle(): boolean {
    const isAsked = this.#unresolved.size > 0 || this.#worker?.hasTasks === true || this.#waiting.size > 0
    return this.#batch === undefined && this.queue.size === 0 && !isAsked
  }

  /** Whether operations on other cells wait for the statement that is running. */
  holdsUpOthers({ operation }: RunningStatement): boolean {
    const { cellId } = operation
    return this.queue.hasOtherThan(cellId) || this.#batch?.holdsOtherThan(cellId) === true
  }

  /**
   * Milliseconds that a statement has run. Those do not count in which its worker could have run and others had the
   * processors, from the first look at the statement on: on a busy machine nobody is to be ended for that.
   */
  ranMs(statement: RunningStatement, now: number): number {
    const waitedMs = this.#worker?.waitedMs() ?? 0
    statement.waitedMs ??= waitedMs
    return now - statement.since - (waitedMs - statement.waitedMs)
  }

  /** Milliseconds since its worker last gave a sign of life while it was to give one; 0 while a statement runs. */
  silentMs(now: number): number {
    return this.#batch === undefined || this.#batch.statement !== undefined ? 0 : now - this.#batch.heardAt
  }

  /** @throws `busy` */
  add(operation: QueuedOperation): void {
    this.queue.add(operation)
    this.#schedule()
  }

  putBack(operations: readonly QueuedOperation[]): void {
    this.queue.putBack(operations)
    this.#schedule()
  }

  /** Goes on with a worker. What it says is only heard from here on. */
  use(worker: WorkerHandle): void {
    this.#worker = worker
    worker.onBatch = (message) => this.#take(message)
    void worker.ended.then(() => this.#ended(worker))
    // Before any batch: another transaction would overwrite the marker that is asked for.
    for (const provisional of this.#unresolved) this.#ask(worker, provisional)
    for (const { resolve } of this.#waiting) resolve(worker)
    void worker.ready.then(
      () => this.#flush(),
      () => {},
    )
  }

  /** Finds out whether a transaction was committed whose worker ended in the middle of it; only then is it answered, or run again. */
  resolve(provisional: ProvisionalResults): void {
    this.#unresolved.add(provisional)
    if (this.#worker !== undefined) this.#ask(this.#worker, provisional)
  }

  /** The cell is another slot's from here on. @returns what waits for it here, and what is still to be found out of it */
  giveUp(cellId: string): { operations: QueuedOperation[]; provisional: ProvisionalResults[] } {
    const provisional = [...this.#unresolved].filter((each) => each.cellId === cellId)
    for (const each of provisional) this.#unresolved.delete(each)
    return { operations: this.queue.takeCell(cellId), provisional }
  }

  /** @throws `WorkerEnded`, the signal's reason, and what the task throws */
  async runTask<T extends WorkerTask>(
    task: T,
    options: TaskOptions = {},
  ): Promise<WorkerTaskResults[T['task']]> {
    const isHere = this.#worker !== undefined && !this.#stopping
    const worker = isHere ? (this.#worker as WorkerHandle) : await this.#nextWorker(options.signal)
    return await worker.runTask(task, this.#context.record(task.cellId), options)
  }

  /** Refuses what has waited for too long. */
  expire(now: number): void {
    this.queue.expire(now)
    for (const { outcomes } of this.#unresolved) {
      for (const [operation] of outcomes)
        if (operation.notAfter <= now) operation.settle({ ok: false, error: unknownOutcome() })
    }
  }

  /** Ends the worker at once; the slot is told that it is lost when it is gone. */
  end(reason: KillReason): void {
    if (this.#endReason !== undefined) return
    this.#endReason = reason
    this.#endedStatement = this.statement?.operation
    this.#worker?.kill()
  }

  /** Has the worker finish and close its cells. Resolves when it is gone; no other takes its place. */
  async stop(): Promise<void> {
    this.#stopping = true
    this.#worker?.stop()
    await this.#worker?.ended
  }

  /** Nobody uses the stopped slot any more. @returns the operations that waited */
  retire(): QueuedOperation[] {
    for (const { reject } of this.#waiting) reject(new WorkerEnded())
    for (const { outcomes } of this.#unresolved)
      for (const [operation] of outcomes) operation.settle({ ok: false, error: unknownOutcome() })
    return this.queue.takeAll()
  }

  #nextWorker(signal: AbortSignal | undefined): Promise<WorkerHandle> {
    const { promise, resolve, reject } = Promise.withResolvers<WorkerHandle>()
    const waiting = { resolve, reject }
    const abandon = () => reject(signal?.reason)
    if (signal?.aborted === true) abandon()
    this.#waiting.add(waiting)
    signal?.addEventListener('abort', abandon, { once: true })
    return promise.finally(() => {
      this.#waiting.delete(waiting)
      signal?.removeEventListener('abort', abandon)
    })
  }

  #schedule(): void {
    if (this.#scheduled || this.#batch !== undefined) return
    this.#scheduled = true
    // What comes in this turn of the event loop makes one batch.
    setImmediate(() => {
      this.#scheduled = false
      this.#flush()
    })
  }

  #flush(): void {
    const worker = this.#worker
    if (worker === undefined || !worker.isReady || this.#batch !== undefined || this.#stopping) return
    const now = this.#context.clock.monotonic()
    const cells = this.queue.takeBatch(now)
    if (cells.length === 0) return
    this.#batch = new Batch(cells, now)
    const wire = cells.map((operations) => ({
      cellId: (operations[0] as QueuedOperation).cellId,
      operations: operations.map(({ operation }) => operation),
    }))
    worker.runBatch(this.#context.nextBatchName(), wire, this.#context.record)
  }

  #take(message: Parameters<Batch['take']>[0]): void {
    if (this.#batch?.take(message, this.#context.clock.monotonic()) !== true) return
    this.#batch = undefined
    this.#flush()
  }

  #ended(worker: WorkerHandle): void {
    this.#worker = undefined
    const statement = this.#endedStatement ?? this.statement?.operation
    const reason = this.#endReason
    this.#endReason = undefined
    this.#endedStatement = undefined
    const { provisional, unrun } = this.#batch?.lost() ?? { provisional: [], unrun: [] }
    this.#batch = undefined
    // One that came to its end as its worker was ended for it: what becomes of it is still to be found out.
    const isUndecided = provisional.some(({ outcomes }) =>
      outcomes.some(([operation]) => operation === statement),
    )
    this.#onLost(this, {
      worker,
      reason,
      statement: isUndecided ? undefined : statement,
      provisional,
      unrun,
    })
  }

  #ask(worker: WorkerHandle, provisional: ProvisionalResults): void {
    const { cellId, transaction, outcomes } = provisional
    worker.runTask({ task: 'last-transaction', cellId }, this.#context.record(cellId)).then(
      (last) => {
        this.#unresolved.delete(provisional)
        if (wasCommitted(transaction, last))
          for (const [operation, outcome] of outcomes) operation.settle(outcome)
        else this.#context.putBack(outcomes.map(([operation]) => operation))
      },
      (error) => {
        if (error instanceof WorkerEnded) return
        this.#unresolved.delete(provisional)
        const mayTryAgain = error instanceof CellError && error.kind === 'retry'
        const told = mayTryAgain ? unknownOutcome(error) : error
        for (const [operation] of outcomes) operation.settle({ ok: false, error: told })
      },
    )
  }
}

/** Nothing that invites to another try: the operation could be done twice. */
function unknownOutcome(cause?: Error): Error {
  return new Error('The worker was ended in the midst of a commit, and whether that was made is not known.', {
    cause,
  })
}
