import { identityOfCell } from '../backup/archive/cell-identity.ts'
import type { ManifestHead } from '../backup/archive/manifest.ts'
import type { BackupDestination } from '../backup/archiver/backup-destination.ts'
import type { CellPort, CellState, RestoredCell } from '../backup/archiver/cell-port.ts'
import type { CellInstaller } from '../backup/restore/cell-installer.ts'
import type { BackupKind, BackupOptions, BackupResult } from '../backup/versions/backup-types.ts'
import { type CellRecord, cellNotFound } from '../catalog/cell-registry.ts'
import type { LocalCells } from './local-cells.ts'

export interface CellsInProcessParts {
  local: LocalCells
  destination: BackupDestination
  /** A cell's record in the catalog; undefined for an unknown id. */
  record(id: string): CellRecord | undefined
  /** Records a restored cell in the catalog, also if it was unknown or deleted there. */
  restored(id: string, manifest: ManifestHead): void
}

/** The archiver's way to the cells that this process opens: direct calls. */
export class CellsInProcess implements CellPort {
  readonly #parts: CellsInProcessParts

  constructor(parts: CellsInProcessParts) {
    this.#parts = parts
  }

  async backup(cellId: string, kind: BackupKind, options: BackupOptions): Promise<BackupResult> {
    const { local, destination } = this.#parts
    const identity = identityOfCell(destination.storeId, local.record(cellId))
    destination.trackers.acquire(cellId)
    try {
      const { keep } = local.settings.backups
      return await destination.runner.run(identity, kind, keep, () => local.pin(cellId), options)
    } finally {
      destination.trackers.release(cellId)
    }
  }

  async beginRestore(cellId: string): Promise<CellState> {
    const { local, record } = this.#parts
    this.#installer.begin(cellId)
    return { record: record(cellId), isLocal: local.isLocal(cellId) }
  }

  async install(cellId: string, { manifest, newest, existed }: RestoredCell): Promise<void> {
    const { record, restored } = this.#parts
    if (existed && record(cellId)?.deletedAt !== null) throw cellNotFound()
    this.#installer.install(cellId, { newest, version: manifest.version })
    restored(cellId, manifest)
  }

  async endRestore(cellId: string): Promise<void> {
    this.#installer.end(cellId)
  }

  get #installer(): CellInstaller {
    return this.#parts.local.installer as CellInstaller
  }
}
