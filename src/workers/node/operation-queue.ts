import type { Outcome } from '../../engine/group-commit.ts'
import type { SqlParams } from '../../engine/statements/sql-values.ts'
import { CellError } from '../../errors.ts'
import type { CellOperation } from '../../service/operations.ts'

/** An operation that waits for a worker, or runs in one. */
export interface QueuedOperation {
  readonly cellId: string
  readonly operation: CellOperation
  /** Approximate size in memory. */
  readonly bytes: number
  /** Milliseconds that each of its statements may run. */
  readonly statementMs: number
  /** Monotonic time after which it is refused instead of started. */
  readonly notAfter: number
  /** Aborted when the caller no longer waits for the answer. */
  readonly signal: AbortSignal | undefined
  /** Workers that ended without a known reason while this operation may have been the cause. */
  crashes: number
  isSettled: boolean
  /** The first call counts. */
  settle(outcome: Outcome): void
}

/** Whether it runs a tenant's SQL, or may: only such operations can take long. */
export function isStatement({ operation }: QueuedOperation): boolean {
  return operation.op === 'sql' || operation.op === 'batch'
}

/** The approximate size in memory of an operation's strings and blobs, in bytes. */
export function operationBytes(operation: CellOperation): number {
  switch (operation.op) {
    case 'sql':
      return operation.sql.length + paramsBytes(operation.params)
    case 'kv.put':
      return operation.key.length + operation.value.length
    case 'kv.mset':
      return operation.entries.reduce((sum, { key, value }) => sum + key.length + value.length, 0)
    case 'batch':
      return operation.operations.reduce((sum, each) => sum + operationBytes(each), 0)
    default:
      return 0
  }
}

function paramsBytes(params: SqlParams = []): number {
  let bytes = 0
  for (const value of Array.isArray(params) ? params : Object.values(params)) {
    if (typeof value === 'string') bytes += value.length
    else if (value instanceof Uint8Array) bytes += value.byteLength
  }
  return bytes
}

export interface QueueBounds {
  operationsMax: number
  operationsPerCellMax: number
  bytesMax: number
}

/** Operations in one batch; and operations on one cell in it, if other cells wait too. */
const BATCH_MAX = 256
const BATCH_PER_CELL_MAX = 64
/** A batch of this many bytes takes no further operation. */
const BATCH_BYTES = 16_777_216
/** Suggested to callers when a queue is full. */
const FULL_RETRY_MS = 1_000

/** Operations that wait for a worker, by cell. Batches take from each cell in turn, so a busy cell does not delay the others. */
export class OperationQueue {
  readonly #bounds: QueueBounds
  /** In the order of their turns. */
  #cells = new Map<string, QueuedOperation[]>()
  #size = 0
  #bytes = 0

  constructor(bounds: QueueBounds) {
    this.#bounds = bounds
  }

  get size(): number {
    return this.#size
  }

  /** Whether operations on other cells wait. */
  hasOtherThan(cellId: string): boolean {
    return this.#cells.size > (this.#cells.has(cellId) ? 1 : 0)
  }

  /** @throws `busy` when the queue is full */
  add(operation: QueuedOperation): void {
    const { operationsMax, operationsPerCellMax, bytesMax } = this.#bounds
    const waiting = this.#cells.get(operation.cellId) ?? []
    if (this.#size >= operationsMax || this.#bytes + operation.bytes > bytesMax)
      throw full('Too many requests wait on this node.')
    if (waiting.length >= operationsPerCellMax) throw full('Too many requests wait for this cell.')
    this.#push(waiting, operation)
  }

  /** Puts operations that a worker did not run back at the front. They were admitted before, so no bound applies. */
  requeue(operations: readonly QueuedOperation[]): void {
    const before = [...this.#cells.values()].flat()
    this.#clear()
    for (const operation of [...operations, ...before]) {
      if (!operation.isSettled) this.#push(this.#cells.get(operation.cellId) ?? [], operation)
    }
  }

  /** The next batch, by cell; empty if nothing waits. Refuses operations that have waited too long. */
  takeBatch(now: number): QueuedOperation[][] {
    const batch: QueuedOperation[][] = []
    const capacity = new BatchCapacity(this.#cells.size > 1 ? BATCH_PER_CELL_MAX : BATCH_MAX)
    let cells = this.#cells.size
    for (const [cellId, waiting] of this.#cells) {
      if (cells-- === 0 || capacity.isFull) break
      const taken: QueuedOperation[] = []
      let at = 0
      for (; at < waiting.length; at++) {
        const operation = waiting[at] as QueuedOperation
        if (refuseIfLate(operation, now)) continue
        if (!capacity.admit(operation, taken.length)) break
        taken.push(operation)
      }
      if (at > 0) this.#take(cellId, waiting, at)
      if (taken.length > 0) batch.push(taken)
    }
    return batch
  }

  /** Removes and returns the operations on one cell, in order. */
  takeCell(cellId: string): QueuedOperation[] {
    const waiting = this.#cells.get(cellId)
    return waiting === undefined ? [] : this.#take(cellId, waiting, waiting.length)
  }

  /** Removes and returns all operations, in order. */
  takeAll(): QueuedOperation[] {
    const all = [...this.#cells.values()].flat()
    this.#clear()
    return all
  }

  /** Refuses operations that have waited too long, and removes settled ones. */
  expire(now: number): void {
    let isAnySettled = false
    for (const waiting of this.#cells.values())
      for (const operation of waiting) if (refuseIfLate(operation, now)) isAnySettled = true
    if (isAnySettled) this.requeue([])
  }

  #push(waiting: QueuedOperation[], operation: QueuedOperation): void {
    waiting.push(operation)
    this.#size++
    this.#bytes += operation.bytes
    if (waiting.length === 1) this.#cells.set(operation.cellId, waiting)
  }

  /** The rest of the cell's operations move behind all other cells. */
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

/** How much still fits into a batch. */
class BatchCapacity {
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

  /** @param ofCell operations on the same cell that the batch already has */
  admit({ bytes, crashes }: QueuedOperation, ofCell: number): boolean {
    if (this.isFull || ofCell === this.#perCell) return false
    // This operation may have crashed a worker. It runs alone, so that a second crash shows the cause.
    if (crashes > 0 && this.#operations > 0) return false
    this.#isSealed = crashes > 0
    this.#operations++
    this.#bytes += bytes
    return true
  }
}

/** @returns true if the operation is settled and must not start */
function refuseIfLate(operation: QueuedOperation, now: number): boolean {
  if (operation.isSettled) return true
  if (operation.notAfter > now) return false
  operation.settle({ ok: false, error: full('The request waited too long in the queue.') })
  return true
}

function full(message: string): CellError {
  return new CellError('busy', `${message} Try again.`, { retryAfterMs: FULL_RETRY_MS })
}
