import { randomBytes } from 'node:crypto'
import type { CellRecord } from '../engine/cell-registry.ts'
import type { Clock, Timer } from '../engine/clock.ts'
import type { ProcessIdentity } from '../engine/directory-lock.ts'
import type { Log } from '../engine/log.ts'
import { CellError } from '../errors.ts'
import type { Host, HostMessage, TaskOptions } from './host.ts'
import { HostEnded } from './host.ts'
import { HostNursery } from './host-nursery.ts'
import { Lane, type LaneContext, type LostHost } from './lane.ts'
import type { QueueBounds, QueuedOperation } from './operation-queue.ts'
import type { HostSettings, HostTask, HostTaskResults } from './protocol.ts'
import { type HostLimits, verdictOn } from './verdict.ts'

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
  onMessage(message: HostMessage, host: Host): void
  /** A statement's host had to be ended because of it. */
  onOffence(cellId: string): void
}

/** Statements are looked at this often while any runs. */
const LOOK_MS = 10
/** What changes slowly is looked at every so many looks. */
const SLOW_LOOKS = 10
/** A cell whose statement has held up others has a host of its own for this long after the last such statement. */
const APART_MS = 30_000
/** A task whose host is ended for somebody else's statement is run again this often. */
const TASK_TRIES = 5
/** A statement that ended its host for no known reason is tried once more, apart; then it is given up. */
const CRASHES_MAX = 2

/**
 * The hosts of a node. Each cell has its home in one of them, by its id, so that it lives in one process at a time
 * (invariant 2). One whose statements hold up its neighbours is set apart, in a host of its own, for a while.
 */
export class Hosts {
  readonly #parts: HostsParts
  readonly #nursery: HostNursery
  readonly #homes: Lane[]
  readonly #apart = new Map<string, { lane: Lane; lastOffenceAt: number }>()
  readonly #apartMax: number
  readonly #context: LaneContext
  /** Lanes apart that a host is on its way to. */
  readonly #equipping = new Set<Lane>()
  #timer: Timer | undefined
  #looks = 0
  #stopped = false

