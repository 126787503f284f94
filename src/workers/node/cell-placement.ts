import type { Clock } from '../../base/clock.ts'
import { CellMoves } from './cell-moves.ts'
import { IsolatedSlots } from './isolated-slots.ts'
import type { WorkerLimits } from './kill-reason.ts'
import { Probation } from './probation.ts'
import type { QueuedOperation } from './queued-operation.ts'
import type { WorkerSlot } from './worker-slot.ts'
import { stopping } from './worker-spawner.ts'

export interface CellPlacementParts {
  /** Slots that share the cells of all accounts that are not on probation. */
  count: number
  clock: Clock
  limits: WorkerLimits
  isKnown(accountId: string): boolean
  newSlot(): WorkerSlot
  /** Resolves once the slot has a worker. */
  assignWorker(slot: WorkerSlot): Promise<void>
  /** Runs operations again, each in its cell's present slot. */
  requeue(operations: readonly QueuedOperation[]): void
}

type Owned = Pick<QueuedOperation, 'cellId' | 'accountId'>

/** Milliseconds after which a probation worker without work ends. */
const UNUSED_MS = 60_000

/**
 * Which slot each cell belongs to. Its id decides between the shared slots. The cells of accounts on probation share one
 * more slot, which exists while it is used and yields to the others. A cell whose statements held up others is isolated in
 * a slot of its own for a while, whatever its account.
 */
export class CellPlacement {
  readonly isolated: IsolatedSlots
  readonly probation: Probation
  readonly #parts: CellPlacementParts
  readonly #moves: CellMoves
  readonly #regular: readonly WorkerSlot[]
  #probationary: WorkerSlot | undefined
  /** Former probationary slots, whose workers have not ended yet. */
  readonly #retiring = new Set<WorkerSlot>()
  #probationUsedAt = 0
  #stopped = false

  constructor(parts: CellPlacementParts) {
    const { count, clock, limits, newSlot, isKnown } = parts
    this.#parts = parts
    this.#regular = Array.from({ length: count }, newSlot)
    this.#moves = new CellMoves({ clock, slotById: (cellId) => this.#slotById(cellId) })
    this.probation = new Probation({ clock, times: limits, longMs: limits.holdMs, isKnown })
    const workersMax = Math.max(2, count)
    this.isolated = new IsolatedSlots({
      ...parts,
      workersMax,
      perAccountMax: limits.isolatedPerAccount ?? workersMax - 1,
      isolationMs: limits.isolationMs,
      closeMs: limits.silentMs,
      onReturned: (cell, slot) => this.#leaveIsolated(cell, slot),
    })
  }

  /** Resolves once each regular slot has its worker. */
  async start(): Promise<void> {
    await Promise.all(this.#regular.map((slot) => this.assignWorker(slot)))
  }

  /** Resolves once the shared slot has a worker. */
  async assignWorker(slot: WorkerSlot): Promise<void> {
    await this.#parts.assignWorker(slot)
    if (this.isProbationary(slot)) slot.worker?.yieldToOthers()
  }

  get slots(): WorkerSlot[] {
    return [...this.shared, ...this.#retiring, ...this.isolated.slots]
  }

  /** Slots with the cells of many. */
  get shared(): WorkerSlot[] {
    return this.#probationary === undefined ? [...this.#regular] : [...this.#regular, this.#probationary]
  }

  isShared(slot: WorkerSlot): boolean {
    return slot === this.#probationary || this.#regular.includes(slot)
  }

  isProbationary(slot: WorkerSlot): boolean {
    return slot === this.#probationary
  }

  /** The slot that has the cell. */
  slotOf(cellId: string): WorkerSlot {
    return this.#moves.slotOf(cellId)
  }

  /** Sees to it that the cell gets where it belongs now. @returns the slot that has it until then */
  place({ cellId, accountId }: Owned): WorkerSlot {
    return this.#moves.move(cellId, this.#wanted(cellId, accountId))
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

  /** Gives the cell a slot of its own. If it has one already, its time there starts again. */
  isolate(cell: Owned): void {
    this.isolated.set(cell)
    this.place(cell)
  }

  /** What an account has waiting in shared workers. */
  waitingOf(accountId: string): QueuedOperation[] {
    return this.shared.flatMap(({ queue }) => [...queue.waitingOf(accountId)])
  }

  /** Call it now and then. */
  rebalance(): void {
    this.isolated.rebalance()
    this.probation.forgetQuiet()
    const slot = this.#probationary
    const isUnused = this.#parts.clock.monotonic() - this.#probationUsedAt > UNUSED_MS
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

  #slotById(cellId: string): WorkerSlot {
    return this.#regular[Number.parseInt(cellId.slice(0, 8), 16) % this.#regular.length] as WorkerSlot
  }

  #wanted(cellId: string, accountId: string): WorkerSlot {
    const isolated = this.isolated.of(cellId)
    if (isolated !== undefined) return isolated
    return this.probation.isOn(accountId) ? this.#useProbationary() : this.#slotById(cellId)
  }

  #useProbationary(): WorkerSlot {
    this.#probationUsedAt = this.#parts.clock.monotonic()
    if (this.#probationary === undefined) {
      this.#probationary = this.#parts.newSlot()
      void this.assignWorker(this.#probationary)
    }
    return this.#probationary
  }

  /**
   * What the slot still has goes where the cell belongs now: into another isolated slot, perhaps, and not through the worker
   * of its neighbours. A cell without any goes where its id puts it.
   */
  #leaveIsolated(cell: Owned, slot: WorkerSlot): void {
    if (slot.idle) this.#moves.move(cell.cellId, this.#slotById(cell.cellId))
    else this.place(cell)
    this.#parts.requeue(slot.dispose())
  }

  /** Its cells belong elsewhere by now, or get there with their next use. */
  async #retire(slot: WorkerSlot): Promise<void> {
    this.#probationary = undefined
    this.#retiring.add(slot)
    await slot.stop(this.#parts.limits.silentMs)
    this.#retiring.delete(slot)
    this.#moves.leaveAll(slot)
    this.#parts.requeue(slot.dispose())
  }
}
