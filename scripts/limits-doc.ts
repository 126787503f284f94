/** Writes docs/limits.md from the code: `npm run limits`. A test fails while the two differ. */
import fs from 'node:fs'
import { pathToFileURL } from 'node:url'
import { DEFAULT_JOB_LIMITS } from '../src/backup/archiver/job-queue.ts'
import { DEFAULT_LIMITS, type Limits, type ResultLimits } from '../src/base/options/limits.ts'
import { DEFAULT_QUOTAS, type Quotas } from '../src/catalog/account-quotas.ts'
import { type LimitRow, type LimitUnit, spell, variableOf } from '../src/cli/serve/limits/limit-row.ts'
import { LIMITS } from '../src/cli/serve/limits/limits.ts'
import { DEFAULT_HTTP_LIMITS, type HttpLimits } from '../src/http/handler-options.ts'
import { STREAM_BOUNDS } from '../src/http/hrana/hrana-streams.ts'
import type { MemoryLimits } from '../src/http/quotas/memory-budgets.ts'
import { DEFAULT_STREAM_LIMITS, type StreamLimits } from '../src/http/quotas/stream-limits.ts'
import { type ConnectionLimits, DEFAULT_CONNECTION_LIMITS } from '../src/http/server/connection-limits.ts'
import { DEFAULT_HOLD_LIMITS, type HoldLimits } from '../src/service/operations.ts'
import {
  DEFAULT_CHECKPOINT_BYTES,
  DEFAULT_COMMIT_LOG_BYTES,
  DEFAULT_PAGE_CACHE_BYTES,
  DEFAULT_REMOTE_WAIT_MS,
} from '../src/store/settings/settings.ts'
import { DEFAULT_WATCH_SETTINGS, type WatchSettings } from '../src/store/watch/change-hub.ts'
import { DEFAULT_WORKER_LIMITS, type WorkerLimits } from '../src/workers/node/processes/worker-limits.ts'
import { DEFAULT_QUEUE_BOUNDS, type QueueBounds } from '../src/workers/node/queue/operation-queue.ts'

const FILE = new URL('../docs/limits.md', import.meta.url)

const INTRODUCTION = `# Limits

\`npm run limits\` makes this page from the code. The error of a limit names its setting, as in \`quotas.cellsMax\`, and has its value in
\`limit\`. If the limit is an account's, \`usage\` is what this account has, in the same unit. No error says what another account has:
an error of a limit that all accounts share has no \`usage\`, or the account's own.

In the library, limits are options: \`limits\`, \`quotas\` (where none has a default), \`backups\` and \`watch\` of a store, and there
\`store\` stands for the store's own options; \`rate\` of a handler, and its \`limits\` for \`http\`, \`result\`, \`memory\` and \`streams\`:
\`limits.result\`, for example. \`queue\`, \`workers\` and \`connections\` are only of \`cellstore serve\`. \`holds\` are transactions over [Hrana](hrana.md).
`

const SETTABLE = `## Limits with a flag

Each is a flag of \`cellstore serve\` and a variable; \`cellstore serve --help-limits\` lists them. Bytes are written as 65536, 64KiB, 2MiB
or 1GiB, durations as 40ms, 30s or 15m. A value out of its range ends the command with exit code 2 and a message that says the range.

| Setting | Flag and variable | Default | What it bounds | Over it |
|---|---|---|---|---|
`

const FIXED_ONES = `## Limits that are fixed

\`cellstore serve\` has no flag for these.

| Setting | Value | What it bounds | Over it |
|---|---|---|---|
`

interface FixedLimit {
  value: string
  about: string
  over: string
}

/** What an operator can't set of a group. A setting that has neither a flag nor a line here does not compile. */
type FixedOf<T, Settable = object> = Record<Exclude<keyof T, keyof Settable>, FixedLimit>

function fixed(unit: LimitUnit, value: number, about: string, over: string): FixedLimit {
  return { value: spell({ unit }, value), about, over }
}

