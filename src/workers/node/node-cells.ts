import type { CellPort, CellState, RestoredCell } from '../../backup/archiver/cell-port.ts'
import { discardRestored } from '../../backup/restore/restore-install.ts'
import type { BackupKind, BackupOptions, BackupResult } from '../../backup/versions/backup-types.ts'
import { cellNotFound } from '../../catalog/cell-registry.ts'
import type { StoreCore } from '../../store/store-core.ts'
import type { Upkeep } from '../../store/upkeep.ts'
import type { WorkerPool } from './worker-pool.ts'

/**
 * The archiver's way to the cells of a node: tasks for the workers, and the catalog here. A worker may end at any time,
 * so each task can be repeated.
 */
export class NodeCells implements CellPort {
  readonly #core: StoreCore
  readonly #workers: WorkerPool
  readonly #upkeep: Upkeep
  readonly #building = new Set<string>()

  constructor(core: StoreCore, workers: WorkerPool, upkeep: Upkeep) {
    this.#core = core
    this.#workers = workers
    this.#upkeep = upkeep
  }

  async backup(cellId: string, kind: BackupKind, options: BackupOptions): Promise<BackupResult> {
    const { result, head } = await this.#workers.runTask({ task: 'backup', cellId, kind }, options)
    if (head !== undefined) this.#core.destination?.index.stored(head, result.sizeBytes)
    return result
  }

  async beginRestore(cellId: string): Promise<CellState> {
    this.#building.add(cellId)
    this.#workers.setBuilding([...this.#building])
    const isLocal = await this.#workers.runTask({ task: 'begin-restore', cellId })
    return { record: this.#core.findCell(cellId), isLocal }
  }

  async install(cellId: string, { manifest, newest, existed }: RestoredCell): Promise<void> {
    const assertExists = () => {
      if (existed && this.#core.findCell(cellId)?.deletedAt !== null) throw cellNotFound()
    }
    assertExists()
    const options = { newest, version: manifest.version, isRepeat: false }
    const ended = () => {
      options.isRepeat = true
      return undefined
    }
    await this.#workers.runTask({ task: 'install', cellId, options }, {}, ended)
    assertExists()
    this.#core.recordRestored(cellId, manifest)
    this.#upkeep.cellRestored(cellId)
    // The worker has changed the local state; the node must read it again.
    this.#core.hints.forget(cellId)
    this.#workers.forget(cellId)
  }

  /** Also removes what an archiver left that has ended. */
  async endRestore(cellId: string): Promise<void> {
    if (!this.#building.delete(cellId)) return
    discardRestored(this.#core.paths.cell(cellId))
    this.#workers.setBuilding([...this.#building])
  }
}
