import type { HistoryReset } from '../../../backup/changes/change-trackers.ts'
import type { CollectedLook, CollectLimits, ShippedPlace } from '../../../backup/changes/log/cell-log.ts'
import type { PackedPiece } from '../../../backup/changes/log/packed-logs.ts'
import { type Clock, setImmediate, type Timer } from '../../../base/clock.ts'
import type { Log } from '../../../base/log.ts'
import type { CellRecord } from '../../../catalog/cell-registry.ts'
import type { ProcessIdentity } from '../../../catalog/directory-lock.ts'
import { CellError } from '../../../errors.ts'
import { logSlowStatement } from '../../../service/slow-statements.ts'
import type { CellMetrics } from '../../../store/store-metrics.ts'
import type { WorkerSettings, WorkerTask, WorkerTaskResults } from '../../protocol/protocol.ts'
import { CellPlacement } from '../placement/cell-placement.ts'
import { WorkerCosts } from '../placement/worker-costs.ts'
import {
  answerTo,
  behindCommit,
  type Consequence,
  CRASHES_MAX,
  consequenceOf,
  givenUp,
  heldUpBehindCommit,
  killReason,
  type Look,
} from '../placement/worker-ends.ts'
import { WorkerLooks } from '../placement/worker-looks.ts'
import type { WorkerLimits } from '../processes/worker-limits.ts'
import { type TaskOptions, WorkerEnded, type WorkerHandle } from '../processes/worker-process.ts'
import { type LostWorker, type SlotContext, WorkerSlot } from '../processes/worker-slot.ts'
import { stopping, WorkerSpawner } from '../processes/worker-spawner.ts'
import { WorkerTotals } from '../processes/worker-totals.ts'
import type { QueueBounds } from '../queue/operation-queue.ts'
import { unknownOutcome } from './batch.ts'
import { isStatement, type QueuedOperation } from './queued-operation.ts'
import { type Charged, chargedFor, loggedBytes, type RunningWork } from './running-work.ts'

export interface WorkerPoolParts {
  /** Home workers. */
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
}

/** How often the running statements are checked. */
const CHECK_MS = 10
/** Memory and waiting times are checked this often. */
const SLOW_CHECK_MS = 100
/** How often a task is tried if its worker ends. */
const TASK_TRIES = 5