const limits: FixedOf<Limits, typeof LIMITS.limits> = {
  keyBytesMax: fixed('bytes', DEFAULT_LIMITS.keyBytesMax, 'bytes of a key', '400 `invalid_key`'),
  ttlSecondsMax: fixed(
    'count',
    DEFAULT_LIMITS.ttlSecondsMax,
    'seconds of a time to live',
    '400 `invalid_ttl`',
  ),
  kvKeysMax: fixed(
    'count',
    DEFAULT_LIMITS.kvKeysMax,
    'keys or entries of one operation',
    '400 `invalid_request`',
  ),
  pageMax: fixed('count', DEFAULT_LIMITS.pageMax, 'entries on a page of a listing', '400 `invalid_request`'),
  sqlBytesMax: fixed('bytes', DEFAULT_LIMITS.sqlBytesMax, 'bytes of a statement', '413 `sql_too_long`'),
  paramsMax: fixed('count', DEFAULT_LIMITS.paramsMax, 'parameters of a statement', '400 `invalid_parameter`'),
  batchOperationsMax: fixed(
    'count',
    DEFAULT_LIMITS.batchOperationsMax,
    'operations of a batch',
    '400 `invalid_request`',
  ),
  schemaBytesMax: fixed(
    'bytes',
    DEFAULT_LIMITS.schemaBytesMax,
    "bytes of SQL text in a cell's schema",
    '507 `cell_full`',
  ),
}

const result: FixedOf<ResultLimits, typeof LIMITS.result> = {
  rowsMax: fixed('count', DEFAULT_HTTP_LIMITS.result.rowsMax, 'rows of an answer', '400 `result_too_large`'),
}

const http: FixedOf<Omit<HttpLimits, 'result' | 'memory' | 'streams'>, typeof LIMITS.http> = {
  exportBytesPerSecond: fixed(
    'bytes',
    DEFAULT_HTTP_LIMITS.exportBytesPerSecond,
    'slowest rate at which a client takes an export, in bytes a second; it has a minute more',
    'closed',
  ),
  bodyValuesMax: fixed(
    'count',
    DEFAULT_HTTP_LIMITS.bodyValuesMax,
    'values and names in a request body, except for SQL',
    '400 `invalid_request`',
  ),
  pageDefault: fixed(
    'count',
    DEFAULT_HTTP_LIMITS.pageDefault,
    'entries on a page if the request names no `limit`',
    'a next page',
  ),
}

const quotas: FixedOf<Quotas, typeof LIMITS.quotas> = {
  apiKeysMax: fixed(
    'count',
    DEFAULT_QUOTAS.apiKeysMax,
    'active API keys of an account, without a number of its own (`cellstore accounts quotas`); as many that were revoked or have expired are remembered',
    '403 `quota_exceeded`',
  ),
  idempotencyKeysMax: fixed(
    'count',
    DEFAULT_QUOTAS.idempotencyKeysMax,
    'keys of `Idempotency-Key` that are remembered for an account, for a day',
    'the oldest are forgotten',
  ),
  creationsPerSecond: fixed(
    'count',
    DEFAULT_QUOTAS.creationsPerSecond,
    'cells and API keys that an account creates a second; ten times as many at once after a pause',
    '429 `rate_limited`',
  ),
  nodeCreationsPerSecond: fixed(
    'count',
    DEFAULT_QUOTAS.nodeCreationsPerSecond,
    'the same for all accounts together; half of it is for accounts that created little',
    '503 `busy`',
  ),
  backupsAtOnce: fixed(
    'count',
    DEFAULT_QUOTAS.backupsAtOnce,
    'requested backups of an account under way; all accounts together: four times as many',
    '429 `rate_limited`, 503 `busy`',
  ),
  backupReadsAtOnce: fixed(
    'count',
    DEFAULT_QUOTAS.backupReadsAtOnce,
    'plans of restores and lists of backups of an account under way; all accounts together: four times as many',
    '429 `rate_limited`, 503 `busy`',
  ),
}

const memory: FixedOf<MemoryLimits, typeof LIMITS.memory> = {
  bodiesPerAccount: {
    value: 'a quarter of `--body-memory`, and at least `--body-bytes`',
    about: 'bytes of the request bodies of an account',
    over: '429 `rate_limited`',
  },
  unsentPerAccount: {
    value: 'a quarter of `--unsent-memory`, and at least `--result-bytes`',
    about: "bytes of answers that an account's clients have not taken",
    over: '429 `rate_limited`; the connection of an answer without room is closed',
  },
}

const streams: FixedOf<StreamLimits, typeof LIMITS.streams> = {
  total: {
    value: `${DEFAULT_STREAM_LIMITS.total}, or ten times \`--account-streams\` if that is more`,
    about: 'open streams of changes of all accounts',
    over: '503 `busy`',
  },
}

