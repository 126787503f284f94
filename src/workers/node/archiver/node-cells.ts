import type {
  BackupStart,
  KnownCell,
  RestoredCell,
  RestoreStart,
} from '../../../backup/archiver/cell-port.ts'
import type { BaseReason } from '../../../backup/changes/base-reason.ts'
import type { CutCall, KnownVersions } from '../../../backup/changes/log/cell-cutter.ts'
import {
  type CollectedLook,
  type CollectLimits,
  type ShippedPlace,
  withAccounts,
} from '../../../backup/changes/log/cell-log.ts'
import type { PackedPiece } from '../../../backup/changes/log/packed-logs.ts'
import type { UnshippedSearch } from '../../../backup/changes/unshipped-search.ts'
import { discardRestored } from '../../../backup/restore/install/restore-install.ts'
import type { RestorePermits } from '../../../backup/versions/work-in-progress.ts'
import { cellNotFound } from '../../../catalog/cell-registry.ts'
import type { StoreCore } from '../../../store/store-core.ts'
import type { Upkeep } from '../../../store/upkeep.ts'
import type { ServedCells } from '../../protocol/archiver-protocol.ts'
import type { WorkerTask, WorkerTaskResults } from '../../protocol/protocol.ts'
import type { WorkerPool } from '../dispatch/worker-pool.ts'

/**
 * How often a call is tried if its worker ends each time. Far more than workers end for statements while one call waits:
 * a neighbour's statements must not cost a cell its backup.
 */
const TRIES = 100

export interface NodeCellsParts {
  core: StoreCore
  workers: WorkerPool
  upkeep: Upkeep
  search: UnshippedSearch
  permits: RestorePermits
  /** Whether the cell's database file is on this machine. */
  isLocal(cellId: string): boolean
  /** Resolves once no deletion is about to move the cell's files. */
  untilMoved(cellId: string): Promise<void>
}

/**
 * The archiver's way to the cells of a node: tasks for the workers, and the catalog here. A worker may end at any time,
 * so each task can be repeated.
 */
export class NodeCells implements ServedCells {
  readonly #parts: NodeCellsParts
  readonly #building = new Set<string>()

  constructor(parts: NodeCellsParts) {
    this.#parts = parts
  }

  async beginBackup(cellId: string): Promise<BackupStart> {
    const record = this.#parts.core.registry.require(cellId)
    const known = (await this.cut(cellId, { method: 'begin', args: [] })) as KnownVersions
    const { core } = this.#parts
    return { record, sizeBytes: core.files.sizeBytes(cellId), stamps: core.stampsOf(cellId), ...known }
  }

  /** A deleted cell has no state any more. */
  async cut(cellId: string, call: CutCall): Promise<unknown> {
    this.#parts.core.residence.stamps.noteCut(cellId, call)
    if (call.method === 'failed' && this.#parts.core.findCell(cellId)?.deletedAt !== null) return undefined
    return await this.#run({ task: 'cut', cellId, call })
  }

  async beginRestore(cellId: string): Promise<RestoreStart> {
    await this.#parts.untilMoved(cellId)
    this.#parts.core.restoreNotes.add(cellId)
    this.#building.add(cellId)
    this.#parts.workers.setBuilding([...this.#building])
    const state = await this.#run({ task: 'begin-restore', cellId })
    // The restore may have given up meanwhile.
    if (!this.#building.has(cellId)) this.#parts.workers.setBuilding([...this.#building])
    const { core } = this.#parts
    const [tenures, stamps] = [core.tenuresOf(cellId), core.stampsOf(cellId)]
    return { record: core.findCell(cellId), tenures, stamps, ...state }
  }

  async checkBuilt(cellId: string, bytes: number): Promise<void> {
    this.#parts.permits.checkBuilt(cellId, bytes)
  }

  async noteMark(cellId: string, name: string, existed: boolean): Promise<void> {
    this.#assertExists(cellId, existed)
    this.#parts.core.residence.stamps.note(cellId, name)
    await this.#run({ task: 'note-mark', cellId, name })
  }

  async install(
    cellId: string,
    { manifest, isNewest, isUnmarked, last, line, existed }: RestoredCell,
  ): Promise<void> {
    this.#assertExists(cellId, existed)
    const { version } = manifest
    const options = { isNewest, isUnmarked, last, line, version, isRepeat: false }
    await this.#run({ task: 'install', cellId, options }, () => {
      options.isRepeat = true
    })
    this.#assertExists(cellId, existed)
    await this.#parts.core.recordRestored(cellId, manifest)
    this.#parts.upkeep.cellRestored(cellId)
    // The worker has changed the local state; the node must read it again.
    this.#parts.core.hints.forget(cellId)
    this.#parts.workers.forget(cellId)
  }

  async findCell(cellId: string): Promise<KnownCell> {
    const { core, isLocal } = this.#parts
    return { record: core.findCell(cellId), isLocal: isLocal(cellId), tenures: core.tenuresOf(cellId) }
  }

  async logsLeft(): Promise<string[]> {
    return this.#parts.core.residence.logsLeft
  }

  async isDeleted(cellId: string, committedAt: number): Promise<boolean> {
    return this.#parts.core.isDeleted(cellId, committedAt)
  }

  /** Also removes what an archiver left that has ended. */
  async endRestore(cellId: string): Promise<void> {
    if (!this.#building.delete(cellId)) return
    discardRestored(this.#parts.core.paths.cell(cellId))
    this.#parts.core.restoreNotes.remove(cellId)
    this.#parts.workers.setBuilding([...this.#building])
  }

  async collectLogs(limits: CollectLimits): Promise<CollectedLook<PackedPiece>> {
    const collected = await this.#parts.search.collect(limits, () => this.#parts.workers.collectLogs(limits))
    return withAccounts(collected, (id) => this.#parts.core.findCell(id))
  }

  async hurryLook(): Promise<void> {
    this.#parts.workers.hurryLook()
  }

  async logsShipped(places: ShippedPlace[]): Promise<void> {
    this.#parts.workers.logsShipped(places)
  }

  dropHistory(cellId: string): Promise<void> {
    return this.#run({ task: 'drop-history', cellId })
  }

  async needsBase(cellId: string, reason: BaseReason): Promise<void> {
    await this.#parts.upkeep.needsBase(cellId, reason)
  }

  /** @param existed the cell existed when its restore began */
  #assertExists(cellId: string, existed: boolean): void {
    if (existed && this.#parts.core.findCell(cellId)?.deletedAt !== null) throw cellNotFound()
  }

  /** @param workerEnded called before the task is tried again */
  #run<T extends WorkerTask>(
    task: T,
    workerEnded: () => void = () => {},
  ): Promise<WorkerTaskResults[T['task']]> {
    return this.#parts.workers.runTask(task, { tries: TRIES }, workerEnded)
  }
}
