import { DEFAULT_LIMITS, type Limits, type ResultLimits } from '../../../base/limits.ts'
import { DEFAULT_QUOTAS, type Quotas } from '../../../catalog/account-quotas.ts'
import { type ConnectionLimits, DEFAULT_CONNECTION_LIMITS } from '../../../http/connection-limits.ts'
import {
  DEFAULT_HTTP_LIMITS,
  type HttpLimits,
  REQUEST_DEADLINE_MS_DEFAULT,
} from '../../../http/handler-options.ts'
import { DEFAULT_MEMORY_LIMITS, type MemoryLimits } from '../../../http/memory-budgets.ts'
import type { RateLimit } from '../../../http/rate-limiter.ts'
import {
  type BackupSettings,
  DEFAULT_BACKUP_CONCURRENCY,
  DEFAULT_CHECKPOINT_BYTES,
  DEFAULT_PAGE_CACHE_BYTES,
  type StoreOptions,
} from '../../../store/settings.ts'
import { DEFAULT_WORKER_LIMITS, type WorkerLimits } from '../../../workers/node/kill-reason.ts'
import { DEFAULT_QUEUE_BOUNDS, type QueueBounds } from '../../../workers/node/operation-queue.ts'
import { type LimitRow, memberOf } from './limit-row.ts'

const MIB = 1_048_576
const HOUR_MS = 3_600_000
/** Nobody means more than this many a second. */
const RATE_MAX = 1_000_000
const CONNECTIONS_MAX = 1_000_000
/** The most parameters that this build of SQLite can bind. */
const PARAMS_MAX = 32_766

/** A row for each member of the settings: one without its flag does not compile. */
type Rows<T> = Record<keyof T, LimitRow>

const cell: Rows<Limits> = {
  keyBytesMax: {
    flag: 'key-bytes',
    unit: 'bytes',
    default: DEFAULT_LIMITS.keyBytesMax,
    about: 'bytes of a key',
    over: '400 `invalid_key`',
  },
  valueBytesMax: {
    flag: 'value-bytes',
    unit: 'bytes',
    default: DEFAULT_LIMITS.valueBytesMax,
    about: 'bytes of a value',
    over: '413 `value_too_large`',
  },
  ttlSecondsMax: {
    flag: 'ttl',
    unit: 'seconds',
    default: DEFAULT_LIMITS.ttlSecondsMax,
    about: 'seconds of a time to live',
    over: '400 `invalid_ttl`',
  },
  kvKeysMax: {
    flag: 'kv-keys',
    unit: 'count',
    default: DEFAULT_LIMITS.kvKeysMax,
    about: 'keys or entries of one operation',
    over: '400 `invalid_request`',
  },
  pageMax: {
    flag: 'page',
    unit: 'count',
    default: DEFAULT_LIMITS.pageMax,
    about: 'entries on a page of a listing',
    over: '400 `invalid_request`',
  },
  sqlBytesMax: {
    flag: 'sql-bytes',
    unit: 'bytes',
    default: DEFAULT_LIMITS.sqlBytesMax,
    about: 'bytes of a statement',
    over: '413 `sql_too_long`',
  },
  paramsMax: {
    flag: 'params',
    unit: 'count',
    default: DEFAULT_LIMITS.paramsMax,
    about: 'parameters of a statement',
    over: '400 `invalid_parameter`',
    max: PARAMS_MAX,
  },
  batchOperationsMax: {
    flag: 'batch-operations',
    unit: 'count',
    default: DEFAULT_LIMITS.batchOperationsMax,
    about: 'operations of a batch',
    over: '400 `invalid_request`',
  },
  cellBytesMax: {
    flag: 'cell-bytes',
    unit: 'bytes',
    default: DEFAULT_LIMITS.cellBytesMax,
    about: "bytes of a cell's database file",
    over: '507 `cell_full`; deletions may take a sixteenth more',
    min: 65_536,
  },
  schemaBytesMax: {
    flag: 'schema-bytes',
    unit: 'bytes',
    default: DEFAULT_LIMITS.schemaBytesMax,
    about: "bytes of SQL text in a cell's schema",
    over: '507 `cell_full`',
  },
  walBytesMax: {
    flag: 'wal-bytes',
    unit: 'bytes',
    default: DEFAULT_LIMITS.walBytesMax,
    about: "bytes of a cell's log while a snapshot or another program holds it",
    over: 'the snapshot starts again; 503 `busy` while another program reads',
  },
}

const result: Rows<ResultLimits> = {
  rowsMax: {
    flag: 'result-rows',
    unit: 'count',
    default: DEFAULT_HTTP_LIMITS.result.rowsMax,
    about: 'rows of an answer',
    over: '400 `result_too_large`',
  },
  bytesMax: {
    flag: 'result-bytes',
    unit: 'bytes',
    default: DEFAULT_HTTP_LIMITS.result.bytesMax,
    about: 'bytes of the values of an answer',
    over: '400 `result_too_large`; a page with values ends early',
  },
}