const watch: FixedOf<WatchSettings> = {
  cellBytesMax: fixed(
    'bytes',
    DEFAULT_WATCH_SETTINGS.cellBytesMax,
    'bytes that the newest commits of a watched cell take in memory',
    'the oldest are dropped: streams that have not had them are closed, and get a `reset` when they come back',
  ),
  totalBytesMax: fixed(
    'bytes',
    DEFAULT_WATCH_SETTINGS.totalBytesMax,
    'the same for all watched cells; accounts have equal parts',
    'the same',
  ),
  keepMs: fixed(
    'duration',
    DEFAULT_WATCH_SETTINGS.keepMs,
    'time after the last stream of a cell in which its commits are kept',
    'who comes back gets a `reset`',
  ),
}

const queue: FixedOf<QueueBounds> = {
  operationsMax: fixed(
    'count',
    DEFAULT_QUEUE_BOUNDS.operationsMax,
    'operations that wait for a worker',
    '503 `busy`',
  ),
  operationsPerCellMax: fixed(
    'count',
    DEFAULT_QUEUE_BOUNDS.operationsPerCellMax,
    'of these, for one cell',
    '503 `busy`',
  ),
  bytesMax: fixed(
    'bytes',
    DEFAULT_QUEUE_BOUNDS.bytesMax,
    'bytes of the operations that wait for a worker',
    '503 `busy`',
  ),
}

const holds: FixedOf<HoldLimits> = {
  timeoutMs: fixed(
    'duration',
    DEFAULT_HOLD_LIMITS.timeoutMs,
    'time of a transaction of several requests, from its BEGIN',
    'it is rolled back: 408 `transaction_timeout`',
  ),
  idleMs: fixed(
    'duration',
    DEFAULT_HOLD_LIMITS.idleMs,
    'time without a request of it, once somebody waits for its cell',
    'the same',
  ),
  perAccount: fixed(
    'count',
    DEFAULT_HOLD_LIMITS.perAccount,
    'of these, of an account in each worker',
    '503 `busy`',
  ),
  total: fixed(
    'count',
    DEFAULT_HOLD_LIMITS.total,
    'of these, of all accounts in each worker',
    'the oldest of the account that has most is rolled back: 409 `transaction_lost`',
  ),
}

const hrana: Record<keyof typeof STREAM_BOUNDS, FixedLimit> = {
  idleMs: fixed(
    'duration',
    STREAM_BOUNDS.idleMs,
    'time without a request of a stream of Hrana',
    'it is forgotten: 409 `stream_expired`',
  ),
  perAccount: fixed(
    'count',
    STREAM_BOUNDS.perAccount,
    'streams of an account',
    'the oldest without a transaction is forgotten',
  ),
  textsPerAccount: fixed(
    'count',
    STREAM_BOUNDS.textsPerAccount,
    'characters of SQL that the streams of an account keep',
    'its oldest streams with texts end',
  ),
  textsTotal: fixed(
    'count',
    STREAM_BOUNDS.textsTotal,
    'the same for all accounts',
    'the oldest streams with texts of the account that keeps most end',
  ),
}

const workers: FixedOf<WorkerLimits, typeof LIMITS.workers> = {
  blockMs: fixed(
    'duration',
    DEFAULT_WORKER_LIMITS.blockMs,
    'time that a statement may hold up other cells',
    'its account goes to the slow worker, and the statement runs again there',
  ),
  sliceMs: fixed(
    'duration',
    DEFAULT_WORKER_LIMITS.sliceMs,
    'time of a worker after which a batch starts no further operation',
    'the rest waits for its next turn',
  ),
  slowWorkerMs: fixed(
    'duration',
    DEFAULT_WORKER_LIMITS.slowWorkerMs,
    'time that an account runs in the slow worker after it has cost a worker',
    'its cells return to their home workers',
  ),
  silentMs: fixed(
    'duration',
    DEFAULT_WORKER_LIMITS.silentMs,
    'time without a word of a worker, during an fsync for example',
    'the worker is ended, and its operations run again',
  ),
  killsPerMinute: fixed(
    'count',
    DEFAULT_WORKER_LIMITS.killsPerMinute,
    'workers that the statements of an account may end a minute; those of a cell, a third of them',
    '429 `rate_limited`',
  ),
  killsBurst: fixed(
    'count',
    DEFAULT_WORKER_LIMITS.killsBurst,
    'of these, at once after a pause',
    '429 `rate_limited`',
  ),
}

