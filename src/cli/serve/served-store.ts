import { runAll } from '../../base/async/run-all.ts'
import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { DEFAULT_QUOTAS } from '../../catalog/account-quotas.ts'
import { DEFAULT_HTTP_LIMITS, REQUEST_DEADLINE_MS_DEFAULT } from '../../http/handler-options.ts'
import type { CellService } from '../../service/cell-service.ts'
import { InProcessService } from '../../service/in-process-service.ts'
import { CellStore } from '../../store/cell-store.ts'
import type { StoreOptions } from '../../store/settings/store-options.ts'
import { StoreCore } from '../../store/store-core.ts'
import type { StoreMetrics } from '../../store/store-metrics.ts'
import { WorkerService, type WorkerServiceOptions } from '../../workers/node/dispatch/worker-service.ts'
import type { NodeLimits } from './limits/limits.ts'
import type { ServeFlags } from './serve-flags.ts'

/** A store that is open, and the service that runs its cells: in worker processes, or with `--workers 0` in this one. */
export interface ServedStore {
  core: StoreCore
  service: CellService
  metrics(): StoreMetrics
  close(deadlineMs: number): Promise<void>
}

export interface ServedStoreParts {
  objectStore: string
  limits: NodeLimits
  clock: Clock
  log: Log
}

/** @throws as `CellStore.openOrCreate`; `internal` if no worker can be started */
export async function openServedStore(
  flags: ServeFlags,
  { limits, ...parts }: ServedStoreParts,
): Promise<ServedStore> {
  const options = { ...storeOptions(flags, limits), ...parts }
  const waitMs = limits.http.requestDeadlineMs ?? REQUEST_DEADLINE_MS_DEFAULT
  const { statementMsMax, pageDefault, result } = { ...DEFAULT_HTTP_LIMITS, ...limits.http }
  const bounds = { statementMsMax, pageDefault, result: { ...result, ...limits.result } }
  if (flags.workers > 0) {
    return await openWithWorkers(flags, options, {
      objectStore: parts.objectStore,
      workers: flags.workers,
      waitMs,
      bounds,
      limits: limits.workers,
      slowMs: flags.slow || null,
    })
  }
  const store = await CellStore.openOrCreate(flags.dataDir, options)
  return {
    core: store.core,
    service: new InProcessService(store, {
      restoreWaitMs: waitMs,
      bounds,
      slowMs: flags.slow || null,
    }),
    metrics: () => store.metrics(),
    close: (deadlineMs) => store.close({ deadlineMs }),
  }
}

async function openWithWorkers(
  { dataDir, drain }: ServeFlags,
  options: StoreOptions,
  serviceOptions: WorkerServiceOptions,
): Promise<ServedStore> {
  const core = await StoreCore.openOrCreate(dataDir, options)
  const service = new WorkerService(core, serviceOptions)
  const close = (deadlineMs: number) => closeBoth(core, service, deadlineMs)
  try {
    await service.start()
  } catch (error) {
    await close(drain)
    throw error
  }
  return { core, service, close, metrics: () => service.metrics() }
}

/** Each part has the whole time: the catalog is to be stored even if the workers took theirs. */
async function closeBoth(core: StoreCore, service: WorkerService, deadlineMs: number): Promise<void> {
  await runAll([() => service.close(deadlineMs), () => closeCore(core, deadlineMs)])
}

async function closeCore(core: StoreCore, deadlineMs: number): Promise<void> {
  const deadline = new AbortController()
  const timer = core.clock.setTimer(() => deadline.abort(), deadlineMs)
  await core.close(deadline.signal).finally(() => timer.cancel())
}

export function storeOptions(
  flags: ServeFlags,
  { limits, quotas, store, backups }: NodeLimits,
): StoreOptions {
  const { durability, objectStoreWait, snapshotEvery, incrementalEvery, drillEvery } = flags
  const { keep, keepTenant, recovery, maxLag, history } = flags
  const { lease, takeOver = false, adopt = false, moveObjectStore = false } = flags
  return {
    ...store,
    durability,
    sqlPolicy: 'tenant',
    objectStoreWaitMs: objectStoreWait,
    leaseMs: lease,
    takeOver,
    adopt,
    moveObjectStore,
    limits,
    // The library has none by itself.
    quotas: { ...DEFAULT_QUOTAS, ...quotas },
    backups: {
      ...backups,
      snapshotEveryMs: snapshotEvery || null,
      incrementalEveryMs: incrementalEvery || null,
      drillEveryMs: drillEvery || null,
      recoverInBackground: recovery === 'background',
      maxLagMs: maxLag || null,
      historyMs: history,
      keep,
      keepTenant,
    },
  }
}
