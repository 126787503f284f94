import type { Clock } from '../../base/clock.ts'
import type { QueuedOperation } from './queued-operation.ts'
import type { WorkerSlot } from './worker-slot.ts'

export interface IsolatedSlotsParts {
  clock: Clock
  /** Workers for isolated cells at the same time. Further cells wait for a free one. */
  workersMax: number
  /** Of them, for cells of one account. */
  perAccountMax: number
  /** Milliseconds that a cell stays isolated after its last strike. */
  isolationMs: number
  /** Milliseconds that a worker may take to close its cell, once nothing runs there. */
  closeMs: number
  newSlot(): WorkerSlot
  /** Resolves once the slot has a worker. */
  assignWorker(slot: WorkerSlot): Promise<void>
  /** The cell is no longer isolated, or has another slot. This one is used up, and may have work of the cell that waited. */
  onReturned(cell: Owned, slot: WorkerSlot): void
}

type Owned = Pick<QueuedOperation, 'cellId' | 'accountId'>

interface IsolatedSlot {
  accountId: string
  slot: WorkerSlot
  lastStrikeAt: number
  /** A worker was requested. */
  isAwaitingWorker: boolean
  /** Since when it has, or awaits, a worker. */
  turnSince: number
}

/** A cell that is busy without a pause gives its worker up after this long, if another account has none, or another cell of its own. */
const TURN_MS = 5_000

/** Cells whose statements hold up their neighbours. Each has a slot of its own for a while. */
export class IsolatedSlots {
  readonly #parts: IsolatedSlotsParts
  readonly #cells = new Map<string, IsolatedSlot>()
  /** Accounts in the order of their last turns. */
  readonly #served = new Set<string>()

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
  set({ cellId, accountId }: Owned): WorkerSlot {
    const now = this.#parts.clock.monotonic()
    const known = this.#cells.get(cellId)
    if (known !== undefined) known.lastStrikeAt = now
    else {
      this.#add(cellId, accountId, now)
    }
    this.assignWorker()
    return (this.#cells.get(cellId) as IsolatedSlot).slot
  }

  #add(cellId: string, accountId: string, lastStrikeAt: number): void {
    const slot = this.#parts.newSlot()
    this.#cells.set(cellId, { accountId, slot, lastStrikeAt, isAwaitingWorker: false, turnSince: 0 })
  }

  /**
   * Returns idle cells to the shared slots: after their time, or earlier if another cell waits for a worker. A busy one
   * gives up its worker after its turn, if an account waits that has none, or another cell of its account. A cell that has had no
   * worker for all of its time returns, too: what waits for it must not wait for ever.
   */
  rebalance(): void {
    const now = this.#parts.clock.monotonic()
    const awaiting = this.#awaiting()
    const isDeprived = awaiting.some(({ accountId }) => this.#assignedTo(accountId) === 0)
    const next = new Map(awaiting.map(({ accountId }) => [accountId, this.#leaving(accountId)]))
    for (const [cellId, each] of this.#cells) {
      const { accountId, slot, lastStrikeAt, turnSince } = each
      const cell = { cellId, accountId }
      if (slot.stopping || each.isAwaitingWorker) continue
      const isOver = now - lastStrikeAt > this.#parts.isolationMs
      if (slot.worker === undefined || slot.idle) {
        if (isOver || (slot.worker !== undefined && awaiting.length > 0)) void this.#release(cell, slot)
        continue
      }
      const leaving = next.get(accountId)
      const isRelieved = leaving !== undefined && leaving < this.#waitingOf(accountId, awaiting)
      if (!(isDeprived || isRelieved) || now - turnSince <= TURN_MS) continue
      if (isRelieved) next.set(accountId, leaving + 1)
      void this.#release(cell, slot, () => this.#add(cellId, accountId, each.lastStrikeAt))
    }
    this.assignWorker()
  }

  /** Requests workers for slots that have none, up to `workersMax`, and for each account up to `perAccountMax`. */
  assignWorker(): void {
    const { workersMax, perAccountMax, clock } = this.#parts
    for (let free = workersMax - this.#assignedTo(); free > 0; free--) {
      const next = this.#awaiting()
        .filter(({ accountId }) => this.#assignedTo(accountId) < perAccountMax)
        .sort((a, b) => this.#turnOf(a.accountId) - this.#turnOf(b.accountId))[0]
      if (next === undefined) return
      this.#served.delete(next.accountId)
      this.#served.add(next.accountId)
      next.isAwaitingWorker = true
      next.turnSince = clock.monotonic()
      void this.#parts.assignWorker(next.slot).then(() => {
        next.isAwaitingWorker = false
        next.slot.worker?.yieldToOthers()
      })
    }
  }

  /** Slots without a worker, the oldest first. */
  #awaiting(): IsolatedSlot[] {
    return [...this.#cells.values()].filter((each) => !isAssigned(each) && !each.slot.stopping)
  }

  #waitingOf(accountId: string, awaiting: readonly IsolatedSlot[]): number {
    return awaiting.filter((each) => each.accountId === accountId).length
  }

  /** How many of an account's workers become free already. */
  #leaving(accountId: string): number {
    return [...this.#cells.values()].filter((each) => each.accountId === accountId && each.slot.stopping)
      .length
  }

  /** How many workers an account has, or all of them. */
  #assignedTo(accountId?: string): number {
    const all = [...this.#cells.values()].filter(isAssigned)
    return accountId === undefined ? all.length : all.filter((each) => each.accountId === accountId).length
  }

  /** The accounts that have had no turn come first, then the one whose last turn is longest ago. */
  #turnOf(accountId: string): number {
    return [...this.#served].indexOf(accountId)
  }

  /** The isolated worker closes the cell before another one opens it (invariant 2). @param then puts it into its next slot */
  async #release(cell: Owned, slot: WorkerSlot, then: () => void = () => {}): Promise<void> {
    const { closeMs, onReturned } = this.#parts
    // What runs, or begins in the same batch, ends at its own deadline: killed before that, it would begin again.
    await slot.stop(closeMs + slot.deadlineMs)
    const isLast = this.#cells.size === 1
    this.#cells.delete(cell.cellId)
    if (isLast) this.#served.clear()
    then()
    onReturned(cell, slot)
    this.assignWorker()
  }
}

function isAssigned({ slot, isAwaitingWorker }: IsolatedSlot): boolean {
  return isAwaitingWorker || slot.worker !== undefined
}