const http: Rows<Omit<HttpLimits, 'result' | 'memory'> & { requestDeadlineMs: number }> = {
  bodyBytesMax: {
    flag: 'body-bytes',
    unit: 'bytes',
    default: DEFAULT_HTTP_LIMITS.bodyBytesMax,
    about: 'bytes of a request body',
    over: '413 `body_too_large`',
  },
  statementMsMax: {
    flag: 'statement-timeout',
    unit: 'duration',
    default: DEFAULT_HTTP_LIMITS.statementMsMax,
    about: 'time of a statement, and the largest `timeout_ms`',
    over: '408 `statement_timeout`',
    max: 24 * HOUR_MS,
  },
  pageDefault: {
    flag: 'page-default',
    unit: 'count',
    default: DEFAULT_HTTP_LIMITS.pageDefault,
    about: 'entries on a page if the request names no `limit`',
    over: 'a next page',
  },
  requestDeadlineMs: {
    flag: 'wait',
    unit: 'duration',
    default: REQUEST_DEADLINE_MS_DEFAULT,
    about: "time that a request waits for its turn, or for its cell's restore",
    over: '503 `busy`, 503 `cell_restoring`',
    max: HOUR_MS,
  },
}

const quotas: Rows<Quotas> = {
  cellsMax: {
    flag: 'account-cells',
    unit: 'count',
    default: DEFAULT_QUOTAS.cellsMax,
    about: 'cells of an account; records of as many deleted ones are kept',
    over: '403 `quota_exceeded`',
  },
  apiKeysMax: {
    flag: 'account-keys',
    unit: 'count',
    default: DEFAULT_QUOTAS.apiKeysMax,
    about: 'active API keys of an account; as many revoked ones are remembered',
    over: '403 `quota_exceeded`',
  },
  bytesMax: {
    flag: 'account-bytes',
    unit: 'bytes',
    default: undefined,
    otherwise: 'no limit',
    about: "bytes of the database files of an account's cells",
    over: '403 `quota_exceeded` for what would make a file grow, and for new cells',
  },
  backupsMax: {
    flag: 'account-backups-kept',
    unit: 'count',
    default: DEFAULT_QUOTAS.backupsMax,
    about: 'backups that an account has requested and that are kept',
    over: '403 `quota_exceeded`',
  },
  creationsPerSecond: {
    flag: 'account-creations',
    unit: 'count',
    default: DEFAULT_QUOTAS.creationsPerSecond,
    about: 'cells and API keys that an account creates a second; ten times as many at once after a pause',
    over: '429 `rate_limited`',
    max: RATE_MAX,
  },
  nodeCreationsPerSecond: {
    flag: 'node-creations',
    unit: 'count',
    default: DEFAULT_QUOTAS.nodeCreationsPerSecond,
    about: 'the same for all accounts together; half of it is for accounts that created little',
    over: '503 `busy`',
    max: RATE_MAX,
  },
  backupsAtOnce: {
    flag: 'account-backups',
    unit: 'count',
    default: DEFAULT_QUOTAS.backupsAtOnce,
    about: 'requested backups of an account under way; all accounts together: four times as many',
    over: '429 `rate_limited`, 503 `busy`',
    max: RATE_MAX,
  },
  backupMibPerSecond: {
    flag: 'account-backup-rate',
    unit: 'count',
    default: DEFAULT_QUOTAS.backupMibPerSecond,
    about: "MiB a second of an account's requested backups; those of a minute at once after a pause",
    over: '429 `rate_limited`',
    max: RATE_MAX,
  },
}

const rate: Rows<RateLimit> = {
  perSecond: {
    flag: 'rate',
    unit: 'count',
    default: undefined,
    otherwise: 'no limit',
    about: 'requests of an account a second',
    over: '429 `rate_limited`',
    max: RATE_MAX,
  },
  burst: {
    flag: 'rate-burst',
    unit: 'count',
    default: undefined,
    otherwise: 'those of a second',
    about: 'requests of an account at once after a pause; only with `--rate`',
    over: '429 `rate_limited`',
    max: RATE_MAX,
  },
}

