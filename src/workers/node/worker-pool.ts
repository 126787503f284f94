import { randomBytes } from 'node:crypto'
import type { Clock, Timer } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { ProcessIdentity } from '../../catalog/directory-lock.ts'
import { CellError } from '../../errors.ts'
import type { WorkerSettings, WorkerTask, WorkerTaskResults } from '../protocol/protocol.ts'
import { countCrash, crashOutcome, isForStatement } from './crash-outcome.ts'
import { IsolatedSlots } from './isolated-slots.ts'
import { killReason, type WorkerLimits } from './kill-reason.ts'
import type { QueueBounds, QueuedOperation } from './operation-queue.ts'
import { type TaskOptions, WorkerEnded, type WorkerHandle } from './worker-process.ts'
import { type LostWorker, type SlotContext, WorkerSlot } from './worker-slot.ts'
import { WorkerSpawner } from './worker-spawner.ts'

export interface WorkerPoolParts {
  /** Processes that share the cells among them. */
  count: number
  clock: Clock
  log: Log
  limits: WorkerLimits
  bounds: QueueBounds
  settings: WorkerSettings
  record(cellId: string): CellRecord | undefined
  publish(workers: readonly ProcessIdentity[]): void
  /** Starts a process. @throws what the system says if it can't */
  spawnWorker(): WorkerHandle
  /** A worker is gone. */
  onEnded(worker: WorkerHandle): void
  /** A statement's worker had to be ended because of it. */
  onStrike(cellId: string): void
}

/** Statements are looked at this often while any runs. */
const CHECK_MS = 10
/** What changes slowly is looked at every so many looks. */
const SLOW_CHECKS = 10
/** A task whose worker is ended for somebody else's statement is run again this often. */
const TASK_TRIES = 5

/**
 * The workers of a node. Each cell has its home in one of them, by its id, so that it lives in one process at a time
 * (invariant 2). One whose statements hold up its neighbours is isolated, in a worker of its own, for a while.
 */
export class WorkerPool {
  readonly #parts: WorkerPoolParts
  readonly #spawner: WorkerSpawner
  readonly #homes: WorkerSlot[]
  readonly #isolated: IsolatedSlots
  readonly #context: SlotContext
  #timer: Timer | undefined
  #checks = 0
  #stopped = false

