import { unlessAborted } from '../../../base/async/unless-aborted.ts'
import { type Clock, setImmediate, within } from '../../../base/clock.ts'
import type { CellRecord } from '../../../catalog/cell-registry.ts'
import type { WorkerTask, WorkerTaskResults } from '../../protocol/protocol.ts'
import { Batch, type FinishedBatch, type ProvisionalResults } from '../dispatch/batch.ts'
import type { QueuedOperation } from '../dispatch/queued-operation.ts'
import {
  type Charged,
  chargedFor,
  type RunningTask,
  type RunningWork,
  ranMs,
} from '../dispatch/running-work.ts'
import { UnresolvedTransactions } from '../dispatch/unresolved-transactions.ts'
import type { HeldUp, KillReason } from '../placement/worker-ends.ts'
import { OperationQueue, type QueueBounds } from '../queue/operation-queue.ts'
import { type TaskOptions, WorkerEnded, type WorkerHandle, type WorkMessage } from './worker-process.ts'

export interface SlotContext {
  clock: Clock
  bounds: QueueBounds
  /** Milliseconds that a batch may take. */
  sliceMs: number
  record(cellId: string): CellRecord | undefined
  /** Whether no operation of the cell may start. */
  isPaused(cellId: string): boolean
  /** Whose time a task of the cell takes. */
  charged(cellId: string): Charged
  /** Runs operations again, each in its cell's present slot. */
  requeue(operations: readonly QueuedOperation[]): void
  /** Told of a statement of an operation that took long. */
  onSlow(operation: QueuedOperation, slow: { statement: string; ms: number }): void
}

/** The open work of a worker that has ended. */
export interface LostWorker {
  worker: WorkerHandle
  /** Undefined if the node did not kill it. */
  reason: KillReason | undefined
  /** The statement that was running at the end, if any. */
  statement: QueuedOperation | undefined
  /** The cell whose task was running at the end, if any, or that was being closed. */
  task: Charged | undefined
  /** The operation whose COMMIT was running at the end, if any: the WAL decides what happens to it. */
  commit: QueuedOperation | undefined
  /** Their transactions may have been committed. */
  provisional: ProvisionalResults[]
  /** Must run again. Includes `statement`'s operation. */
  notRun: QueuedOperation[]
}

/**
 * Milliseconds without a batch after which few operations come: the next one is sent at once. On a busy event loop the rest of its turn can
 * take long: beside all attacks at once, a neighbour's 99th percentile was 32 ms in place of 46.
 */
const QUIET_MS = 3
/** A step of a backup takes some milliseconds, and operations have waited for longer by then. */
const TASKS_FIRST_MS = 50

/**
 * A queue in front of one worker at a time. The worker runs one batch; operations that arrive meanwhile make the next
 * one. If the worker ends, the pool gives the slot another.
 *
 *     no worker ── use() ──▶ idle ── operations wait ──▶ running ── done ──▶ idle, or running the next batch
 *         ▲                    │                            │
 *         └────── onLost ◀─────┴── kill(), or a crash ◀─────┘
 *
 * stop() leads from any state to `stopping`: no new batch starts, and the worker finishes its own, closes its cells and
 * exits. Then dispose() wakes the tasks that wait and returns the queue. Without a worker, operations and tasks wait,
 * and so do provisional results: the next worker tells whether they were committed, before it does anything else.
 */
export class WorkerSlot {
  readonly queue: OperationQueue
  readonly #context: SlotContext
  readonly #onLost: (slot: WorkerSlot, lost: LostWorker) => void
  #worker: WorkerHandle | undefined
  #batch: Batch | undefined
  #scheduled = false
  /** Its worker is new. */
  #startsWithTasks = false
  /** Monotonic time of the end of the last batch. */
  #idleSince = Number.NEGATIVE_INFINITY
  #killReason: KillReason | undefined
  #killedWork: RunningWork | undefined
  #task: RunningTask | undefined
  #stopping = false
  readonly #unresolved: UnresolvedTransactions
  /** Tasks wait for it while the slot has no worker, and then look again for the slot that has their cell. */
  #nextWorker = Promise.withResolvers<void>()
  /** Called when the running batch is over. */
  readonly #batchOver: (() => void)[] = []

  constructor(context: SlotContext, onLost: (slot: WorkerSlot, lost: LostWorker) => void) {
    this.#context = context
    this.#onLost = onLost
    this.queue = new OperationQueue(context.bounds, context.sliceMs, context.isPaused)
    this.#unresolved = new UnresolvedTransactions(context)
  }

  get worker(): WorkerHandle | undefined {
    return this.#worker
  }

  /** What its worker does now, if that is known. */
  get work(): RunningWork | undefined {
    return this.#task ?? this.#batch?.statement
  }

  get stopping(): boolean {
    return this.#stopping
  }

