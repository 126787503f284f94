import type { CellRecord } from '../engine/cell-registry.ts'
import type { Clock } from '../engine/clock.ts'
import { Batch, type ProvisionalResults, type RunningStatement } from './batch.ts'
import { type Host, HostEnded, type TaskOptions } from './host.ts'
import { OperationQueue, type QueueBounds, type QueuedOperation } from './operation-queue.ts'
import type { HostTask, HostTaskResults } from './protocol.ts'
import { wasCommitted } from './transaction-note.ts'

export interface LaneContext {
  clock: Clock
  bounds: QueueBounds
  record(cellId: string): CellRecord | undefined
  /** Unique among all batches of all nodes. */
  nextBatchName(): string
}

/** Why a node ends a host. */
export type EndReason = 'timeout' | 'held-up' | 'abandoned' | 'memory' | 'silent'

/** A host has ended while its lane was not told to stop. */
export interface LostHost {
  host: Host
  /** Undefined if it ended by itself. */
  reason: EndReason | undefined
  /** The statement that ran when it was ended, if any did. One that has run to its end is among the provisional results. */
  statement: QueuedOperation | undefined
  /** What may have been committed: whichever lane has the cell is to find out, before it runs anything else on it. */
  provisional: ProvisionalResults[]
  /** What has to be run again; holds the statement's operation unless that was answered. */
  unrun: QueuedOperation[]
}

/**
 * A queue in front of one host at a time. The host gets one batch; what comes meanwhile waits here, and makes the next.
 * If the host ends, the lane goes on with another.
 */
export class Lane {
  readonly queue: OperationQueue
  readonly #context: LaneContext
  readonly #onLost: (lane: Lane, lost: LostHost) => void
  #host: Host | undefined
  #batch: Batch | undefined
  #scheduled = false
  #endReason: EndReason | undefined
  #endedStatement: QueuedOperation | undefined
  #stopping = false
  /** Asked of each host until one has answered. */
  readonly #unresolved = new Set<ProvisionalResults>()
  readonly #waiting: ((host: Host) => void)[] = []

  constructor(context: LaneContext, onLost: (lane: Lane, lost: LostHost) => void) {
    this.#context = context
    this.#onLost = onLost
    this.queue = new OperationQueue(context.bounds)
  }

  get host(): Host | undefined {
    return this.#host
  }

  get statement(): RunningStatement | undefined {
    return this.#batch?.statement
  }

  get stopping(): boolean {
    return this.#stopping
  }

  /** Nothing is under way, and nothing waits. */
  get idle(): boolean {
    const isAsked = this.#unresolved.size > 0 || this.#host?.hasTasks === true || this.#waiting.length > 0
    return this.#batch === undefined && this.queue.size === 0 && !isAsked
  }

  /** Whether operations on other cells wait for the statement that is running. */
  holdsUpOthers({ operation }: RunningStatement): boolean {
    const { cellId } = operation
    return this.queue.hasOtherThan(cellId) || this.#batch?.holdsOtherThan(cellId) === true
  }

  /** Milliseconds since its host last gave a sign of life while it was to give one; 0 while a statement runs. */
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

  /** Has its host asked, now or as soon as it has one, whether a transaction was committed. */
  resolve(provisional: ProvisionalResults): void {
    this.#unresolved.add(provisional)
    if (this.#host !== undefined) this.#resolve(this.#host, provisional)
  }

  /** Goes on with a host. What it says is only heard from here on. */
  use(host: Host): void {
    this.#host = host
    host.onBatch = (message) => this.#take(message)
    void host.ended.then(() => this.#ended(host))
    for (const provisional of this.#unresolved) this.#resolve(host, provisional)
    for (const resolve of this.#waiting.splice(0)) resolve(host)
    void host.ready.then(
      () => this.#flush(),
      () => {},
    )
  }

  /** @throws `HostEnded`, and what the task throws */
  async runTask<T extends HostTask>(
    task: T,
    record: CellRecord | undefined,
    options?: TaskOptions,
  ): Promise<HostTaskResults[T['task']]> {
    const host = this.#host ?? (await new Promise<Host>((resolve) => this.#waiting.push(resolve)))
    return await host.runTask(task, record, options)
  }

  /** Ends the host at once; the lane is told that it is lost when it is gone. */
  end(reason: EndReason): void {
    if (this.#endReason !== undefined) return
    this.#endReason = reason
    this.#endedStatement = this.statement?.operation
    this.#host?.kill()
  }

  /** Has the host finish and close its cells. Resolves when it is gone; no other takes its place. */
  async stop(): Promise<void> {
    this.#stopping = true
    this.#host?.stop()
    await this.#host?.ended
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
    const host = this.#host
    if (host === undefined || !host.isReady || this.#batch !== undefined || this.#stopping) return
    const cells = this.queue.takeBatch()
    if (cells.length === 0) return
    this.#batch = new Batch(cells, this.#context.clock.monotonic())
    const wire = cells.map((operations) => ({
      cellId: (operations[0] as QueuedOperation).cellId,
      operations: operations.map(({ operation }) => operation),
    }))
    host.runBatch(this.#context.nextBatchName(), wire, this.#context.record)
  }

  #take(message: Parameters<Batch['take']>[0]): void {
    if (this.#batch?.take(message, this.#context.clock.monotonic()) !== true) return
    this.#batch = undefined
    this.#flush()
  }

  #ended(host: Host): void {
    this.#host = undefined
    const statement = this.#endedStatement ?? this.statement?.operation
    const reason = this.#endReason
    this.#endReason = undefined
    this.#endedStatement = undefined
    const { provisional, unrun } = this.#batch?.lost() ?? { provisional: [], unrun: [] }
    this.#batch = undefined
    // It may have run to its end while its host was being ended: then it is at fault no more, and may be committed.
    const hasRun = provisional.some(({ outcomes }) => outcomes.some(([operation]) => operation === statement))
    this.#onLost(this, { host, reason, statement: hasRun ? undefined : statement, provisional, unrun })
  }

  /** Asks whether a transaction was committed whose host ended in the middle of it; and only then answers, or runs it again. */
  #resolve(host: Host, provisional: ProvisionalResults): void {
    const { cellId, transaction, outcomes } = provisional
    host.runTask({ task: 'last-transaction', cellId }, this.#context.record(cellId)).then(
      (last) => {
        this.#unresolved.delete(provisional)
        if (wasCommitted(transaction, last))
          for (const [operation, outcome] of outcomes) operation.settle(outcome)
        else this.putBack(outcomes.map(([operation]) => operation))
      },
      (error) => {
        if (error instanceof HostEnded) return
        this.#unresolved.delete(provisional)
        for (const [operation] of outcomes) operation.settle({ ok: false, error })
      },
    )
  }
}
