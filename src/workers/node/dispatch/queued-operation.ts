import { serialize } from 'node:v8'
import type { Outcome } from '../../../engine/commits/work-group.ts'
import type { OperationPermit } from '../../../service/cell-service.ts'
import { type CellOperation, routeOf, STATEMENT_ROUTES } from '../../../service/operations.ts'

/** An operation that waits for a worker, or runs in one. */
export interface QueuedOperation {
  readonly cellId: string
  /** Whose turn it is, and whose budget; the cell's id for a cell without an account. */
  readonly accountId: string
  readonly operation: CellOperation
  /** Approximate size in memory. */
  readonly bytes: number
  /** Milliseconds that each of its statements may run; less once the worker has read that its caller gives less. */
  statementMs: number
  /** Monotonic time after which it is refused instead of started. */
  readonly notAfter: number
  /** Aborted when the caller no longer waits for the answer. */
  readonly signal: AbortSignal | undefined
  /** Asked just before it starts. */
  readonly permit?: OperationPermit | undefined
  /** For the log. */
  readonly requestId?: string | undefined
  /** Workers that ended without a known reason while this operation may have been the cause. */
  crashes: number
  isSettled: boolean
  /** It runs by itself, and is about to commit, or has committed something and goes on. Then it must not run again. */
  ownCommit?: 'under way' | 'over' | undefined
  /** The first call counts. @param hasCommitted it may have changed the cell */
  settle(outcome: Outcome, hasCommitted?: boolean): void
}

/** Of an operation, besides its text. */
const OBJECT_BYTES = 256

/** Whether it runs a tenant's SQL: only such operations can take long. */
export function isStatement({ operation }: QueuedOperation): boolean {
  return STATEMENT_ROUTES.has(routeOf(operation))
}

/** The approximate size of an operation in memory, in bytes. Nothing is free, or a queue would take any number of it. */
export function operationBytes(operation: CellOperation): number {
  if (operation.op !== 'request') return OBJECT_BYTES + serialize(operation).length
  const { key = '', query = '', body } = operation
  return OBJECT_BYTES + key.length + query.length + (body?.length ?? 0)
}
