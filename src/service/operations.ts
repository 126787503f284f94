import type { ResultLimits } from '../base/limits.ts'
import type { SqlParams, SqlResult, SqlRow, SqlValue } from '../engine/statements/sql-values.ts'
import type {
  KvEntry,
  KvExpireResult,
  KvIncrResult,
  KvListOptions,
  KvPage,
  KvPutEntry,
  KvPutResult,
} from '../kv/entry.ts'

/**
 * What can be asked of a cell, as plain data: the same requests go to a cell in this process and to one in a worker.
 * Each kind has its answer in {@link OperationResults}.
 */
export type CellOperation = BatchableOperation | ReadOperation | BatchOperation

/** Operations that a batch can hold. */
export type BatchableOperation =
  | {
      op: 'sql'
      sql: string
      params?: SqlParams | undefined
      rowMode?: 'object' | 'array' | undefined
      limits?: ResultLimits | undefined
    }
  | {
      op: 'kv.put'
      key: string
      value: string
      ttlSeconds?: number | undefined
      keepTtl?: boolean | undefined
    }
  | { op: 'kv.incr'; key: string; delta?: number | bigint | undefined; ttlSeconds?: number | undefined }
  | { op: 'kv.expire'; key: string; ttlSeconds: number | null }
  | { op: 'kv.delete'; key: string }
  | { op: 'kv.mset'; entries: KvPutEntry[] }
  | { op: 'kv.deleteMany'; keys: string[] }

export type ReadOperation =
  | { op: 'kv.get'; key: string }
  | { op: 'kv.ttl'; keys: string[] }
  | { op: 'kv.list'; options: KvListOptions }
  | { op: 'kv.mget'; keys: string[] }

/** All of them in one transaction, or none. A failure carries `index` in its details. */
export interface BatchOperation {
  op: 'batch'
  operations: BatchableOperation[]
}

export interface OperationResults {
  sql: SqlResult<SqlRow | SqlValue[]> & { durationMs: number }
  'kv.put': KvPutResult
  'kv.incr': KvIncrResult
  'kv.expire': KvExpireResult
  'kv.delete': { deleted: boolean }
  'kv.mset': { count: number }
  'kv.deleteMany': { deleted: number }
  'kv.get': KvEntry | undefined
  'kv.ttl': (number | null)[]
  'kv.list': KvPage
  'kv.mget': (KvEntry | undefined)[]
  /** One result an operation, in order. */
  batch: OperationResults[BatchableOperation['op']][]
}
