import { BackupManager } from './backup/backup-manager.ts'
import { CatalogBackup } from './backup/catalog-backup.ts'
import type { ObjectStore } from './backup/object-store.ts'
import { BackupProgressTable } from './backup/progress-table.ts'
import { BackupSchedule } from './backup/schedule.ts'
import { backupSubjects } from './backup-subjects.ts'
import type { Catalog } from './engine/catalog.ts'
import type { StorePaths } from './engine/cell-path.ts'
import type { CellPool } from './engine/cell-pool.ts'
import type { CellRegistry } from './engine/cell-registry.ts'
import type { LocalState } from './engine/local-state.ts'
import type { StoreSettings } from './settings.ts'

export interface StoreBackupParts {
  objectStore: ObjectStore
  paths: StorePaths
  settings: StoreSettings
  state: LocalState
  catalog: Catalog
  registry: CellRegistry
  pool: CellPool
  /** A cell was restored: nothing that was known of its content holds any more. */
  onRestored(id: string): void
}

/** Backups of a store that has an object store: of its cells, of its catalog, and by themselves. */
export class StoreBackups {
  readonly manager: BackupManager
  readonly #catalog: CatalogBackup
  readonly #schedule: BackupSchedule

  constructor(parts: StoreBackupParts) {
    const { objectStore, paths, settings, state, catalog } = parts
    const { clock, log, random } = settings
    const manager = new BackupManager({
      objectStore,
      storeId: catalog.storeId,
      storeCreatedAt: Number(catalog.meta('created_at') ?? 0),
      subjects: backupSubjects(parts),
      progress: new BackupProgressTable(state),
      clock,
      log,
      spoolDirectory: paths.spool,
      keep: settings.backups.keep,
      catalogStored: () => this.catalogStored(),
      onChange: (id) => {
        // The catalog's own backup follows each change by itself.
        if (id !== catalog.storeId) this.#schedule.changed(id)
      },
      onCatalogLost: () => this.#catalog.startAnew(),
      onNewTarget: () => {
        this.#catalog.startAnew()
        this.#schedule.look()
      },
    })
    this.manager = manager
    this.#catalog = new CatalogBackup(catalog, state, (signal) => manager.backupCatalog(signal), clock, log)
    this.#schedule = new BackupSchedule(settings.backups, manager, clock, random, log)
  }

  start(): void {
    this.#catalog.start()
    this.#schedule.look()
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
