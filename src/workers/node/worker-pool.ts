import type { CollectedLook, CollectLimits, ShippedPlace } from '../../backup/changes/cell-log.ts'
import type { CellsMark } from '../../backup/changes/change-trackers.ts'
import type { PackedPiece } from '../../backup/changes/packed-logs.ts'
import type { Clock, Timer } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { ProcessIdentity } from '../../catalog/directory-lock.ts'
import { CellError } from '../../errors.ts'
import { logSlowStatement } from '../../service/slow-statements.ts'
import type { CellMetrics } from '../../store/store-metrics.ts'
import type { WorkerSettings, WorkerTask, WorkerTaskResults } from '../protocol/protocol.ts'
import { CellPlacement } from './cell-placement.ts'
import { countCrash, crashOutcome, isForStatement } from './crash-outcome.ts'
import { EndedWorkers } from './ended-workers.ts'
import { KillBudget } from './kill-budget.ts'
import { killReason, type WorkerLimits } from './kill-reason.ts'
import type { LostWorker } from './lost-worker.ts'
import type { QueueBounds } from './operation-queue.ts'
import type { QueuedOperation } from './queued-operation.ts'
import { type Charged, chargedFor } from './running-work.ts'
import { WorkerLooks } from './worker-looks.ts'
import { type TaskOptions, WorkerEnded, type WorkerHandle } from './worker-process.ts'
import { type SlotContext, WorkerSlot } from './worker-slot.ts'
import { stopping, WorkerSpawner } from './worker-spawner.ts'

export interface WorkerPoolParts {
  /** Worker processes that share all cells but those of accounts on probation. */
  count: number
  clock: Clock
  log: Log
  limits: WorkerLimits
  bounds: QueueBounds
  /** Milliseconds of the processor that a task may take without a break. */
  taskMs: number
  settings: Omit<WorkerSettings, 'sliceMs' | 'building'>
  record(cellId: string): CellRecord | undefined
  publish(workers: readonly ProcessIdentity[]): void
  /** Bytes that a statement may add to its cell's write-ahead log. */
  logBytesMax: number
  /** Bytes of a cell's write-ahead log; 0 if that is unknown. */
  logBytes(cellId: string): number
  /** A worker process has ended. */
  ended(worker: WorkerHandle): void
  /** Starts a process. @throws the system's error if it can't */
  spawnWorker(): WorkerHandle
  /** As in process-stats.ts. */
  beginHold(): () => number
  /** Whether the account existed before this process. */
  isKnown(accountId: string): boolean
  /** Called when a statement or a task caused the end of its worker. */
  onStrike(cellId: string): void
  /** Called before a task is tried again. @throws `rate_limited` while the cell has to wait after its strikes */
  checkStrikes(cellId: string): void
}

/** How often the running statements are checked. */
const CHECK_MS = 10
/** Memory, waiting times and isolated slots are checked this often. */
const SLOW_CHECK_MS = 100
/** How often a task is tried if its worker ends. */
const TASK_TRIES = 5

/** The workers of a node: what runs where is for `CellPlacement`, and here is what runs, and what happens when a worker ends. */
export class WorkerPool {
  readonly #parts: WorkerPoolParts
  readonly #spawner: WorkerSpawner
  readonly #ended: EndedWorkers
  readonly #placement: CellPlacement
  readonly #kills: KillBudget
  readonly #context: SlotContext
  readonly #looks: WorkerLooks
  /** Cells whose own tasks took too long, and have not succeeded since. */
  readonly #slowTasks = new Set<string>()
  /** Cells whose operations wait. */
  readonly #paused = new Set<string>()
  /** The cells whose `incoming.db` is being built. */
  #building: string[] = []
  #timer: Timer | undefined
  #slowCheckAt = 0
  #stopped = false

