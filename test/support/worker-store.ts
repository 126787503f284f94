import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { onTestFinished } from 'vitest'
import type { Log } from '../../src/base/log.ts'
import type { StoreOptions } from '../../src/store/settings/store-options.ts'
import { StoreCore } from '../../src/store/store-core.ts'
import { WorkerService, type WorkerServiceOptions } from '../../src/workers/node/dispatch/worker-service.ts'
import { workersOf } from './processes.ts'
import { BOUNDS } from './request-bounds.ts'
import { StoreDirectory } from './store-directory.ts'
import { tempDirectory } from './temp-directory.ts'

/** Each worker is a process of its own, and most of its start would be compiling the same sources again. */
process.env['NODE_COMPILE_CACHE'] ??= path.join(
  import.meta.dirname,
  '..',
  '..',
  'node_modules',
  '.cache',
  'cellstore-workers',
)

export interface WorkerStoreOptions {
  /** An empty folder. */
  folder: string
  /** False for a store without backups. */
  hasObjects?: boolean
  /** The URL of another object store than a folder of its own. */
  objectStore?: string
  /** What the store is told. */
  store?: Omit<StoreOptions, 'objectStore'>
  service?: Partial<WorkerServiceOptions>
}

/** A node store of a test's own, in a new folder; closed when it has finished. */
export async function openWorkerStore(
  options: Omit<WorkerStoreOptions, 'folder'> = {},
): Promise<WorkerStore> {
  const node = await WorkerStore.start({ folder: tempDirectory('cellstore-workers'), ...options })
  onTestFinished(() => node.close())
  return node
}

const CLOSE_MS = 60_000
const LAG_MS = 3_600_000

export interface LoggedLine {
  level: keyof Log
  fields: Record<string, unknown>
  message: string
}

/** A store whose cells are run in workers, with real processes and the real time. */
export class WorkerStore {
  readonly #data: StoreDirectory
  /** Its workers are killed when it closes: they leave the logs of their cells too. */
  isKilled = false
  readonly objectStore: string | undefined
  readonly log: LoggedLine[]
  readonly store: StoreCore
  readonly service: WorkerService

  private constructor(
    data: StoreDirectory,
    parts: Pick<WorkerStore, 'objectStore' | 'log' | 'store' | 'service'>,
  ) {
    this.#data = data
    this.objectStore = parts.objectStore
    this.log = parts.log
    this.store = parts.store
    this.service = parts.service
  }

  static async start({
    folder,
    hasObjects = true,
    objectStore = hasObjects ? pathToFileURL(path.join(folder, 'objects')).href : undefined,
    store: told = {},
    service: options = {},
  }: WorkerStoreOptions): Promise<WorkerStore> {
    const data = new StoreDirectory(path.join(folder, 'data'))
    const log: LoggedLine[] = []
    const take = (level: keyof Log) => (fields: object, message: string) =>
      void log.push({ level, fields: fields as Record<string, unknown>, message })
    const settings = {
      log: { info: take('info'), warn: take('warn'), error: take('error') },
      ...told,
      // Only the versions that a test asks for: on a busy machine it may take longer than the default lag.
      ...(objectStore !== undefined && { backups: { maxLagMs: LAG_MS, ...told.backups } }),
    }
    const store = await StoreCore.openOrCreate(data.path, { ...settings, objectStore })
    const service = new WorkerService(store, {
      objectStore,
      workers: 1,
      waitMs: 60_000,
      bounds: BOUNDS,
      ...options,
    })
    try {
      await service.start()
    } catch (error) {
      await service.close(0)
      await store.close()
      throw error
    }
    data.keep({
      close: async () => {
        await service.close(CLOSE_MS)
        await store.close(AbortSignal.timeout(CLOSE_MS))
      },
    })
    return new WorkerStore(data, { objectStore, log, store, service })
  }

  get directory(): string {
    return this.#data.path
  }

  /** Processes that hold its cells open, and the one in reserve. */
  get workers(): number[] {
    return workersOf(this.directory)
  }

  /** Workers that have ended before they were told to. A killed one leaves the logs of its cells for the next to open them. */
  get lostWorkers(): LoggedLine[] {
    return this.log.filter(({ message }) => message.startsWith('a worker has ended'))
  }

  /** Closes it; every cell passes integrity_check afterwards. */
  async close(): Promise<void> {
    this.#data.mayHaveLogs = this.isKilled || this.lostWorkers.length > 0
    await this.#data.close()
  }
}
