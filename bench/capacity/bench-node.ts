import fs from 'node:fs'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { readOwner } from '../../src/catalog/directory-lock.ts'
import type { BackupSettings } from '../../src/store/settings/store-options.ts'
import { StoreCore } from '../../src/store/store-core.ts'
import { WorkerService } from '../../src/workers/node/dispatch/worker-service.ts'
import { statementsOf } from '../../test/support/request-bounds.ts'

/** Without these no backup is made that the benchmark did not ask for. */
export const BY_HAND = { snapshotEveryMs: null, incrementalEveryMs: null, drillEveryMs: null } as const

export interface BenchNodeOptions {
  directory: string
  objectStore: string
  workers?: number
  backups?: BackupSettings
  cellBytesMax?: number
}

/** A node as `cellstore serve` runs it, without HTTP: the node in this process, workers, and an archiver. */
export class BenchNode {
  readonly core: StoreCore
  readonly service: WorkerService
  readonly #paths: StorePaths
  /** Lines that tell of a worker that ended before it was told to. */
  readonly #lost: string[]

  private constructor(core: StoreCore, service: WorkerService, directory: string, lost: string[]) {
    this.core = core
    this.service = service
    this.#paths = new StorePaths(directory)
    this.#lost = lost
  }

  static async start(options: BenchNodeOptions): Promise<BenchNode> {
    const { directory, objectStore, workers = 2, backups = BY_HAND, cellBytesMax } = options
    const lost: string[] = []
    const say = (fields: object, message: string) => {
      if (message.startsWith('a worker has ended')) lost.push(message)
      console.error(message, fields)
    }
    const core = await StoreCore.openOrCreate(directory, {
      objectStore,
      backups: { drillEveryMs: null, ...backups },
      ...(cellBytesMax === undefined ? {} : { limits: { cellBytesMax } }),
      log: { info() {}, warn: say, error: say },
    })
    const service = new WorkerService(core, {
      objectStore,
      workers,
      waitMs: 600_000,
      bounds: statementsOf(600_000),
      limits: { blockMs: 600_000 },
    })
    await service.start()
    return new BenchNode(core, service, directory, lost)
  }

  lostWorkers(): number {
    return this.#lost.length
  }

  get archiver(): number {
    return readOwner(this.#paths)?.archiver?.pid ?? 0
  }

  get workers(): number[] {
    return (readOwner(this.#paths)?.workers ?? []).map(({ pid }) => pid)
  }

  async close(): Promise<void> {
    await this.service.close(60_000)
    await this.core.close(AbortSignal.timeout(60_000))
  }
}

/** The most memory that a process ever had, in MiB (VmHWM); 0 if the system does not say. */
export function peakMemoryMib(pid: number): number {
  return Math.round(statusKib(pid, 'VmHWM') / 1_024)
}

function statusKib(pid: number, field: string): number {
  try {
    const status = fs.readFileSync(`/proc/${pid}/status`, 'utf8')
    return Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(status)?.[1] ?? 0)
  } catch {
    return 0
  }
}

/** Seconds of processor time that a process has used, with all its threads. */
export function processorSeconds(pid: number): number {
  try {
    const fields = fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
    return (Number(fields[11]) + Number(fields[12])) / 100
  } catch {
    return 0
  }
}
