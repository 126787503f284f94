import { isBytes } from '../../base/any-realm.ts'
import type { SqlParam, SqlParams } from '../../engine/statements/sql-values.ts'
import type { Outcome } from '../../engine/work-group.ts'
import type { OperationPermit } from '../../service/cell-service.ts'
import type { CellOperation } from '../../service/operations.ts'

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
  /** The first call counts. @param hasCommitted it may have changed the cell */
  settle(outcome: Outcome, hasCommitted?: boolean): void
}

/** Of an operation, an entry or a key, besides its text. */
const OBJECT_BYTES = 64
/** Of a number, a flag or a null in a list. */
const VALUE_BYTES = 8

/** Whether it runs a tenant's SQL, or may: only such operations can take long. */
export function isStatement({ operation }: QueuedOperation): boolean {
  const kind = operation.op === 'unread' ? operation.kind : operation.op
  return kind === 'sql' || kind === 'batch'
}

/** The approximate size of an operation in memory, in bytes. Nothing is free, or a queue would hold any number of it. */
export function operationBytes(operation: CellOperation): number {
  switch (operation.op) {
    case 'sql':
      return OBJECT_BYTES + operation.sql.length + paramsBytes(operation.params)
    case 'kv.put':
      return OBJECT_BYTES + operation.key.length + operation.value.length
    case 'kv.mset':
      return operation.entries.reduce(
        (sum, { key, value }) => sum + OBJECT_BYTES + key.length + value.length,
        OBJECT_BYTES,
      )
    case 'kv.ttl':
    case 'kv.mget':
    case 'kv.deleteMany':
      return operation.keys.reduce((sum, key) => sum + OBJECT_BYTES + key.length, OBJECT_BYTES)
    case 'unread':
      return OBJECT_BYTES + operation.body.byteLength
    case 'batch':
      return operation.operations.reduce((sum, each) => sum + operationBytes(each), OBJECT_BYTES)
    case 'kv.list':
      return OBJECT_BYTES
    default:
      return OBJECT_BYTES + operation.key.length
  }
}

function paramsBytes(params: SqlParams = []): number {
  if (Array.isArray(params)) return params.reduce((sum: number, value) => sum + paramBytes(value), 0)
  return Object.entries(params).reduce(
    (sum, [name, value]) => sum + OBJECT_BYTES + name.length + paramBytes(value),
    0,
  )
}

function paramBytes(value: SqlParam): number {
  if (typeof value === 'string') return VALUE_BYTES + value.length
  return isBytes(value) ? OBJECT_BYTES + value.byteLength : VALUE_BYTES
}
