import type { Limits, ResultLimits } from '../../../base/options/limits.ts'
import { DEFAULT_LIMITS } from '../../../base/options/limits.ts'
import { DEFAULT_QUOTAS, type Quotas } from '../../../catalog/account-quotas.ts'
import {
  DEFAULT_HTTP_LIMITS,
  type HttpLimits,
  REQUEST_DEADLINE_MS_DEFAULT,
} from '../../../http/handler-options.ts'
import { DEFAULT_MEMORY_LIMITS, type MemoryLimits } from '../../../http/quotas/memory-budgets.ts'
import type { RateLimit } from '../../../http/quotas/rate-limiter.ts'
import { DEFAULT_STREAM_LIMITS, type StreamLimits } from '../../../http/quotas/stream-limits.ts'
import { type ConnectionLimits, DEFAULT_CONNECTION_LIMITS } from '../../../http/server/connection-limits.ts'
import {
  DEFAULT_BACKUPS_AT_ONCE,
  DEFAULT_LOG_BYTES,
  DEFAULT_RESTORES_AT_ONCE,
} from '../../../store/settings/settings.ts'
import type { BackupSettings, StoreOptions } from '../../../store/settings/store-options.ts'
import { DEFAULT_WORKER_LIMITS, type WorkerLimits } from '../../../workers/node/processes/worker-limits.ts'
import { type LimitRow, memberOf } from './limit-row.ts'

/** Rows for the settings that an operator may set. The others keep the library's default; docs/limits.md lists them. */
type Rows<T> = { [S in keyof T]?: LimitRow }

const MIB = 1_048_576
const HOUR_MS = 3_600_000
/** Nobody means more than this many a second, connections or cells. */
const MANY = 1_000_000
const AT_ONCE_MAX = 64

const limits = {
  valueBytesMax: {
    flag: 'value-bytes',
    unit: 'bytes',
    default: DEFAULT_LIMITS.valueBytesMax,
    about: 'bytes of a value',
    over: '413 `value_too_large`',
  },
  cellBytesMax: {
    flag: 'cell-bytes',
    unit: 'bytes',
    default: DEFAULT_LIMITS.cellBytesMax,
    about: "bytes of a cell's database file",
    over: '507 `cell_full`; deletions may take a sixteenth more',
    min: 65_536,
  },
  walBytesMax: {
    flag: 'wal-bytes',
    unit: 'bytes',
    default: DEFAULT_LIMITS.walBytesMax,
    about:
      "bytes that a statement adds to a cell's log; and of the log while a snapshot or another program holds it",
    over: '400 `transaction_too_large`; the snapshot starts again; 503 `busy` while another program reads',
  },
} satisfies Rows<Limits>

const result = {
  bytesMax: {
    flag: 'result-bytes',
    unit: 'bytes',
    default: DEFAULT_HTTP_LIMITS.result.bytesMax,
    about: 'bytes of the values of an answer',
    over: '400 `result_too_large`; a page with values ends early',
  },
} satisfies Rows<ResultLimits>

