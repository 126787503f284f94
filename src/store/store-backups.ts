import type { ManifestHead } from '../backup/archive/manifest.ts'
import { BackupManager } from '../backup/backup-manager.ts'
import { CatalogBackup } from '../backup/catalog-backup.ts'
import type { CellAccess } from '../backup/changes/cell-access.ts'
import { BackupProgressTable } from '../backup/changes/progress-table.ts'
import type { ObjectStore } from '../backup/object-store/object-store.ts'
import { BackupSchedule, type ScheduledBackups } from '../backup/schedule.ts'
import type { StorePaths } from '../base/store-paths.ts'
import type { Catalog } from '../catalog/catalog.ts'
import type { CellRegistry } from '../catalog/cell-registry.ts'
import type { LocalState } from '../catalog/local-state.ts'
import type { CellPool } from '../engine/cell-pool.ts'
import type { RemoteCells } from './remote-cells.ts'
import type { StoreSettings } from './settings.ts'
import { storeCellAccess } from './store-cell-access.ts'

export interface StoreBackupParts {
  objectStore: ObjectStore
  paths: StorePaths
  settings: StoreSettings
  state: LocalState
  catalog: Catalog
  registry: CellRegistry
  pool: CellPool
  /** Where the cells are open, if not here. */
  remote: RemoteCells | undefined
  /** A cell was restored: nothing that was known of its content holds any more. */
  onRestored(id: string): void
}

/** Backups of a store that has an object store: of its cells, of its catalog, and by themselves. */
export class StoreBackups {
  readonly manager: BackupManager
  readonly #catalog: CatalogBackup
  readonly #schedule: BackupSchedule
  readonly #cellAccess: CellAccess
  readonly #catalogId: string

  constructor(parts: StoreBackupParts) {
    const { objectStore, paths, settings, state, catalog } = parts
    const { clock, log, random } = settings
    this.#catalogId = catalog.storeId
    this.#cellAccess = storeCellAccess(parts)
    const manager = new BackupManager({
      objectStore,
      storeId: catalog.storeId,
      storeCreatedAt: Number(catalog.meta('created_at') ?? 0),
      cells: this.#cellAccess,
      progress: new BackupProgressTable(state),
      clock,
      log,
      spoolDirectory: paths.spool,
      keep: settings.backups.keep,
      catalogStored: () => this.catalogStored(),
      onChange: (id) => this.cellChanged(id),
      onCatalogLost: () => this.#catalog.startAnew(),
      onNewTarget: () => {
        this.#catalog.startAnew()
        this.#schedule.reschedule()
      },
    })
    this.manager = manager
    this.#catalog = new CatalogBackup(catalog, state, (signal) => manager.backupCatalog(signal), clock, log)
    this.#schedule = new BackupSchedule(
      settings.backups,
      scheduled(manager, parts.remote),
      clock,
      random,
      log,
    )
  }

  start(): void {
    this.#catalog.start()
    this.#schedule.reschedule()
  }

  /** A cell has changed for the first time since its newest backup. */
  cellChanged(id: string): void {
    // The catalog's own backup follows each change by itself.
    if (id !== this.#catalogId) this.#schedule.changed(id)
  }

  /** A cell was restored in another process. */
  cellRestored(id: string, manifest: ManifestHead): void {
    this.#cellAccess.restored(id, manifest)
  }

  catalogChanged(): void {
    this.#catalog.changed()
  }

  /** Resolves once every change of the catalog so far is in the object store. */
  async catalogStored(): Promise<void> {
    await this.#catalog.stored()
  }

  /** Ends what is under way; none begins by itself afterwards. */
  async finish(deadline: AbortSignal): Promise<void> {
    await this.#schedule.stop()
    await this.manager.stop(deadline)
  }

  /** Stores the catalog a last time. */
  async stop(deadline: AbortSignal): Promise<void> {
    await this.#catalog.stop(deadline)
    await this.manager.stop(deadline)
  }
}

/** The schedule looks at what this machine knows of its cells, and has them backed up where they are open. */
function scheduled(manager: BackupManager, remote: RemoteCells | undefined): ScheduledBackups {
  if (remote === undefined) return manager
  return {
    changed: () => manager.changed(),
    changeOf: (id) => manager.changeOf(id),
    snapshot: (id, options) => remote.backup(id, 'snapshot', options),
    incremental: (id, options) => remote.backup(id, 'incremental', options),
  }
}
