import type { Limits } from '../../base/limits.ts'
import type { CellPaths } from '../../base/store-paths.ts'
import type { ManifestHead } from '../archive/manifest.ts'
import { CellRestorer } from '../restore/cell-restorer.ts'
import { RestoreThreads } from '../restore/restore-threads.ts'
import type { BackupKind, BackupOptions, BackupResult, RestoreResult } from '../versions/backup-types.ts'
import type { BackupDestination } from './backup-destination.ts'
import type { CellPort } from './cell-port.ts'
import type { Need } from './job.ts'
import { JobQueue, type JobQueueLimits } from './job-queue.ts'

/** What all requests say. */
interface ArchiverRequest {
  cellId: string
  /** The account whose turn it takes; empty for the store's owner. */
  account: string
  need: Need
}

export interface BackupRequest extends ArchiverRequest {
  kind: BackupKind
}

export interface RestoreRequest extends ArchiverRequest {
  /** Undefined for the newest. */
  version: string | undefined
  /** Refuses the cell if it is not this account's. */
  accountId: string | undefined
  /** Does nothing if the cell's data is on this machine when the turn comes. */
  onlyIfLost: boolean
}

export interface JobOptions extends BackupOptions {
  /** Called when the job's turn has come. */
  onBegin?: (() => void) | undefined
}

/** The archiver as others see it: it may be in this process or in another. */
export interface ArchiverClient {
  backup(request: BackupRequest, options: BackupOptions): Promise<BackupResult>
  /** @returns undefined if it did nothing */
  restore(request: RestoreRequest, options: JobOptions): Promise<RestoreResult | undefined>
  /** Somebody needs the waiting jobs of a cell more than before. */
  raise(cellId: string, need: Need): void
}

export interface ArchiverParts {
  destination: BackupDestination
  cells: CellPort
  paths(cellId: string): CellPaths
  /** How large a restored cell may be. */
  limits: Limits
  queue: JobQueueLimits
}

/**
 * Does the work of backups and restores: all of it that needs the object store. It opens no cell. The process that has
 * a cell only names the files of a backup and switches to a restored database (cell-port.ts). One archiver per store
 * has all queues and bounds.
 */
export class Archiver implements ArchiverClient {
  readonly #cells: CellPort
  readonly #queue: JobQueue
  readonly #restorer: CellRestorer
  readonly #threads: RestoreThreads

  constructor({ destination, cells, paths, limits, queue }: ArchiverParts) {
    const { objectStore, storeId, index, clock } = destination
    this.#cells = cells
    this.#queue = new JobQueue(queue, clock)
    this.#threads = new RestoreThreads(clock, queue.atOnce.restore)
    this.#restorer = new CellRestorer({
      objectStore,
      storeId,
      index,
      clock,
      paths,
      limits,
      threads: this.#threads,
    })
  }

  backup(
    { cellId, account, need, kind }: BackupRequest,
    { signal: caller, onProgress }: BackupOptions,
  ): Promise<BackupResult> {
    return this.#queue.run({ lane: 'backup', cellId, account, need }, caller, ({ signal }) =>
      this.#cells.backup(cellId, kind, { signal, onProgress }),
    )
  }

  restore(
    { cellId, account, need, version, accountId, onlyIfLost }: RestoreRequest,
    { signal: caller, onProgress, onBegin }: JobOptions,
  ): Promise<RestoreResult | undefined> {
    return this.#queue.run({ lane: 'restore', cellId, account, need }, caller, async (turn) => {
      onBegin?.()
      try {
        const { record, isLocal } = await this.#cells.beginRestore(cellId)
        if (onlyIfLost && isLocal) return undefined
        const existed = record?.deletedAt === null
        const install = (manifest: ManifestHead, newest: string) =>
          this.#cells.install(cellId, { manifest, newest, existed })
        return await this.#restorer.run(cellId, { record, version, accountId, onProgress, install, ...turn })
      } finally {
        await this.#cells.endRestore(cellId)
      }
    })
  }

  /** @throws `store_closed` once {@link stop} was called */
  assertRunning(): void {
    this.#queue.assertRunning()
  }

  raise(cellId: string, need: Need): void {
    this.#queue.raise(cellId, need)
  }

  /** Takes no more requests. Its jobs may end until the deadline; then they are cancelled, and leave nothing behind. */
  async stop(deadline: AbortSignal): Promise<void> {
    await this.#queue.stop(deadline)
    await this.#threads.close()
  }
}
