import type { Outcome } from '../engine/group-commit.ts'
import { CellError } from '../errors.ts'
import type { CellOperation } from './operations.ts'

/** An operation on its way to a host. */
export interface QueuedOperation {
  readonly cellId: string
  readonly operation: CellOperation
  /** How long its statements may run, in milliseconds. */
  readonly statementMs: number
  /** Monotonic time after which it does not begin any more. */
  readonly notAfter: number
  /** Aborted when nobody waits for the answer. */
  readonly signal: AbortSignal | undefined
  /** Hosts that ended while it ran there, for no reason that is known. */
  crashes: number
  isSettled: boolean
  /** The first call counts. */
  settle(outcome: Outcome): void
}

export interface QueueBounds {
  operationsMax: number
  operationsPerCellMax: number
}

/** Operations of one batch, and of these on one cell while other cells wait. */
const BATCH_MAX = 256
const BATCH_PER_CELL_MAX = 64
/** When to try again after a queue was full. */
const FULL_RETRY_MS = 1_000

/** Operations that wait for a host, by cell: each batch takes from every cell in turn, so that none is held up by another's many. */
export class OperationQueue {
  readonly #bounds: QueueBounds
  /** In the order in which their turns come. */
  #cells = new Map<string, QueuedOperation[]>()
  #size = 0

  constructor(bounds: QueueBounds) {
    this.#bounds = bounds
  }

  get size(): number {
    return this.#size
  }

  /** Whether anything waits that is for another cell. */
  hasOtherThan(cellId: string): boolean {
    return this.#cells.size > (this.#cells.has(cellId) ? 1 : 0)
  }

  /** @throws `busy` when the queue is full */
  add(operation: QueuedOperation): void {
    const waiting = this.#cells.get(operation.cellId)
    if (this.#size >= this.#bounds.operationsMax) throw full('The node has too much to do.')
    if (waiting === undefined) this.#cells.set(operation.cellId, [operation])
    else {
      if (waiting.length >= this.#bounds.operationsPerCellMax) throw full('The cell has too much to do.')
      waiting.push(operation)
    }
    this.#size++
  }

  /** Puts operations back that a host has not run. They have been let in before, so no bound holds for them. */
  putBack(operations: readonly QueuedOperation[]): void {
    const before = this.#cells
    this.#cells = new Map()
    for (const operation of operations) {
      if (operation.isSettled) continue
      const waiting = this.#cells.get(operation.cellId)
      if (waiting === undefined) this.#cells.set(operation.cellId, [operation])
      else waiting.push(operation)
      this.#size++
    }
    for (const [cellId, rest] of before) {
      this.#cells.set(cellId, [...(this.#cells.get(cellId) ?? []), ...rest])
    }
  }

  /** The next batch: operations by cell. Empty if nothing waits. */
  takeBatch(): QueuedOperation[][] {
    const batch: QueuedOperation[][] = []
    let room = BATCH_MAX
    const perCell = this.#cells.size > 1 ? BATCH_PER_CELL_MAX : BATCH_MAX
    for (const [cellId, waiting] of this.#cells) {
      const taken = waiting.splice(0, Math.min(room, perCell))
      this.#size -= taken.length
      room -= taken.length
      // Its next turn comes after all others'.
      this.#cells.delete(cellId)
      if (waiting.length > 0) this.#cells.set(cellId, waiting)
      const due = taken.filter(({ isSettled }) => !isSettled)
      if (due.length > 0) batch.push(due)
      if (room === 0 || batch.length >= BATCH_MAX) break
    }
    return batch
  }

  /** Everything that waits, in order; the queue is empty afterwards. */
  takeAll(): QueuedOperation[] {
    const all = [...this.#cells.values()].flat()
    this.#cells.clear()
    this.#size = 0
    return all
  }

  /** Refuses what has waited for too long. */
  expire(now: number): void {
    for (const waiting of this.#cells.values()) {
      for (const operation of waiting) {
        if (operation.notAfter > now) break
        operation.settle({ ok: false, error: full('The request has waited for its turn for too long.') })
      }
    }
  }
}

function full(message: string): CellError {
  return new CellError('busy', `${message} Try again.`, { retryAfterMs: FULL_RETRY_MS })
}
