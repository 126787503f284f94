import type { Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import { DEFAULT_HTTP_LIMITS, REQUEST_DEADLINE_MS_DEFAULT } from '../../http/handler-options.ts'
import type { CellService } from '../../service/cell-service.ts'
import { InProcessService } from '../../service/in-process-service.ts'
import { CellStore } from '../../store/cell-store.ts'
import type { StoreOptions } from '../../store/settings.ts'
import { runAll, StoreCore } from '../../store/store-core.ts'
import { WorkerService } from '../../workers/node/worker-service.ts'
import type { ServeFlags } from './serve-flags.ts'

const MIB = 1_048_576

const SERVICE_OPTIONS = {
  restoreWaitMs: REQUEST_DEADLINE_MS_DEFAULT,
  answerBytesMax: DEFAULT_HTTP_LIMITS.result.bytesMax,
}

/** A store that is open, and the service that runs its cells: in worker processes, or with `--workers 0` in this one. */
export interface ServedStore {
  core: StoreCore
  service: CellService
  close(deadlineMs: number): Promise<void>
}

/** @throws as `CellStore.openOrCreate`; `internal` if no worker can be started */
export async function openServedStore(
  flags: ServeFlags,
  objectStore: string,
  parts: { clock: Clock; log: Log },
): Promise<ServedStore> {
  const options = { ...storeOptions(flags), objectStore, ...parts }
  if (flags.workers > 0) return await openWithWorkers(flags, options, objectStore)
  const store = await CellStore.openOrCreate(flags.dataDir, options)
  return {
    core: store.core,
    service: new InProcessService(store, SERVICE_OPTIONS),
    close: (deadlineMs) => store.close({ deadlineMs }),
  }
}

async function openWithWorkers(
  { dataDir, workers, workerMemory, statementTimeout, drain }: ServeFlags,
  options: StoreOptions,
  objectStore: string,
): Promise<ServedStore> {
  const core = await StoreCore.openOrCreate(dataDir, options)
  const service = new WorkerService(core, {
    objectStore,
    workers,
    waitMs: SERVICE_OPTIONS.restoreWaitMs,
    answerBytesMax: SERVICE_OPTIONS.answerBytesMax,
    statementMs: statementTimeout,
    limits: { memoryMax: workerMemory * MIB },
  })
  const close = (deadlineMs: number) => closeBoth(core, service, deadlineMs)
  try {
    await service.start()
  } catch (error) {
    await close(drain)
    throw error
  }
  return { core, service, close }
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

function storeOptions(flags: ServeFlags): StoreOptions {
  const { durability, objectStoreWait, snapshotEvery, incrementalEvery, backupKeep } = flags
  return {
    durability,
    sqlPolicy: 'tenant',
    objectStoreWaitMs: objectStoreWait,
    quotas: {
      cellsMax: flags.accountCells,
      apiKeysMax: flags.accountKeys,
      creationsPerSecond: flags.accountCreations,
      backupsAtOnce: flags.accountBackups,
      backupMibPerSecond: flags.accountBackupRate,
    },
    backups: {
      snapshotEveryMs: snapshotEvery,
      incrementalEveryMs: incrementalEvery,
      keep: backupKeep,
      concurrency: flags.backupsAtOnce,
      restoreConcurrency: flags.restoresAtOnce,
    },
  }
}
