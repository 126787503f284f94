import type { Clock } from '../../../base/clock.ts'
import { LruCache } from '../../../base/lru-cache.ts'
import type { QueuedOperation } from '../dispatch/queued-operation.ts'
import type { WorkerLimits } from '../processes/worker-limits.ts'
import type { WorkerSlot } from '../processes/worker-slot.ts'
import { stopping } from '../processes/worker-spawner.ts'
import { CellMoves } from './cell-moves.ts'

export interface CellPlacementParts {
  /** Home workers: each cell has one of them. */
  count: number
  clock: Clock
  limits: Pick<WorkerLimits, 'slowWorkerMs' | 'silentMs'>
  newSlot(): WorkerSlot
  /** Resolves once the slot has a worker. */
  assignWorker(slot: WorkerSlot): Promise<void>
  /** Runs operations again, each in its cell's present slot. */
  requeue(operations: readonly QueuedOperation[]): void
}

type Owned = Pick<QueuedOperation, 'cellId' | 'accountId'>

/** An account whose last operation is longer ago is not active. */
const ACTIVE_MS = 10_000
/** Milliseconds after which a slow worker without work ends. */
const UNUSED_MS = 60_000
/** One that is forgotten is at home again. */
const SLOW_MAX = 100_000

/**
 * Which slot each cell belongs to. Its id decides which home worker it has. The cells of accounts that cost a worker lately share the
 * slow worker, which exists while it is used and yields to the others; what an account that was alone has cost, its cell alone pays for.
 */
export class CellPlacement {
  readonly #parts: CellPlacementParts
  readonly #moves: CellMoves
  readonly #homes: readonly WorkerSlot[]
  #slow: WorkerSlot | undefined
  /** Former slow workers that have not ended yet. */
  readonly #retiring = new Set<WorkerSlot>()
  #slowUsedAt = 0
  /** Monotonic times at which accounts, and cells, return home. */
  readonly #slowUntil = new LruCache<number>(SLOW_MAX)
  /** Whose operation came last, when it did, and when the last one of any other account came. */
  #last: string | undefined
  #lastAt = Number.NEGATIVE_INFINITY
  #otherAt = Number.NEGATIVE_INFINITY
  #stopped = false

  constructor(parts: CellPlacementParts) {
    this.#parts = parts
    this.#homes = Array.from({ length: parts.count }, parts.newSlot)
    this.#moves = new CellMoves({ clock: parts.clock, slotById: (cellId) => this.#homeOf(cellId) })
  }

  /** Resolves once each home slot has its worker. */
  async start(): Promise<void> {
    await Promise.all(this.#homes.map((slot) => this.assignWorker(slot)))
  }

  /** Resolves once the slot has a worker. */
  async assignWorker(slot: WorkerSlot): Promise<void> {
    await this.#parts.assignWorker(slot)
    if (this.isSlow(slot)) slot.worker?.yieldToOthers()
  }

  get slots(): WorkerSlot[] {
    return [...this.#homes, ...(this.#slow === undefined ? [] : [this.#slow]), ...this.#retiring]
  }

  isHome(slot: WorkerSlot): boolean {
    return this.#homes.includes(slot)
  }

  isSlow(slot: WorkerSlot): boolean {
    return slot === this.#slow
  }

  /** The account has an operation. */
  use(accountId: string): void {
    if (accountId !== this.#last) this.#otherAt = this.#lastAt
    this.#last = accountId
    this.#lastAt = this.#parts.clock.monotonic()
  }

  /** Whether no other account was active lately: nobody has to be protected from it. */
  isAlone(accountId: string): boolean {
    const lastOfOthers = accountId === this.#last ? this.#otherAt : this.#lastAt
    return this.#parts.clock.monotonic() - lastOfOthers > ACTIVE_MS
  }

  /** An account has cost a worker: it goes to the slow one for a while. @param cellId goes in its place while the account is alone */
  slowDown(accountId: string, cellId: string | undefined): void {
    const until = this.#parts.clock.monotonic() + this.#parts.limits.slowWorkerMs
    const slow = this.isAlone(accountId) ? cellId : accountId
    if (slow !== undefined) this.#slowUntil.set(slow, until)
    for (const each of this.waitingOf(accountId)) this.place(each)
    if (cellId !== undefined) this.place({ cellId, accountId })
  }

  /** What an account has waiting. */
  waitingOf(accountId: string): QueuedOperation[] {
    return this.slots.flatMap(({ queue }) => [...queue.waitingOf(accountId)])
  }

  /** The slot that has the cell. */
  slotOf(cellId: string): WorkerSlot {
    return this.#moves.slotOf(cellId)
  }

  /** Sees to it that the cell gets where it belongs now. @returns the slot that has it until then */
  place({ cellId, accountId }: Owned): WorkerSlot {
    const isSlow = this.#isSlowed(cellId) || this.#isSlowed(accountId)
    return this.#moves.move(cellId, isSlow ? this.#useSlow() : this.#homeOf(cellId))
  }

  /** As {@link place}, for a task: once the cell's move is over, and with a worker. @throws `shutting_down`, the signal's reason */
  async runTask<T>(
    cell: Owned,
    run: (slot: WorkerSlot) => Promise<T>,
    signal: AbortSignal | undefined,
  ): Promise<T> {
    for (;;) {
      if (this.#stopped) throw stopping()
      const slot = this.place(cell)
      const isNotReady = this.#moves.over(cell.cellId) ?? slot.untilWorker(signal)
      // At once, because the cell may move after any wait.
      if (isNotReady === undefined) return await run(slot)
      await isNotReady
    }
  }

  /** Call it now and then: ends a slow worker that nobody uses. */
  retireUnused(): void {
    const slot = this.#slow
    const isUnused = this.#parts.clock.monotonic() - this.#slowUsedAt > UNUSED_MS
    if (slot !== undefined && isUnused && slot.idle && slot.worker !== undefined) void this.#retire(slot)
  }

  workerEnded(slot: WorkerSlot): void {
    this.#moves.workerEnded(slot)
  }

  /** Cells stay where they are from now on. */
  stop(): void {
    this.#stopped = true
    this.#moves.stop()
  }

  #isSlowed(id: string): boolean {
    return (this.#slowUntil.get(id) ?? 0) > this.#parts.clock.monotonic()
  }

  #homeOf(cellId: string): WorkerSlot {
    return this.#homes[Number.parseInt(cellId.slice(0, 8), 16) % this.#homes.length] as WorkerSlot
  }

  #useSlow(): WorkerSlot {
    this.#slowUsedAt = this.#parts.clock.monotonic()
    if (this.#slow === undefined) {
      this.#slow = this.#parts.newSlot()
      void this.assignWorker(this.#slow)
    }
    return this.#slow
  }

  /** Its cells belong elsewhere by now, or get there with their next use. */
  async #retire(slot: WorkerSlot): Promise<void> {
    this.#slow = undefined
    this.#retiring.add(slot)
    await slot.stop(this.#parts.limits.silentMs)
    this.#retiring.delete(slot)
    this.#moves.leaveAll(slot)
    this.#parts.requeue(slot.dispose())
  }
}