  constructor(parts: HostsParts) {
    const { count, clock, log, settings, limits, publish, onMessage } = parts
    this.#parts = parts
    this.#apartMax = Math.max(2, count)
    this.#nursery = new HostNursery({
      clock,
      log,
      settings,
      memoryMax: limits.memoryMax,
      publish,
      onMessage,
    })
    const epoch = randomBytes(8).toString('hex')
    let batches = 0
    this.#context = {
      clock,
      bounds: parts.bounds,
      record: parts.record,
      nextBatchName: () => `${epoch}.${++batches}`,
    }
    this.#homes = Array.from({ length: count }, () => this.#newLane())
  }

  /** Resolves once each lane has its host. @throws `internal` if none can be started */
  async start(): Promise<void> {
    const equipped = this.#homes.map((lane) => this.#equip(lane))
    await this.#nursery.viable
    await Promise.all(equipped)
    this.#look()
  }

  /** @throws `busy` when too many wait */
  add(operation: QueuedOperation): void {
    this.#laneOf(operation.cellId).add(operation)
  }

  /** @throws what the task throws; `busy` if its host is ended again and again */
  async runTask<T extends HostTask>(task: T, options?: TaskOptions): Promise<HostTaskResults[T['task']]> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#laneOf(task.cellId).runTask(task, this.#parts.record(task.cellId), options)
      } catch (error) {
        if (!(error instanceof HostEnded)) throw error
        if (this.#stopped) throw new CellError('shutting_down', 'The node is stopping.')
        if (tries === TASK_TRIES) throw ended()
      }
    }
  }

  /** What the hosts were told of a cell is out of date. */
  forget(cellId: string): void {
    for (const host of this.#nursery.alive) host.forget(cellId)
  }

  /** Has every host close its cells, and ends those that take too long. Nobody waits for an operation any more. */
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
    const error = new CellError('shutting_down', 'The node is stopping.')
    for (const lane of lanes) for (const each of lane.queue.takeAll()) each.settle({ ok: false, error })
    this.#parts.publish([])
  }

  get #lanes(): Lane[] {
    return [...this.#homes, ...[...this.#apart.values()].map(({ lane }) => lane)]
  }

  #laneOf(cellId: string): Lane {
    return this.#apart.get(cellId)?.lane ?? this.#homeOf(cellId)
  }

  #homeOf(cellId: string): Lane {
    return this.#homes[Number.parseInt(cellId.slice(0, 8), 16) % this.#homes.length] as Lane
  }

  #newLane(): Lane {
    return new Lane(this.#context, (lane, lost) => this.#lost(lane, lost))
  }

  async #equip(lane: Lane): Promise<void> {
    const host = await this.#nursery.take()
    if (this.#stopped) host.kill()
    else lane.use(host)
  }

  #look(): void {
    if (this.#stopped) return
    this.#looks++
    const isSlowLook = this.#looks % SLOW_LOOKS === 0
    const now = this.#parts.clock.monotonic()
    for (const lane of this.#lanes) this.#judge(lane, now, isSlowLook)
    if (isSlowLook) this.#tidy(now)
    this.#timer = this.#parts.clock.setTimer(() => this.#look(), LOOK_MS)
  }

  #judge(lane: Lane, now: number, isSlowLook: boolean): void {
    const isHome = this.#homes.includes(lane)
    const reason = verdictOn(lane, this.#parts.limits, now, {
      canSetApart: isHome && this.#nursery.hasSpare,
      looksAtMemory: isSlowLook,
    })
    if (isSlowLook) lane.queue.expire(now)
    if (reason !== undefined) lane.end(reason)
    const { statement } = lane
    if (!isHome && statement !== undefined && now - statement.since > this.#parts.limits.holdMs) {
      this.#setApart(statement.operation.cellId)
    }
  }

  /** Cells that have behaved go home; a host that has become free goes to one that waits for it. */
  #tidy(now: number): void {
    const waits = [...this.#apart.values()].some(({ lane }) => lane.host === undefined)
    for (const [cellId, { lane, lastOffenceAt }] of this.#apart) {
      if (lane.host === undefined || lane.stopping || !lane.idle) continue
      if (waits || now - lastOffenceAt > APART_MS) void this.#sendHome(cellId, lane)
    }
    this.#equipApart()
  }

  async #sendHome(cellId: string, lane: Lane): Promise<void> {
    await lane.stop()
    this.#apart.delete(cellId)
    this.#laneOf(cellId).putBack(lane.queue.takeAll())
  }

  #setApart(cellId: string): Lane {
    const now = this.#parts.clock.monotonic()
    const known = this.#apart.get(cellId)
    if (known !== undefined) {
      known.lastOffenceAt = now
      return known.lane
    }
    const lane = this.#newLane()
    this.#apart.set(cellId, { lane, lastOffenceAt: now })
    lane.putBack(this.#takeQueued(cellId))
    this.#equipApart()
    return lane
  }

  /** What waits at the cell's home goes with it. */
  #takeQueued(cellId: string): QueuedOperation[] {
    const home = this.#homeOf(cellId)
    const all = home.queue.takeAll()
    home.putBack(all.filter((each) => each.cellId !== cellId))
    return all.filter((each) => each.cellId === cellId)
  }

  /** Hosts for lanes apart are bounded; the cells beyond wait for one to become free. */
  #equipApart(): void {
    const lanes = [...this.#apart.values()].map(({ lane }) => lane)
    let equipped = lanes.filter((lane) => lane.host !== undefined || this.#equipping.has(lane)).length
    for (const lane of lanes) {
      if (equipped >= this.#apartMax) return
      if (lane.host !== undefined || lane.stopping || this.#equipping.has(lane)) continue
      equipped++
      this.#equipping.add(lane)
      void this.#equip(lane).then(() => {
        this.#equipping.delete(lane)
        lane.host?.yieldToOthers()
      })
    }
  }

  #lost(lane: Lane, { host, reason, statement, provisional, unrun }: LostHost): void {
    if (lane.stopping) {
      for (const each of provisional) lane.resolve(each)
      lane.putBack(unrun)
      return
    }
    const { log, onOffence } = this.#parts
    log.warn(
      { host: host.identity.pid, reason: reason ?? 'ended by itself' },
      'a host has ended; another takes over',
    )
    if (statement !== undefined && !statement.isSettled) {
      const error = this.#errorOf(statement, reason ?? (host.ranOutOfMemory ? 'memory' : undefined))
      if (error === undefined) this.#setApart(statement.cellId)
      else {
        statement.settle({ ok: false, error })
        onOffence(statement.cellId)
      }
    }
    for (const each of provisional) this.#laneOf(each.cellId).resolve(each)
    for (const each of unrun)
      if (this.#laneOf(each.cellId) !== lane) this.#laneOf(each.cellId).putBack([each])
    lane.putBack(unrun.filter((each) => this.#laneOf(each.cellId) === lane))
    if (this.#homes.includes(lane)) void this.#equip(lane)
    else this.#equipApart()
  }

  /** What is answered to the statement's operation; undefined if it is run again, apart. */
  #errorOf(operation: QueuedOperation, reason: LostHost['reason']): unknown {
    switch (reason) {
      case 'timeout':
        return new CellError(
          'statement_timeout',
          `The statement took longer than ${operation.statementMs} ms; nothing of it remains. Make it cheaper, or do it in parts.`,
          { limit: operation.statementMs },
        )
      case 'memory':
        return new CellError(
          'result_memory_exceeded',
          `The statement needed more memory than ${this.#parts.limits.memoryMax} bytes; nothing of it remains. Make it cheaper, or do it in parts.`,
          { limit: this.#parts.limits.memoryMax },
        )
      case 'abandoned':
        return operation.signal?.reason ?? new CellError('shutting_down', 'Nobody waits for the answer.')
      case 'held-up':
        return undefined
      default:
        operation.crashes++
        if (operation.crashes < CRASHES_MAX) return undefined
        return new Error('A statement has ended its host again.')
    }
  }
}

function ended(): CellError {
  return new CellError(
    'busy',
    'The process that was at work on the cell was ended, more than once. Try again.',
    {
      retryAfterMs: 1_000,
    },
  )
}