  constructor(parts: WorkerPoolParts) {
    const { clock, bounds, record, limits } = parts
    this.#parts = parts
    this.#looks = new WorkerLooks(clock)
    const { sliceMs } = limits
    const ended = new EndedWorkers(parts.log)
    this.#ended = ended
    this.#spawner = new WorkerSpawner({
      ...parts,
      settings: () => ({ ...parts.settings, sliceMs, building: this.#building }),
      onEnded: (worker) => {
        ended.keep(worker.counts)
        parts.ended(worker)
      },
    })
    this.#context = {
      clock,
      bounds,
      sliceMs,
      record,
      isPaused: (cellId) => this.#paused.has(cellId),
      charged: (cellId) => this.#charged(cellId),
      worked: (time) => this.#placement.probation.worked(time),
      heldUp: (cellId, ms) => this.#heldUp(cellId, ms),
      requeue: (operations) => this.#requeue(operations),
      onSlow: ({ cellId, requestId }, { statement, ms }) =>
        logSlowStatement(parts.log, { cellId, requestId, statement, ms }),
    }
    this.#kills = new KillBudget(limits, clock)
    this.#placement = new CellPlacement({
      ...parts,
      newSlot: () => new WorkerSlot(this.#context, (slot, lost) => this.#lost(slot, lost)),
      assignWorker: (slot) => this.#assignWorker(slot),
      requeue: (operations) => this.#requeue(operations),
    })
  }

  /** Resolves once each shared slot has its worker. @throws `internal` if no worker can be started; `shutting_down` */
  async start(): Promise<void> {
    const started = this.#placement.start()
    await this.#spawner.firstReady
    await started
    if (this.#stopped) throw stopping()
    this.#scheduleCheck()
  }

  /** @throws `busy` when too many operations wait; `rate_limited` in a shared worker if the account cost too many of them */
  add(operation: QueuedOperation): void {
    this.#placement.probation.use(operation.accountId)
    const slot = this.#placement.place(operation)
    if (this.#placement.isShared(slot)) this.#kills.check(operation.accountId)
    slot.add(operation)
  }

  /**
   * @param ended called when the worker has ended, before the task is tried again
   * @throws what the task throws; `busy` if its worker ends each time
   */
  async runTask<T extends WorkerTask>(
    task: T,
    { tries: triesMax = TASK_TRIES, ...options }: TaskOptions & { tries?: number } = {},
    ended: () => void = () => {},
  ): Promise<WorkerTaskResults[T['task']]> {
    for (let tries = 1; ; tries++) {
      if (this.#stopped) throw stopping()
      // After a statement the cell has to wait, and its tasks need not: nothing else runs there now. An installation may
      // be decided already, and must come to its end.
      if (tries > 1 && task.task !== 'install' && this.#slowTasks.has(task.cellId))
        this.#parts.checkStrikes(task.cellId)
      try {
        const run = (slot: WorkerSlot) => slot.runTask(task, options)
        const result = await this.#placement.runTask(this.#charged(task.cellId), run, options.signal)
        this.#slowTasks.delete(task.cellId)
        return result
      } catch (error) {
        if (!(error instanceof WorkerEnded)) throw error
        if (tries >= triesMax && !this.#stopped) throw endedAgain(tries)
        ended()
      }
    }
  }

  /**
   * Starts no operation of the cell from here on: those that come wait, as long as they may. One pause of a cell at a time.
   *
   * @returns resolves once none runs, with a function that ends the pause
   */
  async pause(cellId: string, options: Pick<TaskOptions, 'isAskedFor'>): Promise<() => void> {
    this.#paused.add(cellId)
    // Its worker does it after what it runs. If that fails, the pause counts all the same.
    await this.runTask({ task: 'quarantine', cellId }, options).catch(() => {})
    return () => {
      this.#paused.delete(cellId)
      this.#placement.slotOf(cellId).resume()
    }
  }

  /** Does at this event loop what an account asks for: it holds up all others meanwhile, and that counts for its standing. */
  holdingUp<T>(accountId: string | undefined, run: () => T): T {
    if (accountId === undefined) return run()
    const held = this.#parts.beginHold()
    try {
      return run()
    } finally {
      this.#placement.probation.heldUp(accountId, held())
    }
  }

  /** What its workers have done, those that have ended too. */
  get metrics(): CellMetrics {
    const alive = [...this.#spawner.alive].map(({ counts }) => counts)
    const { statements, commits, open } = this.#ended.total(alive)
    const queues = this.#placement.slots.map(({ queue }) => queue)
    const workers = {
      running: alive.length,
      ended: this.#ended.byReason,
      operationsWaiting: queues.reduce((sum, { size }) => sum + size, 0),
      bytesWaiting: queues.reduce((sum, { bytes }) => sum + bytes, 0),
    }
    return { statements, commits, cellsOpen: open, workers }
  }

  /** What the cells of all workers have committed and not shipped. */
  collectLogs(limits: CollectLimits): Promise<CollectedLook<PackedPiece>> {
    const workers = [...this.#spawner.alive].filter(({ isReady }) => isReady)
    return this.#looks.collect(workers, limits)
  }

  /** The look that is under way waits for no worker that takes long. */
  hurryLook(): void {
    this.#looks.hurry()
  }

  /** Everything before these places is in the object store. */
  logsShipped(places: ShippedPlace[]): void {
    for (const worker of this.#spawner.alive) if (worker.isReady) worker.logsShipped(places)
  }

  /** Workers save rows of cells: each marks those of its own, and all that it may have saved in between. */
  mark(mark: CellsMark): void {
    for (const worker of this.#spawner.alive) worker.mark(mark)
  }

  /** The cells whose `incoming.db` is being built: no worker may take that file for a left-over. */
  setBuilding(cellIds: string[]): void {
    this.#building = cellIds
    for (const worker of this.#spawner.alive) worker.setBuilding(cellIds)
  }

  /** The cell's record has changed: workers get it again with their next use of the cell. */
  forget(cellId: string): void {
    for (const worker of this.#spawner.alive) worker.forget(cellId)
  }

  /** Stops every worker, and kills those that take longer than the deadline. Waiting operations are refused. */
  async stop(deadlineMs: number): Promise<void> {
    this.#stopped = true
    this.#timer?.cancel()
    this.#placement.stop()
    const { slots } = this.#placement
    for (const slot of slots) if (slot.work?.kind === 'statement') slot.worker?.kill()
    await Promise.all([this.#spawner.stop(), ...slots.map((slot) => slot.stop(deadlineMs))])
    for (const slot of slots) refuse(slot.dispose())
    this.#parts.publish([])
  }

  async #assignWorker(slot: WorkerSlot): Promise<void> {
    const worker = await this.#spawner.take()
    if (this.#stopped) worker?.kill()
    else if (worker !== undefined) slot.use(worker)
  }

  /** Puts each operation into its cell's present slot. Their order stays. */
  #requeue(operations: readonly QueuedOperation[]): void {
    if (this.#stopped) refuse(operations)
    else
      for (const [slot, own] of Map.groupBy(operations, (each) => this.#placement.place(each)))
        slot.requeue(own)
  }

  /** Runs the check after pending messages are read. If this process itself was blocked, no statement is blamed for it. */
  #scheduleCheck(): void {
    this.#timer = this.#parts.clock.setTimer(() => setImmediate(() => this.#checkSlots()), CHECK_MS)
  }

  #checkSlots(): void {
    if (this.#stopped) return
    const now = this.#parts.clock.monotonic()
    const isSlowCheck = now - this.#slowCheckAt >= SLOW_CHECK_MS
    if (isSlowCheck) this.#slowCheckAt = now
    for (const slot of this.#placement.slots) this.#check(slot, now, isSlowCheck)
    if (isSlowCheck) this.#placement.rebalance()
    this.#scheduleCheck()
  }

  #check(slot: WorkerSlot, now: number, isSlowCheck: boolean): void {
    const { isolated, probation } = this.#placement
    const reason = killReason(slot, this.#parts.limits, now, {
      canIsolate: this.#placement.isShared(slot) && this.#spawner.hasSpare,
      checksMemory: isSlowCheck,
      logBytesMax: this.#parts.logBytesMax,
      logBytes: this.#parts.logBytes,
    })
    if (isSlowCheck) slot.expire(now)
    if (reason !== undefined) slot.kill(reason)
    const { work } = slot
    if (work === undefined) return
    const { cellId, accountId } = chargedFor(work)
    const ranMs = slot.ranMs(work, now)
    if (this.#placement.isProbationary(slot)) probation.ranOnProbation(accountId, ranMs)
    else if (isolated.of(cellId) === slot && ranMs > this.#parts.limits.holdMs)
      this.#placement.isolate({ cellId, accountId })
  }

  #lost(slot: WorkerSlot, lost: LostWorker): void {
    const { provisional, notRun } = lost
    const isShared = this.#placement.isShared(slot)
    this.#placement.workerEnded(slot)
    // An isolated slot that gives its worker up stops it: such an end costs nobody anything.
    const wasTold = slot.stopping && lost.reason === undefined && !lost.worker.ranOutOfMemory
    if (!this.#stopped && !wasTold) {
      this.#ended.lost(lost)
      // The shared slot serves many cells, so it gets the spare worker first.
      if (isShared) void this.#placement.assignWorker(slot)
      this.#settleLost(lost, isShared)
      this.#placement.isolated.assignWorker()
    }
    for (const each of provisional) this.#placement.slotOf(each.cellId).resolve(each)
    this.#requeue(notRun)
    const culprit = lost.statement ?? lost.commit ?? lost.task
    // What waits in shared workers was added before the account was on probation.
    if (culprit !== undefined)
      for (const each of this.#placement.waitingOf(culprit.accountId)) this.#placement.place(each)
  }

  /** A task of a cell has held its worker up. In a worker of the cell's own there is nobody else. */
  #heldUp(cellId: string, ms: number): void {
    const { isolated, probation } = this.#placement
    if (isolated.of(cellId) === undefined) probation.heldUp(this.#charged(cellId).accountId, ms)
  }

  #charged(cellId: string): Charged {
    const { record, taskMs } = this.#parts
    return { cellId, accountId: record(cellId)?.accountId ?? cellId, statementMs: taskMs, signal: undefined }
  }

  /** An account has cost a worker. @returns the error for what caused it, if the account's budget was used up before */
  #charge(accountId: string, notRun: readonly QueuedOperation[]): CellError | undefined {
    this.#placement.probation.costWorker(accountId)
    const overBudget = this.#kills.charge(accountId)
    if (overBudget !== undefined) this.#refuseWaiting(accountId, overBudget, notRun)
    return overBudget
  }

  /** What an account has waiting in shared workers would cost further ones. */
  #refuseWaiting(accountId: string, error: CellError, notRun: readonly QueuedOperation[]): void {
    const waiting = [...notRun, ...this.#placement.waitingOf(accountId)]
    for (const each of waiting) {
      if (each.accountId === accountId && this.#placement.isolated.of(each.cellId) === undefined)
        each.settle({ ok: false, error })
    }
  }

  /** Settles the operations that caused the end. All others run again. */
  #settleLost(
    { worker, reason, statement, commit, task, provisional, notRun }: LostWorker,
    isShared: boolean,
  ): void {
    const { limits, logBytesMax, onStrike } = this.#parts
    const bounds = { memoryMax: limits.memoryMax, logBytesMax }
    const cause = reason ?? (worker.ranOutOfMemory ? 'memory' : undefined)
    const culprit = statement ?? commit ?? task
    const isItsFault = isForStatement(cause) || (cause === 'memory' && !isShared)
    const overBudget = isItsFault && culprit ? this.#charge(culprit.accountId, notRun) : undefined
    // Where the caches of open cells were at fault, what ran is not: it runs again.
    const { heaviest } = worker.counts
    if (cause === 'memory' && isShared && heaviest) this.#charge(heaviest, notRun)
    if (task !== undefined && isItsFault) {
      if (cause === 'timeout') {
        onStrike(task.cellId)
        this.#slowTasks.add(task.cellId)
      }
      this.#placement.isolate(task)
    }
    if (commit !== undefined && isForStatement(cause)) {
      const { error = overBudget, isStrike } = crashOutcome(commit, cause, isShared, bounds)
      for (const each of provisional) if (each.cellId === commit.cellId) each.refusal = error
      if (isStrike) onStrike(commit.cellId)
      this.#placement.isolate(commit)
    }
    if (statement === undefined) {
      // Any of them may have caused it.
      if (!isForStatement(cause)) for (const each of notRun) countCrash(each)
      return
    }
    const { error = overBudget, isStrike } = crashOutcome(statement, cause, isShared, bounds)
    if (error !== undefined) statement.settle({ ok: false, error })
    if (isStrike) onStrike(statement.cellId)
    if (!statement.isSettled) this.#placement.isolate(statement)
  }
}

function refuse(operations: readonly QueuedOperation[]): void {
  for (const each of operations) each.settle({ ok: false, error: stopping() })
}

function endedAgain(tries: number): CellError {
  return new CellError(
    'busy',
    `The worker process of this cell ended ${tries} times during the task. Try again.`,
    { retryAfterMs: 1_000 },
  )
}
