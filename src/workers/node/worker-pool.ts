import { randomBytes } from 'node:crypto'
import type { Clock, Timer } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import type { ProcessIdentity } from '../../catalog/directory-lock.ts'
import { CellError } from '../../errors.ts'
import type { HostSettings, HostTask, HostTaskResults } from '../protocol/protocol.ts'
import { isForStatement, sentenceOn, suspect } from './crash-outcome.ts'
import { ApartLanes } from './isolated-slots.ts'
import { type HostLimits, verdictOn } from './kill-reason.ts'
import type { QueueBounds, QueuedOperation } from './operation-queue.ts'
import { HostEnded, type HostProcess, type TaskOptions } from './worker-process.ts'
import { Lane, type LaneContext, type LostHost } from './worker-slot.ts'
import { HostNursery } from './worker-spawner.ts'

export interface HostsParts {
  /** Processes that share the cells among them. */
  count: number
  clock: Clock
  log: Log
  limits: HostLimits
  bounds: QueueBounds
  settings: HostSettings
  record(cellId: string): CellRecord | undefined
  publish(hosts: readonly ProcessIdentity[]): void
  /** Starts a process. @throws what the system says if it can't */
  startHost(): HostProcess
  /** A host is gone. */
  onEnded(host: HostProcess): void
  /** A statement's host had to be ended because of it. */
  onOffence(cellId: string): void
}

/** Statements are looked at this often while any runs. */
const LOOK_MS = 10
/** What changes slowly is looked at every so many looks. */
const SLOW_LOOKS = 10
/** A task whose host is ended for somebody else's statement is run again this often. */
const TASK_TRIES = 5

/**
 * The hosts of a node. Each cell has its home in one of them, by its id, so that it lives in one process at a time
 * (invariant 2). One whose statements hold up its neighbours is set apart, in a host of its own, for a while.
 */
export class Hosts {
  readonly #parts: HostsParts
  readonly #nursery: HostNursery
  readonly #homes: Lane[]
  readonly #apart: ApartLanes
  readonly #context: LaneContext
  #timer: Timer | undefined
  #looks = 0
  #stopped = false