/** The workers of a node: what runs where is for `CellPlacement`, and here is what runs, and what happens when a worker ends. */
export class WorkerPool {
  readonly #parts: WorkerPoolParts
  readonly #spawner: WorkerSpawner
  readonly #ended: WorkerTotals
  readonly #placement: CellPlacement
  readonly #costs: WorkerCosts
  readonly #context: SlotContext
  readonly #looks: WorkerLooks
  /** Cells of which a task was over its deadline, until it is tried again. */
  readonly #overdue = new Set<string>()
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
    const ended = new WorkerTotals(parts.log)
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
      requeue: (operations) => this.#requeue(operations),
      onSlow: ({ cellId, requestId }, { statement, ms }) =>
        logSlowStatement(parts.log, { cellId, requestId, statement, ms }),
    }
    this.#costs = new WorkerCosts(limits, clock)
    this.#placement = new CellPlacement({
      ...parts,
      newSlot: () => new WorkerSlot(this.#context, (slot, lost) => this.#lost(slot, lost)),
      assignWorker: (slot) => this.#assignWorker(slot),
      requeue: (operations) => this.#requeue(operations),
    })
  }

  /** Resolves once each home slot has its worker. @throws `internal` if no worker can be started; `shutting_down` */
  async start(): Promise<void> {
    const started = this.#placement.start()
    await this.#spawner.firstReady
    await started
    if (this.#stopped) throw stopping()
    this.#scheduleCheck()
  }

  /** @throws `busy` when too many operations wait; `rate_limited` if the account or its cell cost too many workers */
  add(operation: QueuedOperation): void {
    const { accountId, cellId } = operation
    const refusal = this.#costs.refusal(accountId, cellId)
    if (refusal !== undefined) throw refusal
    this.#placement.use(accountId)
    this.#placement.place(operation).add(operation)
  }

  /**
   * @param ended called when the worker has ended, before the task is tried again
   * @throws what the task throws; `busy` if its worker ends each time; `rate_limited` if it has cost too many of them
   */
  async runTask<T extends WorkerTask>(
    task: T,
    { tries: triesMax = TASK_TRIES, ...options }: TaskOptions & { tries?: number } = {},
    ended: () => void = () => {},
  ): Promise<WorkerTaskResults[T['task']]> {
    for (let tries = 1; ; tries++) {
      if (this.#stopped) throw stopping()
      const cell = this.#charged(task.cellId)
      try {
        return await this.#placement.runTask(cell, (slot) => slot.runTask(task, options), options.signal)
      } catch (error) {
        if (!(error instanceof WorkerEnded)) throw error
        if (tries >= triesMax && !this.#stopped) throw endedAgain(tries)
        // What the statements of the cell have cost does not count for its tasks. An installation may be decided already, and must come to its end.
        const isOverdue = this.#overdue.delete(task.cellId) && task.task !== 'install'
        const refusal = isOverdue ? this.#costs.refusal(cell.accountId, cell.cellId) : undefined
        if (refusal !== undefined) throw refusal
        ended()
      }
    }
  }

  /**
   * Starts no operation of the cell from here on: those that come wait, as long as they may. One pause of a cell at a time.
   *
   * @returns resolves once none runs, with a function that ends the pause
   */
  async pause(cellId: string): Promise<() => void> {
    this.#paused.add(cellId)
    // Any task that is answered after what runs would do; its answer is not used. If it fails, the pause counts all the same.
    await this.runTask({ task: 'quarantine-state', cellId }).catch(() => {})
    return () => {
      this.#paused.delete(cellId)
      this.#placement.slotOf(cellId).resume()
    }
  }

  /** What its workers have done, those that have ended too. */
  get metrics(): CellMetrics {
    const alive = [...this.#spawner.alive].map(({ counts }) => counts)
    const { statements, commits, cellsOpen } = this.#ended.total(alive)
    const queues = this.#placement.slots.map(({ queue }) => queue)
    const workers = {
      running: alive.length,
      ended: this.#ended.byReason,
      operationsWaiting: queues.reduce((sum, { size }) => sum + size, 0),
      bytesWaiting: queues.reduce((sum, { bytes }) => sum + bytes, 0),
    }
    return { statements, commits, cellsOpen, workers }
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

  /** Workers save rows of cells: each resets those of its own, and all that it may have saved in between. */
  resetHistories(reset: HistoryReset): void {
    for (const worker of this.#spawner.alive) worker.resetHistories(reset)
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
    if (isSlowCheck) this.#placement.retireUnused()
    this.#scheduleCheck()
  }

  #check(slot: WorkerSlot, now: number, isSlowCheck: boolean): void {
    const { limits, logBytesMax } = this.#parts
    if (isSlowCheck) slot.expire(now)
    const look = this.#look(slot, now, isSlowCheck)
    const reason = look && killReason(look, { ...limits, logBytesMax })
    if (reason !== undefined) slot.kill(reason)
  }

  /** @param checksMemory also while no work runs */
  #look(slot: WorkerSlot, now: number, checksMemory: boolean): Look | undefined {
    const { work, worker } = slot
    if (worker === undefined) return undefined
    return {
      memory: checksMemory || work !== undefined ? worker.residentBytes() : 0,
      silentMs: slot.silentMs(now),
      work: work && this.#lookAt(work, slot, now),
    }
  }

  #lookAt(work: RunningWork, slot: WorkerSlot, now: number): Look['work'] {
    const { cellId, accountId, statementMs, signal } = chargedFor(work)
    return {
      ranMs: slot.ranMs(work, now),
      statementMs,
      loggedBytes: loggedBytes(work, this.#parts.logBytes),
      isAbandoned: signal?.aborted === true,
      heldUp: slot.heldUpBy(work),
      isAlone: this.#placement.isAlone(accountId),
      mayMove:
        this.#placement.isHome(slot) &&
        this.#spawner.hasSpare &&
        this.#costs.refusal(accountId, cellId) === undefined,
    }
  }

  #lost(slot: WorkerSlot, lost: LostWorker): void {
    const { provisional, notRun } = lost
    this.#placement.workerEnded(slot)
    // Before anything that has it run again, or invites to that.
    for (const each of notRun)
      if (each.ownCommit === 'over')
        each.settle({ ok: false, error: this.#errorBehindCommit(each, lost) }, true)
    // One that nobody uses any more is stopped: such an end costs nobody anything.
    const wasStopped = slot.stopping && lost.reason === undefined && !lost.worker.ranOutOfMemory
    if (!this.#stopped && !wasStopped) {
      this.#ended.lost(lost)
      // Before what it has run moves: this slot gets the spare worker.
      if (!slot.stopping) void this.#placement.assignWorker(slot)
      this.#settle(lost, !this.#placement.isHome(slot))
    }
    for (const each of provisional) this.#placement.slotOf(each.cellId).resolve(each)
    this.#requeue(notRun)
  }

  #charged(cellId: string): Charged {
    const { record, taskMs } = this.#parts
    return { cellId, accountId: record(cellId)?.accountId ?? cellId, statementMs: taskMs, signal: undefined }
  }

  /** Does what follows from the end of a worker: see `worker-ends.ts`. */
  #settle(lost: LostWorker, isSlowWorker: boolean): void {
    const { worker, reason, statement, commit, task, notRun } = lost
    const cause = reason ?? (worker.ranOutOfMemory ? 'memory' : 'exited')
    const { heaviest } = worker.counts
    const follows = consequenceOf({
      cause,
      ran: statement ? 'statement' : commit ? 'commit' : task && 'task',
      isSlowWorker,
      ranAlone: (statement?.crashes ?? 0) > 0,
      hasHeaviest: heaviest !== undefined,
    })
    if (task !== undefined && follows.answer === 'timeout') this.#overdue.add(task.cellId)
    this.#answer(lost, follows)
    if (follows.suspects !== 'nobody')
      for (const each of follows.suspects === 'batch' ? notRun : [statement])
        if (each !== undefined && isTooOften(each)) this.#charge(each.accountId, each.cellId, notRun)
    const culprit = statement ?? commit ?? task
    const accountId = follows.moves === 'heaviest' ? heaviest : culprit?.accountId
    if (follows.moves === 'nobody' || accountId === undefined) return
    const cellId = follows.moves === 'heaviest' ? undefined : culprit?.cellId
    this.#placement.slowDown(accountId, cellId)
    if (follows.charges !== 'nobody')
      this.#charge(accountId, follows.charges === 'cell' ? cellId : undefined, notRun)
  }

  /** Of an operation that has committed something and went on. */
  #errorBehindCommit(operation: QueuedOperation, { statement, reason }: LostWorker): Error {
    if (operation === statement && reason === 'held-up') return heldUpBehindCommit()
    if (operation !== statement || (reason !== 'timeout' && reason !== 'log')) return unknownOutcome()
    const limit = reason === 'log' ? this.#parts.logBytesMax : operation.statementMs
    return behindCommit(answerTo(reason, limit))
  }

  /** Of a COMMIT that was made after all, the answer is its result. */
  #answer({ statement, commit, provisional }: LostWorker, { answer }: Consequence): void {
    const operation = statement ?? commit
    if (answer === undefined || operation === undefined) return
    const { limits, logBytesMax } = this.#parts
    const limit = { timeout: operation.statementMs, log: logBytesMax, memory: limits.memoryMax }[answer]
    const error = answerTo(answer, limit)
    statement?.settle({ ok: false, error })
    for (const each of provisional) if (each.cellId === commit?.cellId) each.refusal = error
  }

  /** @param notRun waits, and is in no queue */
  #charge(accountId: string, cellId: string | undefined, notRun: readonly QueuedOperation[]): void {
    this.#costs.charge(accountId, cellId)
    // What waits would cost further ones.
    for (const each of [...notRun, ...this.#placement.waitingOf(accountId)]) {
      const isItsStatement = each.accountId === accountId && isStatement(each)
      const error = isItsStatement ? this.#costs.refusal(accountId, each.cellId) : undefined
      if (error !== undefined) each.settle({ ok: false, error })
    }
  }
}

/** An operation may have ended its worker. @returns true if it is not tried again; it has its error then */
function isTooOften(operation: QueuedOperation): boolean {
  operation.crashes++
  if (operation.crashes < CRASHES_MAX) return false
  operation.settle({ ok: false, error: givenUp() })
  return true
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