const http = {
  bodyBytesMax: {
    flag: 'body-bytes',
    unit: 'bytes',
    default: DEFAULT_HTTP_LIMITS.bodyBytesMax,
    about: 'bytes of a request body',
    over: '413 `body_too_large`',
  },
  importBytesMax: {
    flag: 'import-bytes',
    unit: 'bytes',
    default: DEFAULT_HTTP_LIMITS.importBytesMax,
    about: 'bytes of an imported database',
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
  requestDeadlineMs: {
    flag: 'wait',
    unit: 'duration',
    default: REQUEST_DEADLINE_MS_DEFAULT,
    about: "time that a request waits for its turn, or for its cell's restore",
    over: '503 `busy`, 503 `cell_restoring`',
    max: HOUR_MS,
  },
} satisfies Rows<HttpLimits & { requestDeadlineMs: number }>

const quotas = {
  cellsMax: {
    flag: 'account-cells',
    unit: 'count',
    default: DEFAULT_QUOTAS.cellsMax,
    about: 'cells of an account; records of as many deleted ones are kept',
    over: '403 `quota_exceeded`',
  },
  bytesMax: {
    flag: 'account-bytes',
    unit: 'bytes',
    otherwise: 'no limit',
    about:
      "bytes of the database files of an account's cells, and of what long transactions have left in their logs",
    over: '403 `quota_exceeded` for what would make a file grow, and for new cells',
  },
  backupsMax: {
    flag: 'account-backups-kept',
    unit: 'count',
    default: DEFAULT_QUOTAS.backupsMax,
    about: 'backups that an account has requested and that are kept',
    over: '403 `quota_exceeded`',
  },
  backupMibPerSecond: {
    flag: 'account-backup-rate',
    unit: 'count',
    default: DEFAULT_QUOTAS.backupMibPerSecond,
    about:
      "MiB a second of an account's requested backups and restores, exports and imports, also of those that fail; those of a minute at once after a pause",
    over: '429 `rate_limited`',
    max: MANY,
  },
} satisfies Rows<Quotas>

const rate = {
  perSecond: {
    flag: 'rate',
    unit: 'count',
    otherwise: 'no limit',
    about: 'requests of an account a second; as many at once after a pause',
    over: '429 `rate_limited`',
    max: MANY,
  },
} satisfies Rows<RateLimit>

const memory = {
  bodiesTotal: {
    flag: 'body-memory',
    unit: 'bytes',
    default: DEFAULT_MEMORY_LIMITS.bodiesTotal,
    about: 'bytes of all request bodies, until they are answered',
    over: '503 `busy`',
  },
  unsentTotal: {
    flag: 'unsent-memory',
    unit: 'bytes',
    default: DEFAULT_MEMORY_LIMITS.unsentTotal,
    about: 'bytes of all answers that clients have not taken',
    over: '503 `busy`; the connection of an answer without room is closed',
  },
} satisfies Rows<MemoryLimits>

const streams = {
  perAccount: {
    flag: 'account-streams',
    unit: 'count',
    default: DEFAULT_STREAM_LIMITS.perAccount,
    about: 'open streams of changes of an account',
    over: '429 `rate_limited`',
    max: MANY,
  },
} satisfies Rows<StreamLimits>

const workers = {
  memoryMax: {
    flag: 'worker-memory',
    unit: 'mebibytes',
    default: DEFAULT_WORKER_LIMITS.memoryMax,
    about: 'memory of a worker',
    over: '400 `result_memory_exceeded`',
    min: 256 * MIB,
    max: 1_048_576 * MIB,
  },
} satisfies Rows<WorkerLimits>

const connections = {
  connectionsMax: {
    flag: 'connections',
    unit: 'count',
    otherwise: 'as many as the descriptor limit allows, at most 10,000',
    about: 'open connections',
    over: '503 `busy` for up to a tenth more; beyond that they are closed',
    max: MANY,
  },
  requestMs: {
    flag: 'request-timeout',
    unit: 'duration',
    default: DEFAULT_CONNECTION_LIMITS.requestMs,
    about: 'time for a whole request to arrive',
    over: '408 `request_timeout`',
    max: HOUR_MS,
  },
} satisfies Rows<ConnectionLimits>

const store = {
  openCellsMax: {
    flag: 'open-cells',
    unit: 'count',
    otherwise: 'as many as the descriptor limit allows, at most 1,000',
    about: 'open cells of each process',
    over: 'the one that was used longest ago is closed',
    max: MANY,
  },
} satisfies Rows<StoreOptions>

const backups = {
  concurrency: {
    flag: 'backups-at-once',
    unit: 'count',
    default: DEFAULT_BACKUPS_AT_ONCE,
    about: 'backups that run at a time; of cells up to 4 MiB, four times as many',
    over: 'the others wait',
    max: AT_ONCE_MAX,
  },
  restoreConcurrency: {
    flag: 'restores-at-once',
    unit: 'count',
    default: DEFAULT_RESTORES_AT_ONCE,
    about: 'restores that run at a time',
    over: 'the others wait',
    max: AT_ONCE_MAX,
  },
  logBytesMax: {
    flag: 'log-bytes-max',
    unit: 'bytes',
    default: DEFAULT_LOG_BYTES,
    about: 'bytes of commits that wait while the object store does not answer, or is slow',
    over: 'of the account with the most of them, the largest cells get new versions once it answers, and no moment in between can be restored',
  },
} satisfies Rows<BackupSettings>

/** The limits that an operator may set. Their flags, variables and rows in docs/limits.md are made from this alone. */
export const LIMITS = {
  limits,
  result,
  http,
  quotas,
  rate,
  memory,
  streams,
  workers,
  connections,
  store,
  backups,
}

type Groups = typeof LIMITS
/** The values of all flags, by group and setting. A setting without a value is missing. */
export type NodeLimits = { [G in keyof Groups]: { [S in keyof Groups[G]]?: number } }

export const LIMIT_ROWS: readonly LimitRow[] = Object.values(LIMITS).flatMap((rows) =>
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
    Object.entries(LIMITS).map(([name, rows]) => [name, valuesOf(rows)]),
  ) as NodeLimits
}
