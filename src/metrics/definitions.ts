import { LANES } from '../backup/archiver/job.ts'
import type { ShippingStatus } from '../backup/shipping/shipping-status.ts'
import type { ClusterPeers } from '../http/forwarding/cluster-peers.ts'
import type { MemoryUse } from '../http/quotas/memory-budgets.ts'
import {
  FORWARD_OUTCOMES,
  LATENCY_BUCKETS_MS,
  type RequestCounts,
} from '../http/routes/node/request-counts.ts'
import type { Census } from '../store/cells/cell-census.ts'
import type { BackupMetrics, StoreMetrics } from '../store/store-metrics.ts'

/** One value, and what it is of. */
export interface Sample {
  labels: Readonly<Record<string, string>>
  value: number
}

/** The values of a histogram: how many were in each bucket or a smaller one. */
export interface HistogramSample {
  labels: Readonly<Record<string, string>>
  buckets: readonly { le: string; value: number }[]
  count: number
  sum: number
}

/** A metric. Its row in docs/observability.md is compared with this one. */
export type MetricDefinition = {
  name: string
  /** What it counts or measures, in one sentence. */
  help: string
  /** No label names an account, a cell or a key: their number would have no bound. */
  labels: readonly string[]
} & (
  | { type: 'counter' | 'gauge'; read(node: NodeReadings): readonly Sample[] }
  | { type: 'histogram'; read(node: NodeReadings): readonly HistogramSample[] }
)

const one = (value: number): Sample[] => [{ labels: {}, value }]
const secondsSince = (now: number, at: number | null | undefined): Sample[] =>
  at == null ? [] : one(Math.max(0, now - at) / 1_000)

/** A metric of backups has no value without an object store. */
function ofBackups(read: (backups: BackupMetrics, now: number) => readonly Sample[]) {
  return ({ store: { backups }, now }: NodeReadings) => (backups === undefined ? [] : read(backups, now))
}

/** A metric of shipping has no value if nothing is shipped. */
function ofShipping(read: (shipping: ShippingStatus) => number) {
  return ofBackups(({ shipping }) => (shipping === undefined ? [] : one(read(shipping))))
}

/** A metric of requests for other nodes has no value without a cluster. */
function ofForwards(read: (forwards: { count: number; totalMs: number }) => number) {
  return ({ requests, cluster }: NodeReadings) =>
    cluster === undefined
      ? []
      : FORWARD_OUTCOMES.map((outcome) => ({ labels: { outcome }, value: read(requests.forwards(outcome)) }))
}

const NODE: readonly MetricDefinition[] = [
  {
    name: 'cellstore_info',
    type: 'gauge',
    help: 'Always 1; the label has the version.',
    labels: ['version'],
    read: ({ version }) => [{ labels: { version }, value: 1 }],
  },
  {
    name: 'cellstore_start_time_seconds',
    type: 'gauge',
    help: 'When the node opened the store, in seconds since the Unix epoch.',
    labels: [],
    read: ({ store }) => one(store.startedAt / 1_000),
  },
  {
    name: 'cellstore_ranges',
    type: 'gauge',
    help: 'Ranges of cells, of 4,096, that are assigned to this node; no value without other nodes.',
    labels: [],
    read: ({ cluster }) => (cluster === undefined ? [] : one(rangesOf(cluster))),
  },
  {
    name: 'cellstore_assignment_number',
    type: 'gauge',
    help: 'The number of the newest assignment that this node knows.',
    labels: [],
    read: ({ cluster }) => (cluster === undefined ? [] : one(cluster.assignment)),
  },
  {
    name: 'cellstore_serving',
    type: 'gauge',
    help: '1 if PostgreSQL or the object store vouches for this node, so that it may answer; otherwise 0.',
    labels: [],
    read: ({ cluster }) => (cluster === undefined ? [] : one(cluster.notReady() === undefined ? 1 : 0)),
  },
]

function rangesOf({ ownership: { assignment }, self }: ClusterPeers): number {
  const own = assignment?.ranges.filter(({ node }) => node === self.nodeId) ?? []
  return own.reduce((sum, { lo, hi }) => sum + hi - lo + 1, 0)
}