  constructor(parts: WorkerPoolParts) {
    const { count, clock, bounds, record, limits } = parts
    this.#parts = parts
    this.#spawner = new WorkerSpawner(parts)
    const epoch = randomBytes(8).toString('hex')
    let batches = 0
    this.#context = {
      clock,
      bounds,
      record,
      nextBatchName: () => `${epoch}.${++batches}`,
      putBack: (operations) => this.#putBack(operations),
    }
    this.#homes = Array.from({ length: count }, () => this.#newSlot())
    this.#isolated = new IsolatedSlots({
      clock,
      workersMax: Math.max(2, count),
      isolationMs: limits.isolationMs,
      closeMs: limits.silentMs,
      newSlot: () => this.#newSlot(),
      equip: (slot) => this.#equip(slot),
      onHome: (operations) => (this.#stopped ? refuse(operations) : this.#putBack(operations)),
    })
  }

  /** Resolves once each slot has its worker. @throws `internal` if none can be started */
  async start(): Promise<void> {
    const equipped = this.#homes.map((slot) => this.#equip(slot))
    await this.#spawner.viable
    await Promise.all(equipped)
    this.#scheduleCheck()
  }

  /** @throws `busy` when too many wait */
  add(operation: QueuedOperation): void {
    this.#slotOf(operation.cellId).add(operation)
  }

  /**
   * @param ended asked when the worker was ended: what the task has come to, if that is known all the same
   * @throws what the task throws; `busy` if its worker is ended again and again
   */
  async runTask<T extends WorkerTask>(
    task: T,
    options: TaskOptions = {},
    ended: () => WorkerTaskResults[T['task']] | undefined = () => undefined,
  ): Promise<WorkerTaskResults[T['task']]> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#slotOf(task.cellId).runTask(task, options)
      } catch (error) {
        if (!(error instanceof WorkerEnded)) throw error
        const result = ended()
        if (result !== undefined) return result
        if (this.#stopped) throw stopping()
        if (tries === TASK_TRIES) throw endedAgain()
      }
    }
  }

  /** What the workers were told of a cell is out of date. */
  forget(cellId: string): void {
    for (const worker of this.#spawner.alive) worker.forget(cellId)
  }

  /** Has every worker close its cells, and ends those that take too long. What still waits is refused. */
  async stop(deadlineMs: number): Promise<void> {
    this.#stopped = true
    this.#timer?.cancel()
    const slots = this.#slots
    const killAll = () => {
      for (const slot of slots) slot.worker?.kill()
    }
    const timer = this.#parts.clock.setTimer(killAll, deadlineMs)
    for (const slot of slots) if (slot.statement !== undefined) slot.worker?.kill()
    await Promise.all([this.#spawner.stop(), ...slots.map((slot) => slot.stop())])
    timer.cancel()
    for (const slot of slots) refuse(slot.retire())
    this.#parts.publish([])
  }

  get #slots(): WorkerSlot[] {
    return [...this.#homes, ...this.#isolated.slots]
  }

  #slotOf(cellId: string): WorkerSlot {
    return this.#isolated.of(cellId) ?? this.#homeOf(cellId)
  }

  #homeOf(cellId: string): WorkerSlot {
    return this.#homes[Number.parseInt(cellId.slice(0, 8), 16) % this.#homes.length] as WorkerSlot
  }

  #isHome(slot: WorkerSlot): boolean {
    return this.#homes.includes(slot)
  }

  #newSlot(): WorkerSlot {
    return new WorkerSlot(this.#context, (slot, lost) => this.#lost(slot, lost))
  }

  async #equip(slot: WorkerSlot): Promise<void> {
    const worker = await this.#spawner.take()
    if (this.#stopped) worker.kill()
    else slot.use(worker)
  }

  /** In their order, each to where its cell is now. */
  #putBack(operations: readonly QueuedOperation[]): void {
    for (const [slot, own] of Map.groupBy(operations, ({ cellId }) => this.#slotOf(cellId))) slot.putBack(own)
  }

  /** After what came in meanwhile was read: while this process itself was held up, no statement is to be blamed. */
  #scheduleCheck(): void {
    this.#timer = this.#parts.clock.setTimer(() => setImmediate(() => this.#checkSlots()), CHECK_MS)
  }

  #checkSlots(): void {
    if (this.#stopped) return
    this.#checks++
    const isSlowCheck = this.#checks % SLOW_CHECKS === 0
    const now = this.#parts.clock.monotonic()
    for (const slot of this.#slots) this.#check(slot, now, isSlowCheck)
    if (isSlowCheck) this.#isolated.tidy()
    this.#scheduleCheck()
  }

  #check(slot: WorkerSlot, now: number, isSlowCheck: boolean): void {
    const isHome = this.#isHome(slot)
    const reason = killReason(slot, this.#parts.limits, now, {
      canIsolate: isHome && this.#spawner.hasSpare,
      checksMemory: isSlowCheck,
    })
    if (isSlowCheck) slot.expire(now)
    if (reason !== undefined) slot.end(reason)
    const { statement } = slot
    if (!isHome && statement !== undefined && slot.ranMs(statement, now) > this.#parts.limits.holdMs) {
      this.#isolate(statement.operation.cellId)
    }
  }

  /** What waits at the cell's home goes with it. */
  #isolate(cellId: string): void {
    const slot = this.#isolated.set(cellId)
    const { operations, provisional } = this.#homeOf(cellId).giveUp(cellId)
    for (const each of provisional) slot.resolve(each)
    slot.putBack(operations)
  }

  #lost(slot: WorkerSlot, lost: LostWorker): void {
    const { worker, reason, provisional, unrun } = lost
    const isHome = this.#isHome(slot)
    if (!slot.stopping) {
      this.#parts.log.warn(
        { worker: worker.identity.pid, reason: reason ?? 'ended by itself' },
        'a worker has ended; another takes over',
      )
      // First come the many: the worker that is ready is theirs.
      if (isHome) void this.#equip(slot)
      this.#settleLost(lost, isHome)
      this.#isolated.equip()
    }
    for (const each of provisional) this.#slotOf(each.cellId).resolve(each)
    this.#putBack(unrun)
  }

  /** Settles whose fault it was. Everything that stays unsettled is run again. */
  #settleLost({ worker, reason, statement, unrun }: LostWorker, isHome: boolean): void {
    const { limits, onStrike } = this.#parts
    const cause = reason ?? (worker.ranOutOfMemory ? 'memory' : undefined)
    if (statement === undefined) {
      // It may have been any of them.
      if (!isForStatement(cause)) for (const each of unrun) countCrash(each)
      return
    }
    const { error, isStrike } = crashOutcome(statement, cause, isHome, limits.memoryMax)
    if (error !== undefined) statement.settle({ ok: false, error })
    if (isStrike) onStrike(statement.cellId)
    if (!statement.isSettled) this.#isolate(statement.cellId)
  }
}

function refuse(operations: readonly QueuedOperation[]): void {
  for (const each of operations) each.settle({ ok: false, error: stopping() })
}

function stopping(): CellError {
  return new CellError('shutting_down', 'The node is stopping.')
}

function endedAgain(): CellError {
  return new CellError(
    'busy',
    'The process that was at work on the cell was ended, more than once. Try again.',
    { retryAfterMs: 1_000 },
  )
}
