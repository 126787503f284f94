import { overLimit, TRY_LATER } from '../../../base/options/over-limit.ts'
import { CellError } from '../../../errors.ts'
import type { FinishedBatch } from '../dispatch/batch.ts'
import type { QueuedOperation } from '../dispatch/queued-operation.ts'
import { AccountTurns } from './account-turns.ts'
import { BatchCapacity } from './batch-capacity.ts'
import { HeldBack } from './held-back.ts'

/** Of the operations that wait for one worker. */
export interface QueueBounds {
  operationsMax: number
  operationsPerCellMax: number
  /** Of what they take in memory. */
  bytesMax: number
}

export const DEFAULT_QUEUE_BOUNDS: QueueBounds = {
  operationsMax: 20_000,
  operationsPerCellMax: 2_000,
  bytesMax: 268_435_456,
}

/** Suggested to callers when a queue is full. */
const FULL_RETRY_MS = 1_000

/**
 * Operations that wait for a worker, by cell. Batches take from each account in turn, and from each of its cells, so
 * neither a busy cell nor an account with many cells delays the others. See {@link AccountTurns} for whose turn comes first.
 */
export class OperationQueue {
  readonly #bounds: QueueBounds
  #cells = new Map<string, QueuedOperation[]>()
  /** The cells of each account, both in the order of their turns. */
  #accounts = new Map<string, Set<string>>()
  /** Cells on their way to another worker: none of their operations starts here. */
  readonly #blocked = new Set<string>()
  readonly #heldBack = new HeldBack()
  #size = 0
  #bytes = 0

  readonly turns: AccountTurns

  readonly #isPaused: (cellId: string) => boolean

  /**
   * @param sliceMs milliseconds that a batch may take
   * @param isPaused whether no operation of the cell may start, here or elsewhere
   */
  constructor(bounds: QueueBounds, sliceMs: number, isPaused: (cellId: string) => boolean = () => false) {
    this.#bounds = bounds
    this.#isPaused = isPaused
    this.turns = new AccountTurns(sliceMs)
  }

  /** Of the operations that wait. */
  get bytes(): number {
    return this.#bytes + this.#heldBack.bytes
  }

  get size(): number {
    return this.#size + this.#heldBack.size
  }

  /** Whether operations on other cells wait. */
  hasOtherCell(cellId: string): boolean {
    return this.#cells.size > (this.#cells.has(cellId) ? 1 : 0)
  }

  /** Whether operations of other accounts wait. */
  hasOtherAccount(accountId: string): boolean {
    return this.#accounts.size > (this.#accounts.has(accountId) ? 1 : 0)
  }