  /** Nothing runs, and nothing waits. */
  get idle(): boolean {
    const isAsked = this.#unresolved.size > 0 || this.#worker?.hasTasks === true
    return this.#batch === undefined && this.queue.size === 0 && !isAsked
  }

  /** Whose operations on other cells wait for the work that is running. */
  heldUpBy(work: RunningWork): HeldUp {
    const { cellId, accountId } = chargedFor(work)
    const isNeighbours = (each: QueuedOperation) => each.accountId !== accountId
    if (this.queue.hasOtherAccount(accountId) || this.#batch?.waits(isNeighbours)) return 'neighbours'
    const isOther = (each: QueuedOperation) => each.cellId !== cellId
    return this.queue.hasOtherCell(cellId) || this.#batch?.waits(isOther) ? 'own' : 'nobody'
  }

  /** Whether its worker may have the cell open. */
  mayHaveOpen(cellId: string): boolean {
    return this.#worker?.mayHaveUsed(cellId) === true
  }

  /** Milliseconds that the work has run: see {@link ranMs}. */
  ranMs(work: RunningWork, now: number): number {
    return ranMs(work, this.#worker, now)
  }

  /**
   * Milliseconds since the running batch's last message, and without a batch those for which a worker with tasks has not
   * answered; 0 while a statement runs.
   */
  silentMs(now: number): number {
    const batch = this.#batch
    if (batch === undefined) return this.#worker?.hasTasks === true ? this.#worker.unansweredMs(now) : 0
    return batch.statement?.kind === 'statement' ? 0 : now - batch.heardAt
  }

  /** @throws `busy` */
  add(operation: QueuedOperation): void {
    this.queue.add(operation)
    this.#schedule()
  }

  /** What waits may start: a cell is no longer paused. */
  resume(): void {
    this.#schedule()
  }

  requeue(operations: readonly QueuedOperation[]): void {
    this.queue.requeue(operations)
    this.#schedule()
  }

  /** Takes a cell over, as {@link releaseCell} of another slot hands it out. */
  receiveCell({ operations, provisional }: ReturnType<WorkerSlot['releaseCell']>): void {
    for (const each of provisional) this.resolve(each)
    this.queue.putCell(operations)
    this.#schedule()
  }

  /** Gives the slot a worker that runs no batch yet. */
  use(worker: WorkerHandle): void {
    this.#worker = worker
    worker.onBatch = (message, parts) => this.#take(message, parts)
    void worker.ended.then(() => {
      // Tasks wait for the next one from here on: each try with this one would fail at once.
      this.#worker = undefined
      if (!this.#stopping) this.#nextWorker = Promise.withResolvers()
      this.#ended(worker)
    })
    // Before anything else: it could move the WAL, which tells of these transactions, into the database.
    this.#unresolved.askAll(worker)
    this.#nextWorker.resolve()
    this.#startsWithTasks = true
    void worker.ready.then(
      () => setImmediate(() => void this.#letTasksGoFirst(worker)),
      () => {},
    )
  }

  /** Where statements end one worker after the other, tasks get no other time: the first batch waits for them a little. */
  async #letTasksGoFirst(worker: WorkerHandle): Promise<void> {
    await within(this.#context.clock, TASKS_FIRST_MS, worker.answered())
    if (worker !== this.#worker) return
    this.#startsWithTasks = false
    this.#flush()
  }

  /** Finds out whether a transaction was committed although its worker ended. Then its operations are answered, or run again. */
  resolve(provisional: ProvisionalResults): void {
    this.#unresolved.add(provisional, this.#worker)
  }

  /**
   * Has its worker close a cell, once nothing of the cell runs. Nothing new of it may start meanwhile.
   *
   * @returns false if the worker still needs the cell
   */
  async closeCell(cellId: string): Promise<boolean> {
    if (this.#batch?.has(cellId)) await new Promise<void>((resolve) => this.#batchOver.push(resolve))
    const worker = this.#worker
    if (worker === undefined) return true
    try {
      return await worker.closeCell(cellId, this.#context.record(cellId))
    } catch (error) {
      // What else can fail is the closing itself: then it is as open as before.
      return error instanceof WorkerEnded
    }
  }

  /** Hands a cell that is not open over to another slot. @returns its waiting operations and unresolved transactions */
  releaseCell(cellId: string): { operations: QueuedOperation[]; provisional: ProvisionalResults[] } {
    return { operations: this.queue.takeCell(cellId), provisional: this.#unresolved.takeCell(cellId) }
  }

  /**
   * Whether a task has to wait for a worker. A caller that has waited looks again for the slot that has the cell.
   *
   * @returns undefined if there is a worker; what it returns rejects with the signal's reason
   */
  untilWorker(signal: AbortSignal | undefined): Promise<void> | undefined {
    const hasWorker = this.#worker !== undefined && !this.#stopping
    return hasWorker ? undefined : unlessAborted(this.#nextWorker.promise, signal)
  }

  /** For a slot with a worker. @throws `WorkerEnded`, and what the task throws */
  runTask<T extends WorkerTask>(task: T, options: TaskOptions = {}): Promise<WorkerTaskResults[T['task']]> {
    const worker = this.#worker as WorkerHandle
    return worker.runTask(task, this.#context.record(task.cellId), options)
  }

  /** Refuses operations that have waited too long. */
  expire(now: number): void {
    this.queue.expire(now)
    this.#unresolved.expire(now)
  }

  /** Kills the worker. `onLost` follows when the process has ended. */
  kill(reason: KillReason): void {
    if (this.#killReason !== undefined || this.#worker === undefined) return
    this.#killReason = reason
    this.#killedWork = this.work
    this.#worker.kill()
  }

  /**
   * Lets the worker finish and close its cells. Resolves when it has ended; the slot takes no other.
   *
   * @param closeMs the worker is killed if it takes longer
   */
  async stop(closeMs: number): Promise<void> {
    const worker = this.#worker
    if (worker !== undefined && !this.#stopping) this.#nextWorker = Promise.withResolvers()
    this.#stopping = true
    worker?.stop()
    const timer = this.#context.clock.setTimer(() => worker?.kill(), closeMs)
    await worker?.ended
    timer.cancel()
  }

  /** Ends the use of a stopped slot. @returns the operations that wait */
  dispose(): QueuedOperation[] {
    this.#nextWorker.resolve()
    this.#unresolved.giveUp()
    return this.queue.takeAll()
  }

  #schedule(): void {
    if (this.#scheduled || this.#batch !== undefined) return
    this.#scheduled = true
    const flush = () => {
      this.#scheduled = false
      this.#flush()
    }
    // Otherwise all operations of this turn of the event loop make one batch.
    const isQuiet = this.#context.clock.monotonic() - this.#idleSince >= QUIET_MS
    if (isQuiet) queueMicrotask(flush)
    else setImmediate(flush)
  }

  #flush(): void {
    const worker = this.#worker
    if (worker === undefined || !worker.isReady || this.#startsWithTasks) return
    if (this.#batch !== undefined || this.#stopping) return
    const now = this.#context.clock.monotonic()
    const cells = this.queue.takeBatch(now)
    if (cells.length === 0) return
    this.#batch = new Batch(cells, now)
    const wire = cells.map((operations) => ({
      cellId: (operations[0] as QueuedOperation).cellId,
      operations: operations.map(({ operation }) => operation),
    }))
    worker.runBatch(wire, this.#context.record)
  }

  #take(message: WorkMessage, parts: readonly Buffer[] = []): void {
    const now = this.#context.clock.monotonic()
    if (message.type === 'working') {
      const { cellId } = message
      this.#task =
        cellId === undefined ? undefined : { kind: 'task', cell: this.#context.charged(cellId), since: now }
      if (cellId === undefined) this.#batch?.resume()
      return
    }
    if (message.type === 'released') {
      this.queue.released(message.cellId)
      this.#schedule()
      return
    }
    if (message.type === 'slow') {
      const operation = this.#batch?.operation(message.index)
      if (operation !== undefined) this.#context.onSlow(operation, message)
      return
    }
    this.#task = undefined
    this.#batch?.take(message, now, parts)
    const finished = this.#batch?.finished
    if (finished === undefined) return
    this.#endBatch()
    this.#finish(finished)
    this.#flush()
  }

  #endBatch(): void {
    this.#batch = undefined
    this.#idleSince = this.#context.clock.monotonic()
    for (const over of this.#batchOver.splice(0)) over()
  }

  #finish(finished: FinishedBatch): void {
    const { turns } = this.queue
    for (const each of finished.ran) turns.charge(each.accountId, each.operations, each.ms)
    if (finished.returned.length > 0) this.queue.putBack(finished)
    this.queue.holdBack(finished.held)
    if (this.queue.size === 0) turns.reset()
  }

  #ended(worker: WorkerHandle): void {
    const running = this.#killedWork ?? this.work
    if (running !== undefined) {
      const ms = this.#context.clock.monotonic() - running.since
      this.queue.turns.charge(chargedFor(running).accountId, 1, ms)
    }
    const statement = running?.kind === 'task' ? undefined : running?.operation
    const reason = this.#killReason
    this.#killReason = undefined
    this.#killedWork = undefined
    this.#task = undefined
    this.queue.allReleased()
    const { provisional, notRun } = this.#batch?.lost() ?? { provisional: [], notRun: [] }
    this.#endBatch()
    // The statement had just ended when its worker was killed: the WAL decides what happens to it.
    const isUndecided = provisional.some(({ outcomes }) =>
      outcomes.some(([operation]) => operation === statement),
    )
    this.#onLost(this, {
      worker,
      reason,
      statement: isUndecided ? undefined : statement,
      task: running?.kind === 'task' ? running.cell : undefined,
      commit: isUndecided && running?.kind === 'commit' ? statement : undefined,
      provisional,
      notRun,
    })
  }
}
