import packageJson from '../../../../package.json' with { type: 'json' }
import type { ShippingStatus } from '../../../backup/shipping/shipping-status.ts'
import type { Failure } from '../../../base/recent-failures.ts'
import { durationOf, timeOf } from '../../../service/json/time.ts'
import type { Census } from '../../../store/cells/cell-census.ts'
import type { StoreCore } from '../../../store/store-core.ts'
import type { StoreMetrics, WorkerMetrics } from '../../../store/store-metrics.ts'
import type { StatusDocument } from '../../answers/status-answers.ts'
import type { RequestCounts, RouteRequests, SlowStatement } from './request-counts.ts'

/** Of the largest and of the busiest cells. */
const CELLS_SHOWN = 5
/** Those that took the most time in all. */
const ROUTES_SHOWN = 10
/** Of the cells that could not be restored; each has its line in the log. */
const FAILURES_SHOWN = 20

export function encodeStatus(
  core: StoreCore,
  metrics: StoreMetrics,
  census: Census,
  counts: RequestCounts,
): StatusDocument {
  const { clock, observed } = core
  const now = clock.now()
  return {
    version: packageJson.version,
    pid: process.pid,
    store_id: core.id,
    data_dir: core.paths.root,
    started_at: timeOf(metrics.startedAt),
    uptime_ms: now - metrics.startedAt,
    statements: metrics.statements,
    commits: metrics.commits,
    requests: encodeRequests(counts.routes()),
    slow_statements: counts.slowStatements.map(encodeSlow),
    cells: encodeCells(core, metrics, census),
    backups: encodeBackups(metrics, now),
    recovery: encodeRecovery(core, metrics),
    workers: encodeWorkers(metrics.workers),
    failures: observed.failures.list().map(encodeFailure),
  }
}

function encodeRequests(all: readonly RouteRequests[]): StatusDocument['requests'] {
  const sum = (byStatus: RouteRequests['byStatus'], from = 0) =>
    byStatus.reduce((total, { status, count }) => (status >= from ? total + count : total), 0)
  const routes = all.map(({ method, route, byStatus, totalMs }) => {
    const count = sum(byStatus)
    return { method, route, count, failed: sum(byStatus, 500), totalMs, mean_ms: durationOf(totalMs / count) }
  })
  const longest = routes.sort((a, b) => b.totalMs - a.totalMs).slice(0, ROUTES_SHOWN)
  return {
    count: routes.reduce((total, { count }) => total + count, 0),
    failed: routes.reduce((total, { failed }) => total + failed, 0),
    routes: longest.map(({ totalMs: _, ...shown }) => shown),
  }
}

function encodeSlow({ at, ms, route, status, accountId, cellId, requestId }: SlowStatement) {
  const ids = { cell_id: cellId ?? null, account_id: accountId ?? null, request_id: requestId }
  return { at: timeOf(at), ms: durationOf(ms), route, status, ...ids }
}

function encodeCells(core: StoreCore, metrics: StoreMetrics, census: Census) {
  const largest = census.largest.slice(0, CELLS_SHOWN)
  const busiest = core.observed.activity.busiest(CELLS_SHOWN)
  return {
    count: census.cells,
    open: metrics.cellsOpen,
    bytes: census.bytes,
    largest: largest.map(({ cellId, sizeBytes }) => ({ ...named(core, cellId), size_bytes: sizeBytes })),
    busiest: busiest.map(({ cellId, operations }) => ({ ...named(core, cellId), operations })),
    quarantined_count: census.quarantinedCount,
    quarantined: census.quarantined.map(({ cellId, reason, since }) => ({
      ...named(core, cellId),
      reason,
      since: timeOf(since),
    })),
  }
}

function named(core: StoreCore, id: string) {
  const record = core.findCell(id)
  return { id, name: record?.name ?? null, account_id: record?.accountId ?? null }
}

/** Null without an object store. */
function encodeBackups({ backups }: StoreMetrics, now: number) {
  if (backups === undefined) return null
  const { oldestChangeAt, objectStore } = backups
  return {
    object_store: objectStore.url,
    object_store_lost_at: timeOf(objectStore.lostAt),
    lag_ms: oldestChangeAt === null ? 0 : Math.max(0, now - oldestChangeAt),
    oldest_change_at: timeOf(oldestChangeAt),
    changed: backups.changed,
    newest_stored_at: timeOf(backups.newestStoredAt),
    damaged: backups.damaged,
    stored: backups.stored,
    failed: backups.failed,
    restored: backups.restored,
    recovered: backups.recovered,
    restores_failed: backups.restoresFailed,
    queue: backups.queue,
    shipping: encodeShipping(backups.shipping),
  }
}

/** Null if nothing is shipped. */
function encodeShipping(shipping: ShippingStatus | undefined) {
  if (shipping === undefined) return null
  return {
    backed_up_to: timeOf(shipping.backedUpTo),
    lag_ms: shipping.lagMs,
    waiting_bytes: shipping.waitingBytes,
    without_history: shipping.withoutHistory,
    failing_since: timeOf(shipping.failingSince),
    last_object: shipping.lastObject,
    objects: shipping.objects,
    bytes: shipping.bytes,
  }
}

/** The restore of cells without local data since the start. Null if there was none to restore. */
function encodeRecovery(core: StoreCore, { backups }: StoreMetrics) {
  const progress = backups?.recovery
  if (progress === undefined) return null
  const { cells, recovered, failed, bytes, startedAt, endedAt, etaMs } = progress
  return {
    cells,
    recovered,
    failed,
    bytes,
    started_at: timeOf(startedAt),
    ended_at: timeOf(endedAt),
    eta_ms: etaMs ?? null,
    failures: [...(core.recovery?.failures ?? [])]
      .slice(0, FAILURES_SHOWN)
      .map(([cellId, code]) => ({ ...named(core, cellId), code })),
  }
}

/** Null without workers. */
function encodeWorkers(workers: WorkerMetrics | undefined) {
  if (workers === undefined) return null
  return {
    running: workers.running,
    ended: Object.fromEntries(workers.ended.map(({ reason, count }) => [reason, count])),
    operations_waiting: workers.operationsWaiting,
    bytes_waiting: workers.bytesWaiting,
  }
}

function encodeFailure({ at, cellId, accountId, requestId, ...failure }: Failure) {
  return { at: timeOf(at), ...failure, cell_id: cellId, account_id: accountId, request_id: requestId }
}
