import type { Limits, ResultLimits } from '../base/limits.ts'
import type { Growth } from '../engine/delete-reserve.ts'
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
 * What a cell can be asked to do, as plain data: the same operations go to a cell in this process and to one in a
 * worker. {@link OperationResults} has the result of each, by its `op`. Members mean what they do in `Cell` and `Kv`.
 */
export type CellOperation = (BatchableOperation | ReadOperation | BatchOperation | UnreadOperation) & {
  /** By how much the cell's file may grow; `any` by default. Of a batch it holds for all, and in a batch it has no effect. */
  growth?: Growth | undefined
  /** True: what could change the cell is refused (`forbidden`). Of a batch it holds for all, and in a batch it has no effect. */
  readOnly?: boolean | undefined
}

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
      ifVersion?: string | null | undefined
    }
  | { op: 'kv.incr'; key: string; delta?: number | bigint | undefined; ttlSeconds?: number | undefined }
  | { op: 'kv.expire'; key: string; ttlSeconds: number | null }
  | { op: 'kv.delete'; key: string; ifVersion?: string | undefined }
  | { op: 'kv.getdel'; key: string }
  | { op: 'kv.mset'; entries: KvPutEntry[] }
  | { op: 'kv.deleteMany'; keys: string[] }

/** Operations that change nothing, and run outside transactions. */
export type ReadOperation =
  | { op: 'kv.get'; key: string }
  | { op: 'kv.ttl'; keys: string[] }
  | { op: 'kv.list'; options: KvListOptions }
  | { op: 'kv.mget'; keys: string[] }

/** All of them in one transaction, or none. An error has the failed operation's `index` in its details. */
export interface BatchOperation {
  op: 'batch'
  operations: BatchableOperation[]
}

/** Operations whose results can be large. */
type LargeOperation =
  | Extract<BatchableOperation | ReadOperation, { op: 'sql' | 'kv.list' | 'kv.mget' | 'kv.mset' }>
  | BatchOperation

/** An operation whose result comes as JSON: made where the cell is, so that nothing else has to read a large result. */
export type AnsweredAsJson = LargeOperation & { answer: 'json' }

/** What can be passed on before its JSON is read. */
export type UnreadKind = 'sql' | 'batch' | 'kv.mset'

/**
 * An operation whose JSON nobody has read yet: it is long or has many values, so that takes time, and is the work of whoever
 * runs the operation. Its result comes as JSON too.
 */
export interface UnreadOperation {
  op: 'unread'
  kind: UnreadKind
  body: Uint8Array
  bounds: BodyBounds
}

/** What bounds what a request asks for. */
export interface BodyBounds
  extends Pick<Limits, 'sqlBytesMax' | 'paramsMax' | 'batchOperationsMax' | 'kvKeysMax'> {
  /** The largest `timeout_ms`. */
  statementMsMax: number
  /** Of each statement's result. */
  result: ResultLimits
}

/** JSON, in UTF-8 if it is long. */
export type JsonText = string | Uint8Array

/** What an operation results in. */
export type ResultOf<O extends CellOperation> = O extends { answer: 'json' }
  ? JsonText
  : OperationResults[O['op']]

/** The result of each operation, by its `op`. */
export interface OperationResults {
  /** `durationMs` is the statement's own time, in milliseconds. */
  sql: SqlResult<SqlRow | SqlValue[]> & { durationMs: number }
  'kv.put': KvPutResult
  'kv.incr': KvIncrResult
  'kv.expire': KvExpireResult
  'kv.delete': { deleted: boolean }
  /** Undefined if there was no live entry. */
  'kv.getdel': KvEntry | undefined
  /** In the order of the entries. */
  'kv.mset': KvPutResult[]
  'kv.deleteMany': { deleted: number }
  'kv.get': KvEntry | undefined
  /** For each key: whole seconds left; −1 if it does not expire; null if there is no live entry. */
  'kv.ttl': (number | null)[]
  'kv.list': KvPage
  'kv.mget': (KvEntry | undefined)[]
  unread: JsonText
  /** One result for each operation, in order. */
  batch: OperationResults[BatchableOperation['op']][]
}