  constructor(parts: HostsParts) {
    const { count, clock, bounds, record, limits } = parts
    this.#parts = parts
    this.#nursery = new HostNursery(parts)
    const epoch = randomBytes(8).toString('hex')
    let batches = 0
    this.#context = {
      clock,
      bounds,
      record,
      nextBatchName: () => `${epoch}.${++batches}`,
      putBack: (operations) => this.#putBack(operations),
    }
    this.#homes = Array.from({ length: count }, () => this.#newLane())
    this.#apart = new ApartLanes({
      clock,
      hostsMax: Math.max(2, count),
      apartMs: limits.apartMs,
      closeMs: limits.silentMs,
      newLane: () => this.#newLane(),
      equip: (lane) => this.#equip(lane),
      onHome: (operations) => (this.#stopped ? refuse(operations) : this.#putBack(operations)),
    })
  }

  /** Resolves once each lane has its host. @throws `internal` if none can be started */
  async start(): Promise<void> {
    const equipped = this.#homes.map((lane) => this.#equip(lane))
    await this.#nursery.viable
    await Promise.all(equipped)
    this.#scheduleLook()
  }

  /** @throws `busy` when too many wait */
  add(operation: QueuedOperation): void {
    this.#laneOf(operation.cellId).add(operation)
  }

  /**
   * @param ended asked when the host was ended: what the task has come to, if that is known all the same
   * @throws what the task throws; `busy` if its host is ended again and again
   */
  async runTask<T extends HostTask>(
    task: T,
    options: TaskOptions = {},
    ended: () => HostTaskResults[T['task']] | undefined = () => undefined,
  ): Promise<HostTaskResults[T['task']]> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#laneOf(task.cellId).runTask(task, options)
      } catch (error) {
        if (!(error instanceof HostEnded)) throw error
        const result = ended()
        if (result !== undefined) return result
        if (this.#stopped) throw stopping()
        if (tries === TASK_TRIES) throw endedAgain()
      }
    }
  }

  /** What the hosts were told of a cell is out of date. */
  forget(cellId: string): void {
    for (const host of this.#nursery.alive) host.forget(cellId)
  }

  /** Has every host close its cells, and ends those that take too long. What still waits is refused. */
  async stop(deadlineMs: number): Promise<void> {
    this.#stopped = true
    this.#timer?.cancel()
    const lanes = this.#lanes
    const killAll = () => {
      for (const lane of lanes) lane.host?.kill()
    }
    const timer = this.#parts.clock.setTimer(killAll, deadlineMs)
    for (const lane of lanes) if (lane.statement !== undefined) lane.host?.kill()
    await Promise.all([this.#nursery.stop(), ...lanes.map((lane) => lane.stop())])
    timer.cancel()
    for (const lane of lanes) refuse(lane.retire())
    this.#parts.publish([])
  }

  get #lanes(): Lane[] {
    return [...this.#homes, ...this.#apart.lanes]
  }

  #laneOf(cellId: string): Lane {
    return this.#apart.of(cellId) ?? this.#homeOf(cellId)
  }

  #homeOf(cellId: string): Lane {
    return this.#homes[Number.parseInt(cellId.slice(0, 8), 16) % this.#homes.length] as Lane
  }

  #isHome(lane: Lane): boolean {
    return this.#homes.includes(lane)
  }

  #newLane(): Lane {
    return new Lane(this.#context, (lane, lost) => this.#lost(lane, lost))
  }

  async #equip(lane: Lane): Promise<void> {
    const host = await this.#nursery.take()
    if (this.#stopped) host.kill()
    else lane.use(host)
  }

  /** In their order, each to where its cell is now. */
  #putBack(operations: readonly QueuedOperation[]): void {
    for (const [lane, own] of Map.groupBy(operations, ({ cellId }) => this.#laneOf(cellId))) lane.putBack(own)
  }

  /** After what came in meanwhile was read: while this process itself was held up, no statement is to be blamed. */
  #scheduleLook(): void {
    this.#timer = this.#parts.clock.setTimer(() => setImmediate(() => this.#look()), LOOK_MS)
  }

  #look(): void {
    if (this.#stopped) return
    this.#looks++
    const isSlowLook = this.#looks % SLOW_LOOKS === 0
    const now = this.#parts.clock.monotonic()
    for (const lane of this.#lanes) this.#judge(lane, now, isSlowLook)
    if (isSlowLook) this.#apart.tidy()
    this.#scheduleLook()
  }

  #judge(lane: Lane, now: number, isSlowLook: boolean): void {
    const isHome = this.#isHome(lane)
    const reason = verdictOn(lane, this.#parts.limits, now, {
      canSetApart: isHome && this.#nursery.hasSpare,
      looksAtMemory: isSlowLook,
    })
    if (isSlowLook) lane.expire(now)
    if (reason !== undefined) lane.end(reason)
    const { statement } = lane
    if (!isHome && statement !== undefined && lane.ranMs(statement, now) > this.#parts.limits.holdMs) {
      this.#setApart(statement.operation.cellId)
    }
  }

  /** What waits at the cell's home goes with it. */
  #setApart(cellId: string): void {
    const lane = this.#apart.set(cellId)
    const { operations, provisional } = this.#homeOf(cellId).giveUp(cellId)
    for (const each of provisional) lane.resolve(each)
    lane.putBack(operations)
  }

  #lost(lane: Lane, lost: LostHost): void {
    const { host, reason, provisional, unrun } = lost
    const isHome = this.#isHome(lane)
    if (!lane.stopping) {
      this.#parts.log.warn(
        { host: host.identity.pid, reason: reason ?? 'ended by itself' },
        'a host has ended; another takes over',
      )
      // First come the many: the host that is ready is theirs.
      if (isHome) void this.#equip(lane)
      this.#judgeLost(lost, isHome)
      this.#apart.equip()
    }
    for (const each of provisional) this.#laneOf(each.cellId).resolve(each)
    this.#putBack(unrun)
  }

  /** Settles whose fault it was. Everything that stays unsettled is run again. */
  #judgeLost({ host, reason, statement, unrun }: LostHost, isHome: boolean): void {
    const { limits, onOffence } = this.#parts
    const cause = reason ?? (host.ranOutOfMemory ? 'memory' : undefined)
    if (statement === undefined) {
      // It may have been any of them.
      if (!isForStatement(cause)) for (const each of unrun) suspect(each)
      return
    }
    const { error, isOffence } = sentenceOn(statement, cause, isHome, limits.memoryMax)
    if (error !== undefined) statement.settle({ ok: false, error })
    if (isOffence) onOffence(statement.cellId)
    if (!statement.isSettled) this.#setApart(statement.cellId)
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