const REQUESTS: readonly MetricDefinition[] = [
  {
    name: 'cellstore_http_requests_total',
    type: 'counter',
    help: "Requests that were answered, by route; also those of the owner's commands.",
    labels: ['method', 'route', 'status'],
    read: ({ requests }) =>
      requests.routes().flatMap(({ method, route, byStatus }) =>
        byStatus.map(({ status, count }) => ({
          labels: { method, route, status: String(status) },
          value: count,
        })),
      ),
  },
  {
    name: 'cellstore_http_request_duration_seconds',
    type: 'histogram',
    help: 'Time from the headers of a request until its answer was ready.',
    labels: ['method', 'route'],
    read: ({ requests }) =>
      requests.routes().map(({ method, route, buckets, totalMs }) => {
        let count = 0
        const cumulative = buckets.map((inBucket, i) => {
          count += inBucket
          const end = LATENCY_BUCKETS_MS[i]
          return { le: end === undefined ? '+Inf' : String(end / 1_000), value: count }
        })
        return { labels: { method, route }, buckets: cumulative, count, sum: totalMs / 1_000 }
      }),
  },
  {
    name: 'cellstore_http_refusals_total',
    type: 'counter',
    help: 'Requests that were answered with an error, by its code.',
    labels: ['code'],
    read: ({ requests }) =>
      requests.refusals().map(({ code, count }) => ({ labels: { code }, value: count })),
  },
  {
    name: 'cellstore_forwarded_requests_total',
    type: 'counter',
    help: "Requests for other nodes' cells: `answered` there, `refused` with nothing done because a cell moves or its node can't be reached, or `lost` with the node.",
    labels: ['outcome'],
    read: ofForwards(({ count }) => count),
  },
  {
    name: 'cellstore_forwarded_seconds_total',
    type: 'counter',
    help: 'Time that these requests took, from here and back.',
    labels: ['outcome'],
    read: ofForwards(({ totalMs }) => totalMs / 1_000),
  },
  {
    name: 'cellstore_memory_bytes',
    type: 'gauge',
    help: 'Bytes of request bodies, and of answers that clients have not taken; small ones are not counted.',
    labels: ['budget'],
    read: ({ memory }) => [
      { labels: { budget: 'bodies' }, value: memory.bodies.used },
      { labels: { budget: 'unsent' }, value: memory.unsent.used },
    ],
  },
  {
    name: 'cellstore_memory_limit_bytes',
    type: 'gauge',
    help: 'The most bytes of each of these budgets.',
    labels: ['budget'],
    read: ({ memory }) => [
      { labels: { budget: 'bodies' }, value: memory.bodies.total },
      { labels: { budget: 'unsent' }, value: memory.unsent.total },
    ],
  },
]

const CELLS: readonly MetricDefinition[] = [
  {
    name: 'cellstore_statements_total',
    type: 'counter',
    help: 'SQL statements of callers; those that failed too.',
    labels: [],
    read: ({ store }) => one(store.statements),
  },
  {
    name: 'cellstore_commits_total',
    type: 'counter',
    help: 'Commits that changed a cell.',
    labels: [],
    read: ({ store }) => one(store.commits),
  },
  {
    name: 'cellstore_cells',
    type: 'gauge',
    help: 'Cells that exist.',
    labels: [],
    read: ({ store }) => one(store.cells),
  },
  {
    name: 'cellstore_cells_bytes',
    type: 'gauge',
    help: 'Bytes of the files of all cells; up to a minute old.',
    labels: [],
    read: ({ census }) => one(census.bytes),
  },
  {
    name: 'cellstore_cells_open',
    type: 'gauge',
    help: 'Cells whose files are open.',
    labels: [],
    read: ({ store }) => one(store.cellsOpen),
  },
  {
    name: 'cellstore_cells_quarantined',
    type: 'gauge',
    help: 'Cells that are kept closed after a disk error or damage, or whose files cannot be read; up to a minute old.',
    labels: [],
    read: ({ census }) => one(census.quarantinedCount),
  },
]

const WORKERS: readonly MetricDefinition[] = [
  {
    name: 'cellstore_workers',
    type: 'gauge',
    help: 'Worker processes that are alive, with the one in reserve; 0 without workers.',
    labels: [],
    read: ({ store }) => one(store.workers?.running ?? 0),
  },
  {
    name: 'cellstore_workers_ended_total',
    type: 'counter',
    help: 'Worker processes that were killed or exited, by reason.',
    labels: ['reason'],
    read: ({ store }) =>
      (store.workers?.ended ?? []).map(({ reason, count }) => ({ labels: { reason }, value: count })),
  },
  {
    name: 'cellstore_queue_operations',
    type: 'gauge',
    help: 'Operations that wait for a worker.',
    labels: [],
    read: ({ store }) => one(store.workers?.operationsWaiting ?? 0),
  },
  {
    name: 'cellstore_queue_bytes',
    type: 'gauge',
    help: 'Bytes of the operations that wait for a worker.',
    labels: [],
    read: ({ store }) => one(store.workers?.bytesWaiting ?? 0),
  },
]