const connections: FixedOf<ConnectionLimits, typeof LIMITS.connections> = {
  requestsMax: fixed(
    'count',
    DEFAULT_CONNECTION_LIMITS.requestsMax,
    'requests on a connection',
    'the last answer says `Connection: close`, and the connection is closed',
  ),
  headerBytesMax: fixed(
    'bytes',
    DEFAULT_CONNECTION_LIMITS.headerBytesMax,
    "bytes of a request's line and headers",
    '431 `headers_too_large`',
  ),
  headersMs: {
    value: `${spell({ unit: 'duration' }, DEFAULT_CONNECTION_LIMITS.headersMs)}, or \`--request-timeout\` if that is less`,
    about: "time for a request's headers to arrive",
    over: '408 `request_timeout`',
  },
  keepAliveMs: fixed(
    'duration',
    DEFAULT_CONNECTION_LIMITS.keepAliveMs,
    'time between two requests on a connection',
    'closed',
  ),
  stalledMs: fixed(
    'duration',
    DEFAULT_CONNECTION_LIMITS.stalledMs,
    'time in which a client takes nothing of its answer',
    'closed',
  ),
}

const store: Record<'pageCacheBytes' | 'checkpointBytes' | 'commitLogBytes', FixedLimit> = {
  pageCacheBytes: fixed(
    'bytes',
    DEFAULT_PAGE_CACHE_BYTES,
    'bytes of pages that an open cell keeps in memory',
    'pages are read again',
  ),
  checkpointBytes: fixed(
    'bytes',
    DEFAULT_CHECKPOINT_BYTES,
    "bytes of a cell's log",
    'the log is moved into the database file',
  ),
  commitLogBytes: fixed(
    'bytes',
    DEFAULT_COMMIT_LOG_BYTES,
    'bytes of a file of the commit log, of which each process with open cells has at most four',
    'the next file is used',
  ),
}

const backups: Record<'recoveryConcurrency' | 'deadlineMs' | 'remoteWaitMs', FixedLimit> = {
  recoveryConcurrency: {
    value: 'one less than `--restores-at-once`, at least 1',
    about: 'restores in the background of cells whose data is lost, of all restores at a time',
    over: 'the others wait',
  },
  deadlineMs: fixed(
    'duration',
    DEFAULT_JOB_LIMITS.runMs,
    'time that a backup, a restore or a verification may run',
    'it is cancelled and changes nothing: 503 `busy`',
  ),
  remoteWaitMs: fixed(
    'duration',
    DEFAULT_REMOTE_WAIT_MS,
    'with the durability `remote`, time that a change waits for the object store',
    '503 `not_replicated`: the change is on this machine, and is shipped later',
  ),
}

/** By group, as in {@link LIMITS}. */
export const FIXED: Record<string, Record<string, FixedLimit>> = {
  limits,
  result,
  http,
  quotas,
  memory,
  streams,
  watch,
  holds,
  hrana,
  queue,
  workers,
  connections,
  store,
  backups,
}

export function limitsDocument(): string {
  const settable = linesOf<LimitRow>(LIMITS, (setting, row) => [
    setting,
    `\`--${row.flag}\` \`${variableOf(row)}\``,
    `${row.default === undefined ? row.otherwise : spell(row, row.default)}${row.unit === 'mebibytes' ? ' MiB' : ''}`,
    row.about,
    row.over,
  ])
  const others = linesOf<FixedLimit>(FIXED, (setting, { value, about, over }) => [
    setting,
    value,
    about,
    over,
  ])
  return `${INTRODUCTION}\n${SETTABLE}${settable}\n${FIXED_ONES}${others}`
}

function linesOf<R>(
  groups: Record<string, Record<string, R>>,
  cellsOf: (setting: string, row: R) => string[],
): string {
  const lines = Object.entries(groups).flatMap(([group, rows]) =>
    Object.entries(rows).map(([setting, row]) => cellsOf(`\`${group}.${setting}\``, row)),
  )
  return lines.map((cells) => `| ${cells.join(' | ')} |\n`).join('')
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) fs.writeFileSync(FILE, limitsDocument())
