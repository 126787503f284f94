import type { ResultLimits } from '../base/options/limits.ts'
import type { Growth } from '../engine/files/delete-reserve.ts'
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
 * What a cell can be asked to do: an operation as plain data, or a request as it came. The same go to a cell in this process and to
 * one in a worker. {@link OperationResults} has the result of each, by its `op`. Members mean what they do in `Cell` and `Kv`.
 */
export type CellOperation = (PlainOperation | CellRequest) & {
  /** By how much the cell's file may grow; `any` by default. Of a batch it holds for all, and in a batch it has no effect. */
  growth?: Growth | undefined
  /** True: what could change the cell is refused (`forbidden`). Of a batch it holds for all, and in a batch it has no effect. */
  readOnly?: boolean | undefined
  /** The transaction of several operations that it goes on in, or may leave open. In a batch it has no effect. */
  hold?: OperationHold | undefined
}

/** A transaction that outlives an operation. */
export interface OperationHold {
  /** Its caller chooses one that nobody can guess; at most 64 characters. */
  id: string
  /** It is open, as its last operation has told: the operation runs in it, or not at all. */
  isOpen: boolean
}

/** An operation whose parts somebody has read. */
export type PlainOperation = BatchableOperation | ReadOperation | BatchOperation | HoldOperation

/** The name of a route of a cell: that of its operation, or of a protocol whose requests have several. */
export type CellRoute = Exclude<PlainOperation['op'], 'hold'> | 'hrana.pipeline' | 'hrana.cursor'

/** Those that run SQL: only they can take long. */
export const STATEMENT_ROUTES: ReadonlySet<string> = new Set<CellRoute>([
  'sql',
  'batch',
  'hrana.pipeline',
  'hrana.cursor',
])

/**
 * A request of HTTP for a cell, as it came. Whoever has the cell reads it, runs it and writes its answer, in the time of its
 * account: the node only knows whose it is.
 */
export interface CellRequest {
  op: 'request'
  route: CellRoute
  /** The segment of its path that stands for a KV key, as it was sent. */
  key?: string | undefined
  /** The query, without its question mark. */
  query?: string | undefined
  ifMatch?: string | undefined
  ifNoneMatch?: string | undefined
  /** JSON in UTF-8. */
  body?: Uint8Array | undefined
  /** In place of the body, if a framework has parsed it: then large integers may have been rounded. */
  parsed?: { value: unknown } | undefined
  /** The SQL texts that a stream of Hrana keeps, by number. */
  texts?: [id: number, sql: string][] | undefined
}

/** The answer to a {@link CellRequest}. */
export class CellAnswer {
  readonly status: number
  /** The document, or nothing with the status 304. */
  readonly json: JsonText
  readonly etag: string | undefined
  readonly stream: StreamState | undefined

  constructor(status: number, json: JsonText, etag?: string, stream?: StreamState) {
    this.status = status
    this.json = json
    this.etag = etag
    this.stream = stream
  }
}

/** What a stream of Hrana is after a request. */
export interface StreamState {
  isClosed: boolean
  /** A transaction is open. */
  isOpen: boolean
  /** The SQL texts that it keeps. */
  texts: [id: number, sql: string][]
}

/** What bounds requests. */
export interface RequestBounds {
  /** The largest `timeout_ms`. */
  readonly statementMsMax: number
  /** Of each statement's result. Its bytes bound answers of several entries or results, too. */
  readonly result: ResultLimits
  /** Entries on a page if the request names no limit. */
  readonly pageDefault: number
  /** Of transactions that several operations share: by default 5 s, 1 s, 16 and 512. */
  readonly holds?: HoldLimits | undefined
}

/** What bounds transactions of several operations. */
export interface HoldLimits {
  /** Milliseconds from a BEGIN. */
  timeoutMs: number
  /** Milliseconds in which nothing comes for a transaction, once others wait for its cell. */
  idleMs: number
  /** Of one account, in one process. */
  perAccount: number
  /** Of all accounts in one process: each keeps its cell open, and may have a second connection. */
  total: number
}

export const DEFAULT_HOLD_LIMITS: HoldLimits = { timeoutMs: 5_000, idleMs: 1_000, perAccount: 16, total: 512 }

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

/** The names of those. */
export const READ_OPERATIONS: ReadonlySet<string> = new Set<ReadOperation['op']>([
  'kv.get',
  'kv.ttl',
  'kv.list',
  'kv.mget',
])

/**
 * Operations that take no longer than the data they touch, and tell little: those of several cells may wait for each other's
 * COMMIT, and several reads share a transaction.
 */
export const SMALL_OPERATIONS: ReadonlySet<string> = new Set<PlainOperation['op']>([
  'kv.put',
  'kv.delete',
  'kv.incr',
  'kv.expire',
  'kv.get',
  'kv.ttl',
])

/** All of them in one transaction, or none. An error has the failed operation's `index` in its details. */
export interface BatchOperation {
  op: 'batch'
  operations: BatchableOperation[]
}

/** Begins or ends the transaction that `hold` names. With `readOnly` it has the state of its beginning, and holds up nobody. */
export interface HoldOperation {
  op: 'hold'
  step: 'begin' | 'commit' | 'rollback'
}

/** JSON, as text or in UTF-8. */
export type JsonText = string | Uint8Array

/** What an operation results in. */
export type ResultOf<O extends CellOperation> = OperationResults[O['op']]

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
  hold: undefined
  request: CellAnswer
  /** One result for each operation, in order. */
  batch: OperationResults[BatchableOperation['op']][]
}

/** What an operation does, whether or not somebody has read it. */
export function routeOf(operation: CellOperation): CellRoute | HoldOperation['op'] {
  return operation.op === 'request' ? operation.route : operation.op
}