const BACKUPS: readonly MetricDefinition[] = [
  {
    name: 'cellstore_backups_total',
    type: 'counter',
    help: 'Backups of cells that were stored, by kind.',
    labels: ['kind'],
    read: ofBackups(({ stored }) => [
      { labels: { kind: 'snapshot' }, value: stored.snapshot },
      { labels: { kind: 'incremental' }, value: stored.incremental },
    ]),
  },
  {
    name: 'cellstore_backup_failures_total',
    type: 'counter',
    help: 'Backups of cells that failed; the schedule tries again.',
    labels: [],
    read: ofBackups(({ failed }) => one(failed)),
  },
  {
    name: 'cellstore_restores_total',
    type: 'counter',
    help: 'Restores of cells: those that were asked for, and recoveries of lost local data.',
    labels: ['cause'],
    read: ofBackups(({ restored, recovered }) => [
      { labels: { cause: 'requested' }, value: restored },
      { labels: { cause: 'recovery' }, value: recovered },
    ]),
  },
  {
    name: 'cellstore_restore_failures_total',
    type: 'counter',
    help: 'Restores of cells that failed.',
    labels: [],
    read: ofBackups(({ restoresFailed }) => one(restoresFailed)),
  },
  {
    name: 'cellstore_cells_missing',
    type: 'gauge',
    help: 'Cells without local data since the start that are not restored yet; those that failed too.',
    labels: [],
    read: ofBackups(({ recovery }) => one(recovery === undefined ? 0 : recovery.cells - recovery.recovered)),
  },
  {
    name: 'cellstore_cells_unrecovered',
    type: 'gauge',
    help: 'Those of them that could not be restored in the background; each use of the cell tries again.',
    labels: [],
    read: ofBackups(({ recovery }) => one(recovery?.failed ?? 0)),
  },
  {
    name: 'cellstore_backup_lag_seconds',
    type: 'gauge',
    help: 'Age of the oldest change of a cell that no backup holds; 0 if there is none.',
    labels: [],
    read: ofBackups(({ oldestChangeAt }, now) =>
      oldestChangeAt === null ? one(0) : secondsSince(now, oldestChangeAt),
    ),
  },
  {
    name: 'cellstore_backup_lag_cells',
    type: 'gauge',
    help: 'Cells that have changed since their newest backup.',
    labels: [],
    read: ofBackups(({ changed }) => one(changed)),
  },
  {
    name: 'cellstore_backup_age_seconds',
    type: 'gauge',
    help: 'Time since the newest backup of any cell was stored; no value before the first one.',
    labels: [],
    read: ofBackups(({ newestStoredAt }, now) => secondsSince(now, newestStoredAt)),
  },
  {
    name: 'cellstore_backups_damaged',
    type: 'gauge',
    help: 'Cells, and the catalog, with a backup that proved damaged and no newer one that is proven.',
    labels: [],
    read: ofBackups(({ damaged }) => one(damaged)),
  },
  {
    name: 'cellstore_shipping_lag_seconds',
    type: 'gauge',
    help: 'Time since everything that cells with a history had committed was in the object store.',
    labels: [],
    read: ofShipping(({ lagMs }) => lagMs / 1_000),
  },
  {
    name: 'cellstore_shipping_waiting_bytes',
    type: 'gauge',
    help: 'Bytes of WALs that wait to be shipped, as of the last look at the cells.',
    labels: [],
    read: ofShipping(({ waitingBytes }) => waitingBytes),
  },
  {
    name: 'cellstore_shipping_cells_without_history',
    type: 'gauge',
    help: 'Changed cells that are shipped only from their next version on.',
    labels: [],
    read: ofShipping(({ withoutHistory }) => withoutHistory),
  },
  {
    name: 'cellstore_log_objects_total',
    type: 'counter',
    help: 'Log objects that were stored.',
    labels: [],
    read: ofShipping(({ objects }) => objects),
  },
  {
    name: 'cellstore_log_object_bytes_total',
    type: 'counter',
    help: 'Bytes of the log objects that were stored.',
    labels: [],
    read: ofShipping(({ bytes }) => bytes),
  },
  {
    name: 'cellstore_archiver_jobs',
    type: 'gauge',
    help: 'Backups, restores and verifications that wait for their turn or run.',
    labels: ['job', 'state'],
    read: ofBackups(({ queue }) =>
      LANES.flatMap((job) => [
        { labels: { job, state: 'waiting' }, value: queue[job].waiting },
        { labels: { job, state: 'running' }, value: queue[job].running },
      ]),
    ),
  },
  {
    name: 'cellstore_object_store_up',
    type: 'gauge',
    help: '1 while the object store answers, otherwise 0.',
    labels: [],
    read: ofBackups(({ objectStore }) => one(objectStore.lostAt === null ? 1 : 0)),
  },
  {
    name: 'cellstore_object_store_calls_total',
    type: 'counter',
    help: 'Calls to the object store that ended, by kind; its own retries are not counted.',
    labels: ['call'],
    read: ofBackups(({ objectStore }) =>
      objectStore.calls.map(({ call, calls }) => ({ labels: { call }, value: calls })),
    ),
  },
  {
    name: 'cellstore_object_store_failures_total',
    type: 'counter',
    help: 'Calls to the object store that failed, by kind and code.',
    labels: ['call', 'code'],
    read: ofBackups(({ objectStore }) =>
      objectStore.calls.flatMap(({ call, failures }) =>
        failures.map(({ code, count }) => ({ labels: { call, code }, value: count })),
      ),
    ),
  },
]

/** Every metric of a node, in the order of `/metrics`. */
export const METRIC_DEFINITIONS: readonly MetricDefinition[] = [
  ...NODE,
  ...REQUESTS,
  ...CELLS,
  ...WORKERS,
  ...BACKUPS,
]

/** What the metrics of a node are made of, at one instant. */
export interface NodeReadings {
  /** Epoch milliseconds. */
  now: number
  version: string
  store: StoreMetrics
  census: Census
  requests: RequestCounts
  memory: MemoryUse
  /** Undefined: there are no other nodes. */
  cluster?: ClusterPeers | undefined
}
