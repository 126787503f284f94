import { openObjectStore } from '../../backup/object-store/open-object-store.ts'
import { runAll } from '../../base/async/run-all.ts'
import type { Clock } from '../../base/clock.ts'
import { StorePaths } from '../../base/files/store-paths.ts'
import type { Log } from '../../base/log.ts'
import { DEFAULT_QUOTAS } from '../../catalog/account-quotas.ts'
import type { Ownership } from '../../catalog/assignment/ownership.ts'
import type { ClusterNode, ClusterSettings } from '../../cluster/node.ts'
import { CellError, isCellError } from '../../errors.ts'
import { PeerClient } from '../../http/forwarding/peer-client.ts'
import { DEFAULT_HTTP_LIMITS, REQUEST_DEADLINE_MS_DEFAULT } from '../../http/handler-options.ts'
import type { CellService } from '../../service/cell-service.ts'
import { InProcessService } from '../../service/in-process-service.ts'
import type { CellHost } from '../../store/cell-host.ts'
import { CellStore } from '../../store/cell-store.ts'
import type { StoreOptions } from '../../store/settings/store-options.ts'
import { ownershipOfLoneNode } from '../../store/start/lone-node.ts'
import { StoreCore } from '../../store/store-core.ts'
import type { StoreMetrics } from '../../store/store-metrics.ts'
import { WorkerService, type WorkerServiceOptions } from '../../workers/node/dispatch/worker-service.ts'
import type { NodeLimits } from './limits/limits.ts'
import { isAnyAddress, type ServeFlags } from './serve-flags.ts'

/** So often a directory that turns out to be taken over is set aside, and the node starts anew. */
const STARTS_MAX = 3

/** A store that is open, and the service that runs its cells: in worker processes, or with `--workers 0` in this one. */
export interface ServedStore {
  core: StoreCore
  service: CellService & { readonly host: CellHost | undefined }
  /** Undefined for a node that is alone. It has not joined yet. */
  cluster?: ClusterNode | undefined
  metrics(): StoreMetrics
  close(deadlineMs: number): Promise<void>
}

export interface ServedStoreParts {
  objectStore: string
  limits: NodeLimits
  clock: Clock
  log: Log
}

/** @throws as `CellStore.openOrCreate`; `internal` if no worker can be started; as `ClusterNode.prepare` and `attach` */
export async function openServedStore(flags: ServeFlags, parts: ServedStoreParts): Promise<ServedStore> {
  const { cluster: url, clusterTtl: ttlMs } = flags
  if (url === undefined) return await openStore(flags, parts, await ownershipWithoutCluster(flags, parts))
  if (flags.advertise === undefined && isAnyAddress(flags.host))
    throw new CellError(
      'invalid_setting',
      `The other nodes can't reach this one at ${flags.host}. Set --advertise (CELLSTORE_ADVERTISE) to a URL at which they do, such as http://10.0.0.1:8787.`,
      { field: 'advertise' },
    )
  for (let start = 1; ; start++) {
    try {
      return await openMember(flags, parts, { url, ttlMs }, start > 1)
    } catch (error) {
      // What it has was taken over by other nodes: it goes on as a new one.
      if (!isCellError(error, 'store_outdated') || start === STARTS_MAX) throw error
    }
  }
}

async function ownershipWithoutCluster(
  { dataDir }: ServeFlags,
  { objectStore, clock }: ServedStoreParts,
): Promise<Ownership> {
  const bucket = openObjectStore(objectStore, { clock, dataDir, checksFolder: true })
  try {
    return await ownershipOfLoneNode(new StorePaths(dataDir), bucket, clock)
  } finally {
    await bucket.close()
  }
}

async function openMember(
  flags: ServeFlags,
  parts: ServedStoreParts,
  settings: ClusterSettings,
  outdated: boolean,
): Promise<ServedStore> {
  const { dataDir } = flags
  const { clock, log } = parts
  const { ClusterNode } = await import('../../cluster/node.ts')
  const bucket = openObjectStore(parts.objectStore, { clock, dataDir, checksFolder: true })
  const callsOf = (secret: string) => new PeerClient(secret, clock)
  const random = () => Math.random()
  let cluster: ClusterNode | undefined
  let store: ServedStore | undefined
  const close = async (deadlineMs: number) => {
    await runAll([
      async () => await cluster?.leave(),
      async () => await store?.close(deadlineMs),
      async () => await cluster?.close(),
      () => bucket.close(),
    ])
  }
  try {
    cluster = await ClusterNode.prepare({ settings, dataDir, bucket, clock, random, log, callsOf }, outdated)
    store = await openStore(flags, parts, cluster.ownership)
    const { core, service, metrics } = store
    if (service.host === undefined) throw new CellError('internal', 'A node has an object store.')
    await cluster.attach(core, service.host, () => metrics().backups?.shipping)
    return { core, service, metrics, cluster, close }
  } catch (error) {
    await close(flags.drain)
    throw error
  }
}

async function openStore(
  flags: ServeFlags,
  { limits, ...parts }: ServedStoreParts,
  ownership: Ownership,
): Promise<ServedStore> {
  const options = { ...storeOptions(flags, limits), ...parts, ownership }
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
