import type { Clock } from '../../../base/clock.ts'
import type { WorkerSlot } from '../processes/worker-slot.ts'

export interface CellMovesParts {
  clock: Clock
  /** Where a cell is that was never moved. */
  slotById(cellId: string): WorkerSlot
}

interface Move {
  slot: WorkerSlot
  target: WorkerSlot
  over: Promise<void>
}

/** A move is tried again this long after a worker needed the cell and kept it. */
const AGAIN_MS = 1_000
/** About 15 MB. Further cells stay where their ids put them. */
const MOVED_MAX = 100_000

/**
 * Which slot has each cell, and its way to another one. No other slot gets the cell before the worker of this one has closed
 * it (invariant 2).
 *
 *                                                        the worker needs it
 *                       ┌──────────────────────────────────────────────────────────────────────────────┐
 *                       ▼                                                                              │
 *     in slot a ── in a, and its worker never had it, or has ended ──▶ in slot b                       │
 *         │                                                              ▲                             │
 *         └── its worker may have it open ──▶ leaving a ── closed, or the worker has ended ── (or) ────┘
 *
 * While it leaves, its operations wait in a's queue, blocked, and its tasks wait for the end of the move. Whatever a's
 * worker has to do for the cell comes to its end first. What the slot still has of the cell then goes to b: operations
 * in their order, and transactions that may have been committed. A slot that is wanted meanwhile becomes the target.
 */
export class CellMoves {
  readonly #parts: CellMovesParts
  /** Cells that are not where their ids put them. */
  readonly #moved = new Map<string, WorkerSlot>()
  readonly #moves = new Map<string, Move>()
  /** Cells that their workers needed just now. */
  readonly #kept = new Set<string>()
  #stopped = false

  constructor(parts: CellMovesParts) {
    this.#parts = parts
  }

  /** The slot that has the cell. */
  slotOf(cellId: string): WorkerSlot {
    return this.#moved.get(cellId) ?? this.#parts.slotById(cellId)
  }

  /** Resolves when the cell's move is over; undefined if it has none. */
  over(cellId: string): Promise<void> | undefined {
    return this.#moves.get(cellId)?.over
  }

  /** Moves a cell: at once if it is open nowhere. @returns the slot that has it now */
  move(cellId: string, target: WorkerSlot): WorkerSlot {
    const slot = this.slotOf(cellId)
    if (this.#stopped) return slot
    const move = this.#moves.get(cellId)
    if (move !== undefined) move.target = target
    if (slot === target || (this.#moved.size >= MOVED_MAX && !this.#moved.has(cellId))) return slot
    if (!slot.mayHaveOpen(cellId)) return this.#arrive(cellId, slot, target)
    if (move === undefined && !this.#kept.has(cellId)) this.#leave(cellId, slot, target)
    return slot
  }

  /** The worker of a slot has ended: no other one of the slot gets a cell that is about to leave it. Before it has another. */
  workerEnded(slot: WorkerSlot): void {
    if (this.#stopped) return
    for (const [cellId, move] of [...this.#moves])
      if (move.slot === slot) this.#arrive(cellId, slot, move.target)
  }

  /** Cells leave a slot whose worker has ended for good. */
  leaveAll(slot: WorkerSlot): void {
    for (const [cellId, each] of [...this.#moved])
      if (each === slot) this.move(cellId, this.#parts.slotById(cellId))
  }

  /** Cells stay where they are from now on. */
  stop(): void {
    this.#stopped = true
  }

  #leave(cellId: string, slot: WorkerSlot, target: WorkerSlot): void {
    slot.queue.block(cellId)
    const move: Move = { slot, target, over: Promise.resolve() }
    this.#moves.set(cellId, move)
    move.over = slot.closeCell(cellId).then((isClosed) => {
      if (this.#stopped || this.#moves.get(cellId) !== move) return
      if (isClosed) this.#arrive(cellId, slot, move.target)
      else this.#keep(cellId, slot)
    })
  }

  #arrive(cellId: string, slot: WorkerSlot, target: WorkerSlot): WorkerSlot {
    this.#moves.delete(cellId)
    if (target === this.#parts.slotById(cellId)) this.#moved.delete(cellId)
    else this.#moved.set(cellId, target)
    target.receiveCell(slot.releaseCell(cellId))
    return target
  }

  #keep(cellId: string, slot: WorkerSlot): void {
    this.#moves.delete(cellId)
    this.#kept.add(cellId)
    this.#parts.clock.setTimer(() => this.#kept.delete(cellId), AGAIN_MS)
    slot.receiveCell(slot.releaseCell(cellId))
  }
}