const memory: Rows<MemoryLimits> = {
  bodiesTotal: {
    flag: 'body-memory',
    unit: 'bytes',
    default: DEFAULT_MEMORY_LIMITS.bodiesTotal,
    about: 'bytes of all request bodies, until they are answered',
    over: '503 `busy`',
  },
  bodiesPerAccount: {
    flag: 'account-body-memory',
    unit: 'bytes',
    default: DEFAULT_MEMORY_LIMITS.bodiesPerAccount,
    about: 'of these, of one account',
    over: '429 `rate_limited`',
  },
  unsentTotal: {
    flag: 'unsent-memory',
    unit: 'bytes',
    default: DEFAULT_MEMORY_LIMITS.unsentTotal,
    about: 'bytes of all answers that clients have not taken',
    over: '503 `busy`; the connection of an answer without room is closed',
  },
  unsentPerAccount: {
    flag: 'account-unsent-memory',
    unit: 'bytes',
    default: DEFAULT_MEMORY_LIMITS.unsentPerAccount,
    about: 'of these, of one account',
    over: '429 `rate_limited`; the connection of an answer without room is closed',
  },
}

const queue: Rows<QueueBounds> = {
  operationsMax: {
    flag: 'queue-operations',
    unit: 'count',
    default: DEFAULT_QUEUE_BOUNDS.operationsMax,
    about: 'operations that wait for a worker',
    over: '503 `busy`',
  },
  operationsPerCellMax: {
    flag: 'queue-cell-operations',
    unit: 'count',
    default: DEFAULT_QUEUE_BOUNDS.operationsPerCellMax,
    about: 'of these, for one cell',
    over: '503 `busy`',
  },
  bytesMax: {
    flag: 'queue-bytes',
    unit: 'bytes',
    default: DEFAULT_QUEUE_BOUNDS.bytesMax,
    about: 'bytes of the operations that wait for a worker',
    over: '503 `busy`',
  },
}

const workers: Rows<WorkerLimits> = {
  memoryMax: {
    flag: 'worker-memory',
    unit: 'mebibytes',
    default: DEFAULT_WORKER_LIMITS.memoryMax,
    about: 'memory of a worker',
    over: '400 `result_memory_exceeded`',
    min: 256 * MIB,
    max: 1_048_576 * MIB,
  },
  holdMs: {
    flag: 'hold',
    unit: 'duration',
    default: DEFAULT_WORKER_LIMITS.holdMs,
    about: 'time that a statement may hold up other cells',
    over: 'the cell gets a worker of its own, and its statement runs again there',
    max: HOUR_MS,
  },
  isolationMs: {
    flag: 'isolation',
    unit: 'duration',
    default: DEFAULT_WORKER_LIMITS.isolationMs,
    about: 'time that the cell keeps it, after its last such statement',
    over: 'the cell returns to the others',
    max: HOUR_MS,
  },
  isolatedPerAccount: {
    flag: 'account-isolated',
    unit: 'count',
    default: undefined,
    otherwise: 'all but one of those that can',
    about: 'cells of an account that run in such workers at a time',
    over: 'they wait',
  },
  silentMs: {
    flag: 'silent',
    unit: 'duration',
    default: DEFAULT_WORKER_LIMITS.silentMs,
    about: 'time without a word of a worker, during an fsync for example',
    over: 'the worker is ended, and its operations run again',
    max: HOUR_MS,
  },
  killsPerMinute: {
    flag: 'account-kills',
    unit: 'count',
    default: DEFAULT_WORKER_LIMITS.killsPerMinute,
    about: 'workers that the statements of an account may end a minute',
    over: '429 `rate_limited`',
    max: RATE_MAX,
  },
  killsBurst: {
    flag: 'account-kills-burst',
    unit: 'count',
    default: DEFAULT_WORKER_LIMITS.killsBurst,
    about: 'of these, at once after a pause',
    over: '429 `rate_limited`',
    max: RATE_MAX,
  },
}

