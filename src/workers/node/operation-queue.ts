import type { Outcome } from '../../engine/group-commit.ts'
import { CellError } from '../../errors.ts'
import type { CellOperation } from '../../service/operations.ts'

/** An operation on its way to a worker. */
export interface QueuedOperation {
  readonly cellId: string
  readonly operation: CellOperation
  /** Of memory, about. */
  readonly bytes: number
  /** How long its statements may run, in milliseconds. */
  readonly statementMs: number
  /** Monotonic time after which it does not begin any more. */
  readonly notAfter: number
  /** Aborted when nobody waits for the answer. */
  readonly signal: AbortSignal | undefined
  /** WorkerPool that ended while it may have been the reason, for none that is known. */
  crashes: number
  isSettled: boolean
  /** The first call counts. */
  settle(outcome: Outcome): void
}

export interface QueueBounds {
  operationsMax: number
  operationsPerCellMax: number
  bytesMax: number
}

/** Operations of one batch, and of these on one cell while other cells wait. */
const BATCH_MAX = 256
const BATCH_PER_CELL_MAX = 64
/** No further operation is added to a batch of this many bytes. */
const BATCH_BYTES = 16_777_216
/** When to try again after a queue was full. */
const FULL_RETRY_MS = 1_000

/** Operations that wait for a worker, by cell: each batch takes from every cell in turn, so that none is held up by another's many. */
export class OperationQueue {
  readonly #bounds: QueueBounds
  /** In the order in which their turns come. */
  #cells = new Map<string, QueuedOperation[]>()
  #size = 0
  #bytes = 0

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
    const { operationsMax, operationsPerCellMax, bytesMax } = this.#bounds
    const waiting = this.#cells.get(operation.cellId) ?? []
    if (this.#size >= operationsMax || this.#bytes + operation.bytes > bytesMax)
      throw full('The node has too much to do.')
    if (waiting.length >= operationsPerCellMax) throw full('The cell has too much to do.')
    this.#push(waiting, operation)
  }

  /** Puts operations back that a worker has not run. They have been let in before, so no bound holds for them. */
  putBack(operations: readonly QueuedOperation[]): void {
    const before = [...this.#cells.values()].flat()
    this.#clear()
    for (const operation of [...operations, ...before]) {
      if (!operation.isSettled) this.#push(this.#cells.get(operation.cellId) ?? [], operation)
    }
  }

  /** The next batch: operations by cell. Empty if nothing waits. What has waited for too long is refused instead. */
  takeBatch(now: number): QueuedOperation[][] {
    const batch: QueuedOperation[][] = []
    const room = new Room(this.#cells.size > 1 ? BATCH_PER_CELL_MAX : BATCH_MAX)
    let cells = this.#cells.size
    for (const [cellId, waiting] of this.#cells) {
      if (cells-- === 0 || room.isFull) break
      const taken: QueuedOperation[] = []
      let at = 0
      for (; at < waiting.length; at++) {
        const operation = waiting[at] as QueuedOperation
        if (refuseIfLate(operation, now)) continue
        if (!room.admit(operation, taken.length)) break
        taken.push(operation)
      }
      if (at > 0) this.#take(cellId, waiting, at)
      if (taken.length > 0) batch.push(taken)
    }
    return batch
  }

  /** What waits for one cell, in order; it does not wait here afterwards. */
  takeCell(cellId: string): QueuedOperation[] {
    const waiting = this.#cells.get(cellId)
    return waiting === undefined ? [] : this.#take(cellId, waiting, waiting.length)
  }

  /** Everything that waits, in order; the queue is empty afterwards. */
  takeAll(): QueuedOperation[] {
    const all = [...this.#cells.values()].flat()
    this.#clear()
    return all
  }

  /** Refuses what has waited for too long, and forgets what nobody waits for any more. */
  expire(now: number): void {
    let isAnyOver = false
    for (const waiting of this.#cells.values())
      for (const operation of waiting) if (refuseIfLate(operation, now)) isAnyOver = true
    if (isAnyOver) this.putBack([])
  }

  #push(waiting: QueuedOperation[], operation: QueuedOperation): void {
    waiting.push(operation)
    this.#size++
    this.#bytes += operation.bytes
    if (waiting.length === 1) this.#cells.set(operation.cellId, waiting)
  }

  /** The rest of a cell has its next turn after all others. */
  #take(cellId: string, waiting: QueuedOperation[], count: number): QueuedOperation[] {
    const taken = waiting.slice(0, count)
    const rest = waiting.slice(count)
    this.#size -= taken.length
    for (const { bytes } of taken) this.#bytes -= bytes
    this.#cells.delete(cellId)
    if (rest.length > 0) this.#cells.set(cellId, rest)
    return taken
  }

  #clear(): void {
    this.#cells = new Map()
    this.#size = 0
    this.#bytes = 0
  }
}

/** What still fits into a batch. */
class Room {
  readonly #perCell: number
  #operations = 0
  #bytes = 0
  #isSealed = false

  constructor(perCell: number) {
    this.#perCell = perCell
  }

  get isFull(): boolean {
    return this.#isSealed || this.#operations === BATCH_MAX || this.#bytes >= BATCH_BYTES
  }

  /** @param ofCell operations of the same cell that are in the batch already */
  admit({ bytes, crashes }: QueuedOperation, ofCell: number): boolean {
    if (this.isFull || ofCell === this.#perCell) return false
    // It may be what has ended its worker: it goes alone, so that nobody else is under suspicion the next time.
    if (crashes > 0 && this.#operations > 0) return false
    this.#isSealed = crashes > 0
    this.#operations++
    this.#bytes += bytes
    return true
  }
}

/** @returns true for what is not to begin any more */
function refuseIfLate(operation: QueuedOperation, now: number): boolean {
  if (operation.isSettled) return true
  if (operation.notAfter > now) return false
  operation.settle({ ok: false, error: full('The request has waited for its turn for too long.') })
  return true
}

function full(message: string): CellError {
  return new CellError('busy', `${message} Try again.`, { retryAfterMs: FULL_RETRY_MS })
}
