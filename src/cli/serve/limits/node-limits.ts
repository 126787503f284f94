import { DEFAULT_JOB_LIMITS } from '../../../backup/archiver/job-queue.ts'
import { type ConnectionLimits, DEFAULT_CONNECTION_LIMITS } from '../../../http/connection-limits.ts'
import {
  DEFAULT_BACKUPS_AT_ONCE,
  DEFAULT_CHECKPOINT_BYTES,
  DEFAULT_COMMIT_LOG_BYTES,
  DEFAULT_LOG_BYTES,
  DEFAULT_PAGE_CACHE_BYTES,
  DEFAULT_REMOTE_WAIT_MS,
  DEFAULT_RESTORES_AT_ONCE,
} from '../../../store/settings.ts'
import type { BackupSettings, StoreOptions } from '../../../store/store-options.ts'
import { DEFAULT_WATCH_SETTINGS, type WatchSettings } from '../../../store/watch/watch-settings.ts'
import { DEFAULT_QUEUE_BOUNDS, type QueueBounds } from '../../../workers/node/operation-queue.ts'
import { DEFAULT_WORKER_LIMITS, type WorkerLimits } from '../../../workers/node/worker-limits.ts'
import { HOUR_MS, MIB, RATE_MAX, type Rows } from './limit-row.ts'

const CONNECTIONS_MAX = 1_000_000
const AT_ONCE_MAX = 64

export const queue: Rows<QueueBounds> = {
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

export const workers: Rows<WorkerLimits> = {
  memoryMax: {
    flag: 'worker-memory',
    unit: 'mebibytes',
    default: DEFAULT_WORKER_LIMITS.memoryMax,
    about: 'memory of a worker',
    over: '400 `result_memory_exceeded`',
    min: 256 * MIB,
    max: 1_048_576 * MIB,
  },
  openCellsMemoryMax: {
    flag: 'open-cells-memory',
    unit: 'mebibytes',
    default: undefined,
    otherwise: 'half of `--worker-memory` less 80',
    about:
      'memory of a worker above which it counts what its open cells may take: no more than that, and at most three quarters of `--worker-memory`',
    over: 'an account that has more than its part has cells closed',
    min: MIB,
    max: 1_048_576 * MIB,
  },
  holdMs: {
    flag: 'hold',
    unit: 'duration',
    default: DEFAULT_WORKER_LIMITS.holdMs,
    about: 'time that a statement may hold up other cells',
    over: 'its account goes to the slow worker, and the statement runs again there',
    max: HOUR_MS,
  },
  sliceMs: {
    flag: 'slice',
    unit: 'duration',
    default: DEFAULT_WORKER_LIMITS.sliceMs,
    about: 'time of a worker after which a batch starts no further operation',
    over: 'the rest waits for its next turn',
    max: HOUR_MS,
  },
  slowWorkerMs: {
    flag: 'slow-worker',
    unit: 'duration',
    default: DEFAULT_WORKER_LIMITS.slowWorkerMs,
    about: 'time that an account runs in the slow worker after it has cost a worker',
    over: 'its cells return to their home workers',
    max: HOUR_MS,
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
    about: 'workers that the statements of an account may end a minute; those of a cell, a third of them',
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

export const connections: Rows<ConnectionLimits> = {
  connectionsMax: {
    flag: 'connections',
    unit: 'count',
    default: undefined,
    otherwise: 'as many as the descriptor limit allows, at most 10,000',
    about: 'open connections',
    over: '503 `busy` for up to a tenth more; beyond that they are closed',
    max: CONNECTIONS_MAX,
  },
  requestsMax: {
    flag: 'connection-requests',
    unit: 'count',
    default: DEFAULT_CONNECTION_LIMITS.requestsMax,
    about: 'requests on a connection',
    over: 'the last answer says `Connection: close`, and the connection is closed',
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

export const store: Rows<
  Pick<StoreOptions, 'openCellsMax' | 'pageCacheBytes' | 'checkpointBytes' | 'commitLogBytes'>
> = {
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
  commitLogBytes: {
    flag: 'commit-log-bytes',
    unit: 'bytes',
    default: DEFAULT_COMMIT_LOG_BYTES,
    about: 'bytes of a file of the commit log, of which each process with open cells has at most four',
    over: 'the next file is used',
    max: 1_024 * MIB,
  },
}

export const watch: Rows<WatchSettings> = {
  cellBytesMax: {
    flag: 'watch-cell-bytes',
    unit: 'bytes',
    default: DEFAULT_WATCH_SETTINGS.cellBytesMax,
    about: 'bytes that the newest commits of a watched cell take in memory',
    over: 'the oldest are dropped: streams that have not had them are closed, and get a `reset` when they come back',
  },
  totalBytesMax: {
    flag: 'watch-bytes',
    unit: 'bytes',
    default: DEFAULT_WATCH_SETTINGS.totalBytesMax,
    about: 'the same for all watched cells; accounts have equal parts',
    over: 'the same',
  },
  keepMs: {
    flag: 'watch-keep',
    unit: 'duration',
    default: DEFAULT_WATCH_SETTINGS.keepMs,
    about: 'time after the last stream of a cell in which its commits are kept',
    over: 'who comes back gets a `reset`',
    max: HOUR_MS,
  },
}

export const backups: Rows<
  Pick<
    BackupSettings,
    | 'concurrency'
    | 'restoreConcurrency'
    | 'recoveryConcurrency'
    | 'deadlineMs'
    | 'remoteWaitMs'
    | 'logBytesMax'
  >
> = {
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
  recoveryConcurrency: {
    flag: 'recoveries-at-once',
    unit: 'count',
    default: undefined,
    otherwise: 'one less than `--restores-at-once`',
    about: 'restores in the background of cells whose data is lost, of all restores at a time',
    over: 'the others wait',
    max: AT_ONCE_MAX,
  },
  deadlineMs: {
    flag: 'backup-timeout',
    unit: 'duration',
    default: DEFAULT_JOB_LIMITS.runMs,
    about: 'time that a backup, a restore or a verification may run',
    over: 'it is cancelled and changes nothing: 503 `busy`',
    max: 30 * 24 * HOUR_MS,
  },
  remoteWaitMs: {
    flag: 'remote-wait',
    unit: 'duration',
    default: DEFAULT_REMOTE_WAIT_MS,
    about: 'with the durability `remote`, time that a change waits for the object store',
    over: '503 `not_replicated`: the change is on this machine, and is shipped later',
    max: HOUR_MS,
  },
  logBytesMax: {
    flag: 'log-bytes-max',
    unit: 'bytes',
    default: DEFAULT_LOG_BYTES,
    about: 'bytes of commits that wait while the object store does not answer, or is slow',
    over: 'of the account with the most of them, the largest cells get new versions once it answers, and no moment in between can be restored',
  },
}