const connections: Rows<ConnectionLimits> = {
  connectionsMax: {
    flag: 'connections',
    unit: 'count',
    default: undefined,
    otherwise: 'as many as the descriptor limit allows, at most 10,000',
    about: 'open connections',
    over: '503 `busy` for up to a tenth more; beyond that they are closed',
    max: CONNECTIONS_MAX,
  },
  connectionsPerAddressMax: {
    flag: 'connections-per-address',
    unit: 'count',
    default: undefined,
    otherwise: 'half of all, and any number from this machine',
    about: 'of these, from one address (IPv6: from its first 64 bits)',
    over: '503 `busy` for up to a tenth more; beyond that they are closed',
    max: CONNECTIONS_MAX,
  },
  requestsMax: {
    flag: 'connection-requests',
    unit: 'count',
    default: DEFAULT_CONNECTION_LIMITS.requestsMax,
    about: 'requests on a connection',
    over: 'the last answer says `Connection: close`',
  },
  headerBytesMax: {
    flag: 'header-bytes',
    unit: 'bytes',
    default: DEFAULT_CONNECTION_LIMITS.headerBytesMax,
    about: "bytes of a request's line and headers",
    over: '431 `headers_too_large`',
    min: 4_096,
    max: MIB,
  },
  headersMs: {
    flag: 'headers-timeout',
    unit: 'duration',
    default: DEFAULT_CONNECTION_LIMITS.headersMs,
    about: "time for a request's headers to arrive",
    over: '408 `request_timeout`',
    max: HOUR_MS,
  },
  requestMs: {
    flag: 'request-timeout',
    unit: 'duration',
    default: DEFAULT_CONNECTION_LIMITS.requestMs,
    about: 'time for a whole request to arrive',
    over: '408 `request_timeout`',
    max: HOUR_MS,
  },
  keepAliveMs: {
    flag: 'keep-alive',
    unit: 'duration',
    default: DEFAULT_CONNECTION_LIMITS.keepAliveMs,
    about: 'time between two requests on a connection',
    over: 'closed',
    max: HOUR_MS,
  },
  stalledMs: {
    flag: 'stalled-timeout',
    unit: 'duration',
    default: DEFAULT_CONNECTION_LIMITS.stalledMs,
    about: 'time in which a client takes nothing of its answer',
    over: 'closed',
    max: HOUR_MS,
  },
}

const store: Rows<Pick<StoreOptions, 'openCellsMax' | 'pageCacheBytes' | 'checkpointBytes'>> = {
  openCellsMax: {
    flag: 'open-cells',
    unit: 'count',
    default: undefined,
    otherwise: 'as many as the descriptor limit allows, at most 1,000',
    about: 'open cells of each process',
    over: 'the one that was used longest ago is closed',
    max: 1_000_000,
  },
  pageCacheBytes: {
    flag: 'page-cache',
    unit: 'bytes',
    default: DEFAULT_PAGE_CACHE_BYTES,
    about: 'bytes of pages that an open cell keeps in memory',
    over: 'pages are read again',
    max: 1_024 * MIB,
  },
  checkpointBytes: {
    flag: 'checkpoint-bytes',
    unit: 'bytes',
    default: DEFAULT_CHECKPOINT_BYTES,
    about: "bytes of a cell's log",
    over: 'the log is moved into the database file',
    max: 1_024 * MIB,
  },
}

const backups: Rows<Pick<BackupSettings, 'concurrency'>> = {
  concurrency: {
    flag: 'scheduled-backups',
    unit: 'count',
    default: DEFAULT_BACKUP_CONCURRENCY,
    about: 'scheduled backups at a time',
    over: 'the others wait',
    max: 1_000,
  },
}

export interface LimitGroup {
  title: string
  /** Where the library has these settings, for docs/limits.md. */
  place: string
  rows: Readonly<Record<string, LimitRow>>
}

function group<T>(title: string, place: string, rows: Rows<T>) {
  return { title, place, rows } satisfies LimitGroup
}

/** Every limit of a node. Flags, variables and docs/limits.md are made from this alone. */
export const LIMITS = {
  limits: group<Limits>('A cell and its operations', '`limits` of a store', cell),
  result: group<ResultLimits>('An answer', '`limits.result` of a handler', result),
  http: group('A request', '`limits` of a handler', http),
  quotas: group<Quotas>('An account', '`quotas` of a store, where none has a default', quotas),
  rate: group<RateLimit>('Requests of an account', '`rate` of a handler', rate),
  memory: group<MemoryLimits>('Memory for requests', '`limits.memory` of a handler', memory),
  queue: group<QueueBounds>('Operations that wait for a worker; each worker has a queue', '', queue),
  workers: group<WorkerLimits>('Workers', '', workers),
  connections: group<ConnectionLimits>('Connections', '', connections),
  store: group('Open cells', 'the options of a store', store),
  backups: group('Scheduled backups', '`backups` of a store', backups),
}

type Groups = typeof LIMITS
/** The values of all flags, by group and setting. A setting without a value is missing. */
export type NodeLimits = { [G in keyof Groups]: { [S in keyof Groups[G]['rows']]?: number } }

export const LIMIT_ROWS: readonly LimitRow[] = Object.values(LIMITS).flatMap(({ rows }) =>
  Object.values<LimitRow>(rows),
)

/** What commander made of the flags and variables. */
export function limitsFrom(flags: Readonly<Record<string, unknown>>): NodeLimits {
  const valuesOf = (rows: Readonly<Record<string, LimitRow>>) =>
    Object.fromEntries(
      Object.entries(rows)
        .map(([setting, row]) => [setting, flags[memberOf(row)]])
        .filter(([, value]) => value !== undefined),
    )
  return Object.fromEntries(
    Object.entries(LIMITS).map(([name, { rows }]) => [name, valuesOf(rows)]),
  ) as NodeLimits
}