  /** An account's operations. Settled ones are not started any more. */
  *waitingOf(accountId: string): Generator<QueuedOperation> {
    for (const cellId of this.#accounts.get(accountId) ?? []) yield* this.#cells.get(cellId) ?? []
    yield* this.#heldBack.ofAccount(accountId)
  }

  /** @throws `busy` when the queue is full */
  add(operation: QueuedOperation): void {
    const { operationsMax, operationsPerCellMax, bytesMax } = this.#bounds
    const waiting = this.#cells.get(operation.cellId) ?? []
    const ofCell = waiting.length + this.#heldBack.countOf(operation.cellId)
    if (this.size >= operationsMax)
      throw full('Too many operations wait on this node', 'queue.operationsMax', operationsMax)
    if (this.bytes + operation.bytes > bytesMax)
      throw full('The operations that wait on this node are too large', 'queue.bytesMax', bytesMax)
    if (ofCell >= operationsPerCellMax) {
      const has = `${ofCell} operations wait for this cell`
      throw full(has, 'queue.operationsPerCellMax', operationsPerCellMax, ofCell)
    }
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

  /**
   * Puts back operations that a batch had no time for, each before what waits for its cell. A cell of which nothing ran has
   * its account's next turn. One of which something ran has had its turn.
   */
  putBack({ returned, ran }: Pick<FinishedBatch, 'returned' | 'ran'>): void {
    const hadTurn = new Set(ran.map(({ cellId }) => cellId))
    const open = returned.filter(({ isSettled }) => !isSettled)
    for (const [accountId, ofAccount] of Map.groupBy(open, (each) => each.accountId)) {
      const cells = Map.groupBy(ofAccount, ({ cellId }) => cellId)
      for (const [cellId, own] of cells) this.#cells.set(cellId, [...own, ...(this.#cells.get(cellId) ?? [])])
      const first = [...cells.keys()].filter((cellId) => !hadTurn.has(cellId))
      // Once for all cells of the account: it can have thousands that wait.
      this.#accounts.set(
        accountId,
        new Set([...first, ...(this.#accounts.get(accountId) ?? []), ...cells.keys()]),
      )
    }
    this.#size += open.length
    for (const { bytes } of open) this.#bytes += bytes
  }

  /** Starts no operation of the cell until {@link takeCell}. */
  block(cellId: string): void {
    this.#blocked.add(cellId)
  }

  /** Puts operations back that start only once the hold of their cell has ended: see {@link released}. */
  holdBack(operations: readonly QueuedOperation[]): void {
    for (const each of operations) if (!each.isSettled) this.#heldBack.add(each)
  }

  /** No hold has the cell any more: what waited for that comes before what came since. */
  released(cellId: string): void {
    this.putCell(this.#heldBack.take(cellId))
  }

  /** The worker, which had all the holds, has ended. */
  allReleased(): void {
    for (const cellId of this.#heldBack.cells) this.released(cellId)
  }

  /** The next batch, by cell; empty if nothing waits. Refuses operations that have waited too long. */
  takeBatch(now: number): QueuedOperation[][] {
    const batch: QueuedOperation[][] = []
    const timeFor = (accountId: string) => this.turns.operationsMax(accountId)
    const capacity = new BatchCapacity(this.#cells.size > 1, this.#accounts.size > 1, timeFor)
    for (const cellId of this.#turns()) {
      if (capacity.isFull) break
      if (this.#blocked.has(cellId) || this.#isPaused(cellId)) continue
      const waiting = this.#cells.get(cellId) as QueuedOperation[]
      const taken: QueuedOperation[] = []
      const share = capacity.shareOf((waiting[0] as QueuedOperation).accountId)
      let at = 0
      for (; at < waiting.length; at++) {
        const operation = waiting[at] as QueuedOperation
        if (refuseIfLate(operation, now) || isForbidden(operation)) continue
        if (!capacity.admit(operation, share, taken.length)) break
        taken.push(operation)
      }
      if (at > 0) this.#take(waiting, at)
      if (taken.length > 0) batch.push(taken)
    }
    if (this.#size === 0) this.#clear()
    return batch
  }

  /** Removes and returns the operations on one cell, in order. */
  takeCell(cellId: string): QueuedOperation[] {
    this.#blocked.delete(cellId)
    this.released(cellId)
    const waiting = this.#cells.get(cellId)
    return waiting === undefined ? [] : this.#take(waiting, waiting.length)
  }

  /**
   * Puts operations of one cell, which another queue had or a hold kept, before what waits for it here. They were admitted before, so no
   * bound applies. Nothing else is touched: an account can have thousands of cells that move at a time.
   */
  putCell(operations: readonly QueuedOperation[]): void {
    const open = operations.filter(({ isSettled }) => !isSettled)
    const [first] = open
    if (first === undefined) return
    this.#size += open.length
    for (const { bytes } of open) this.#bytes += bytes
    this.#moveToEnd(first, [...open, ...(this.#cells.get(first.cellId) ?? [])])
  }

  /** Removes and returns all operations, in order. */
  takeAll(): QueuedOperation[] {
    this.allReleased()
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
    if (this.#heldBack.size > 0) this.#heldBack.removeAll((each) => refuseIfLate(each, now))
  }

  /** Each cell once: the first of each account, then the second of each, and so on. */
  *#turns(): Generator<string> {
    let accounts = this.turns.inOrder(this.#accounts.keys()).map((accountId) => {
      const cells = this.#accounts.get(accountId) as Set<string>
      return { next: cells.values(), left: cells.size }
    })
    while (accounts.length > 0) {
      for (const account of accounts) {
        account.left--
        yield account.next.next().value as string
      }
      accounts = accounts.filter(({ left }) => left > 0)
    }
  }

  #push(waiting: QueuedOperation[], operation: QueuedOperation): void {
    waiting.push(operation)
    this.#size++
    this.#bytes += operation.bytes
    if (waiting.length === 1) this.#append(operation, waiting)
  }

  #append({ cellId, accountId }: QueuedOperation, waiting: QueuedOperation[]): void {
    this.#cells.set(cellId, waiting)
    const cells = this.#accounts.get(accountId)
    if (cells === undefined) this.#accounts.set(accountId, new Set([cellId]))
    else cells.add(cellId)
  }

  /** The cell's turn, and its account's, come after all others. Without operations it has none. */
  #moveToEnd({ cellId, accountId }: QueuedOperation, waiting: QueuedOperation[]): void {
    const cells = this.#accounts.get(accountId) ?? new Set()
    cells.delete(cellId)
    this.#cells.delete(cellId)
    this.#accounts.delete(accountId)
    if (waiting.length > 0) {
      cells.add(cellId)
      this.#cells.set(cellId, waiting)
    }
    if (cells.size > 0) this.#accounts.set(accountId, cells)
  }

  /**
   * The rest of the cell's operations move behind all other cells.
   *
   * The array itself loses what is taken, and an empty queue gets new maps: V8 keeps the table that a busy `Map` has outgrown
   * until its next full collection, if it was there long enough, and with it all later tables and what they ever held. Whole
   * requests would live on in that way, and V8 would copy each of them twice.
   */
  #take(waiting: QueuedOperation[], count: number): QueuedOperation[] {
    const taken = waiting.splice(0, count)
    this.#size -= taken.length
    for (const { bytes } of taken) this.#bytes -= bytes
    const [first] = taken
    if (first !== undefined) this.#moveToEnd(first, waiting)
    return taken
  }

  #clear(): void {
    this.#cells = new Map()
    this.#accounts = new Map()
    this.#size = 0
    this.#bytes = 0
  }
}

/** @returns true if the operation is settled and must not start */
function refuseIfLate(operation: QueuedOperation, now: number): boolean {
  if (operation.isSettled) return true
  if (operation.notAfter > now) return false
  operation.settle({ ok: false, error: waitedTooLong() })
  return true
}

/** @returns true if its caller may no longer do it; then it is settled, and must not start */
function isForbidden(operation: QueuedOperation): boolean {
  try {
    operation.permit?.check()
    return false
  } catch (error) {
    operation.settle({ ok: false, error })
    return true
  }
}

function full(has: string, setting: string, limit: number, usage?: number): CellError {
  const ofAccount = usage === undefined ? {} : { usage }
  return overLimit('busy', has, { setting, limit, ...ofAccount, retryAfterMs: FULL_RETRY_MS }, TRY_LATER)
}

function waitedTooLong(): CellError {
  const message = 'The request waited too long in the queue (http.requestDeadlineMs). Try again.'
  return new CellError('busy', message, { retryAfterMs: FULL_RETRY_MS })
}
