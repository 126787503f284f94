import type { Clock } from '../../base/clock.ts'
import type { QueuedOperation } from './operation-queue.ts'
import type { WorkerSlot } from './worker-slot.ts'

export interface IsolatedSlotsParts {
  clock: Clock
  /** Workers for isolated cells at the same time. Further cells wait for a free one. */
  workersMax: number
  /** Of them, for cells of one account. */
  perAccountMax: number
  /** Milliseconds that a cell stays isolated after its last strike. */
  isolationMs: number
  /** Milliseconds that a worker may take to close its cell. */
  closeMs: number
  newSlot(): WorkerSlot
  /** Resolves once the slot has a worker. */
  assignWorker(slot: WorkerSlot): Promise<void>
  /** A cell has returned to its shared slot, with the operations that waited. */
  onReturned(operations: readonly QueuedOperation[]): void
}

interface IsolatedSlot {
  accountId: string
  slot: WorkerSlot
  lastStrikeAt: number
  /** A worker was requested. */
  isAwaitingWorker: boolean
}

/** Cells whose statements hold up their neighbours. Each has a slot of its own for a while. */
export class IsolatedSlots {
  readonly #parts: IsolatedSlotsParts
  readonly #cells = new Map<string, IsolatedSlot>()

  constructor(parts: IsolatedSlotsParts) {
    this.#parts = parts
  }

  get slots(): WorkerSlot[] {
    return [...this.#cells.values()].map(({ slot }) => slot)
  }

  of(cellId: string): WorkerSlot | undefined {
    return this.#cells.get(cellId)?.slot
  }

  /** Isolates a cell after a strike. If it is isolated already, its time starts again. */
  set({ cellId, accountId }: Pick<QueuedOperation, 'cellId' | 'accountId'>): WorkerSlot {
    const now = this.#parts.clock.monotonic()
    const known = this.#cells.get(cellId)
    if (known !== undefined) known.lastStrikeAt = now
    else {
      const slot = this.#parts.newSlot()
      this.#cells.set(cellId, { accountId, slot, lastStrikeAt: now, isAwaitingWorker: false })
    }
    this.assignWorker()
    return (this.#cells.get(cellId) as IsolatedSlot).slot
  }

  /** Returns idle cells to the shared slots: after their time, or earlier if another cell waits for a worker. */
  rebalance(): void {
    const now = this.#parts.clock.monotonic()
    const isAwaited = [...this.#cells.values()].some(
      ({ slot, isAwaitingWorker }) => slot.worker === undefined && !isAwaitingWorker,
    )
    for (const [cellId, { slot, lastStrikeAt }] of this.#cells) {
      if (slot.worker === undefined || slot.stopping || !slot.idle) continue
      if (isAwaited || now - lastStrikeAt > this.#parts.isolationMs) void this.#returnToShared(cellId, slot)
    }
    this.assignWorker()
  }

  /** Requests workers for slots that have none, up to `workersMax`, and for each account up to `perAccountMax`. */
  assignWorker(): void {
    const { workersMax, perAccountMax } = this.#parts
    const all = [...this.#cells.values()]
    const assigned = all.filter(({ slot, isAwaitingWorker }) => isAwaitingWorker || slot.worker !== undefined)
    for (const isolated of all) {
      const { accountId, slot } = isolated
      if (assigned.length >= workersMax) return
      if (slot.worker !== undefined || slot.stopping || isolated.isAwaitingWorker) continue
      if (assigned.filter((each) => each.accountId === accountId).length >= perAccountMax) continue
      assigned.push(isolated)
      isolated.isAwaitingWorker = true
      void this.#parts.assignWorker(slot).then(() => {
        isolated.isAwaitingWorker = false
        slot.worker?.yieldToOthers()
      })
    }
  }

  /** The isolated worker closes the cell before the shared one opens it (invariant 2). */
  async #returnToShared(cellId: string, slot: WorkerSlot): Promise<void> {
    const { clock, closeMs, onReturned } = this.#parts
    const timer = clock.setTimer(() => slot.worker?.kill(), closeMs)
    await slot.stop()
    timer.cancel()
    this.#cells.delete(cellId)
    onReturned(slot.dispose())
  }
}
