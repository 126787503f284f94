import { LruCache } from '../../base/lru-cache.ts'
import type { CellTime } from './batch.ts'
import type { IsolatedSlots } from './isolated-slots.ts'
import { isStatement, type QueuedOperation } from './queued-operation.ts'
import type { WorkerSlot } from './worker-slot.ts'

/** An account with so many isolated cells at the same time has its other cells tried first. */
const ISOLATED_MIN = 3
/** So many at most: each of them has a queue of its own. */
const ISOLATED_MAX = 64
const CELLS_MAX = 10_000

/**
 * Cells that run their first statements isolated. Each slow cell costs a shared worker before it is isolated. Where an account
 * has several such cells, its next one is probably slow too. So it is tried where it holds up nobody, and shares a worker only
 * once its statements have turned out to be short.
 */
export class Trials {
  readonly #isolated: IsolatedSlots
  readonly #holdMs: number
  /** Whether a cell's statements were short when they ran last. */
  readonly #areShort = new LruCache<boolean>(CELLS_MAX)

  /** @param holdMs milliseconds that a statement may hold up others */
  constructor(isolated: IsolatedSlots, holdMs: number) {
    this.#isolated = isolated
    this.#holdMs = holdMs
  }

  ranStatements({ cellId, ms }: CellTime): void {
    const areShort = ms <= this.#holdMs
    if (this.#areShort.get(cellId) !== areShort) this.#areShort.set(cellId, areShort)
  }

  /** @param shared the slot that the cell would share. A cell that may be open there stays (invariant 2) */
  mustIsolate(operation: QueuedOperation, shared: WorkerSlot): boolean {
    const { cellId, accountId } = operation
    if (!isStatement(operation)) return false
    const isolated = this.#isolated.cellsOf(accountId)
    if (isolated < ISOLATED_MIN || isolated >= ISOLATED_MAX) return false
    return this.#areShort.get(cellId) !== true && !shared.mayHaveOpen(cellId)
  }
}
