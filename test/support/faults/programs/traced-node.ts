import { pathToFileURL } from 'node:url'
import type { StoreOptions } from '../../../../src/store/settings/store-options.ts'
import { StoreCore } from '../../../../src/store/store-core.ts'
import { WorkerService } from '../../../../src/workers/node/dispatch/worker-service.ts'
import { BOUNDS } from '../../request-bounds.ts'

const CLOSE_MS = 60_000

export interface TracedNode {
  store: StoreCore
  service: WorkerService
  close(): Promise<void>
}

/** A store below `root` whose cells are open in child processes, as `serve` has them. Traced, everything takes long: nothing is ended for that. */
export async function openTracedNode(
  root: string,
  workers: number,
  options: Omit<StoreOptions, 'objectStore'> = {},
): Promise<TracedNode> {
  const objectStore = pathToFileURL(`${root}/objects`).href
  const store = await StoreCore.openOrCreate(`${root}/data`, { ...options, objectStore })
  const service = new WorkerService(store, {
    objectStore,
    workers,
    waitMs: 30_000,
    bounds: BOUNDS,
    limits: { blockMs: 60_000, silentMs: 120_000 },
    sqlPolicy: 'trusted',
  })
  await service.start()
  const close = async () => {
    await service.close(CLOSE_MS)
    await store.close(AbortSignal.timeout(CLOSE_MS))
  }
  return { store, service, close }
}
