import type { ManifestHead } from '../backup/archive/manifest.ts'
import { Archiver } from '../backup/archiver/archiver.ts'
import { BackupManager } from '../backup/backup-manager.ts'
import { UnshippedSearch } from '../backup/changes/unshipped-search.ts'
import { RestorePermits } from '../backup/restore/restore-permits.ts'
import { CellsInProcess } from './cells-in-process.ts'
import type { LocalCells } from './local-cells.ts'
import { type Replication, replicationOf } from './replication.ts'
import { jobQueueLimits, shippingSettings } from './settings.ts'
import type { StoreCore } from './store-core.ts'
import type { Upkeep } from './upkeep.ts'

/** Backups and restores of the cells that this process opens. */
export interface ArchivingInProcess {
  archiver: Archiver
  backups: BackupManager
  replication: Replication
  /** For cells that this process has not opened yet. */
  search: UnshippedSearch
}

/** @returns undefined without an object store */
export function archivingInProcess(
  core: StoreCore,
  local: LocalCells,
  upkeep: Upkeep,
): ArchivingInProcess | undefined {
  const { paths, settings, destination, catalogBackup, verifications, guard } = core
  const { archived } = local
  if (destination === undefined || catalogBackup === undefined) return undefined
  if (verifications === undefined || archived === undefined || guard === undefined) return undefined
  const shipping = shippingSettings(settings)
  const record = (id: string) => core.findCell(id)
  const restored = (id: string, manifest: ManifestHead) => {
    core.lifecycle.restored(id, manifest)
    upkeep.cellRestored(id)
  }
  const search = new UnshippedSearch({
    isShipped: settings.backups.maxLagMs !== undefined,
    progress: destination.progress,
    paths: (id) => paths.cell(id),
    exists: (id) => core.findCell(id)?.deletedAt === null,
    look: async (id) => local.lookAtLog(id),
    log: settings.log,
  })
  const permits = new RestorePermits()
  const { restoreNotes: notes } = core
  const cells = new CellsInProcess({ local, record, restored, search, permits, notes }, archived)
  const archiver = new Archiver({
    destination,
    cells,
    openReader: (id) => cells.openReader(id),
    paths: (id) => paths.cell(id),
    limits: settings.limits,
    queue: jobQueueLimits(settings),
    shipping: shipping && { ...shipping, guard, random: settings.random },
  })
  const backups = new BackupManager({
    destination,
    catalogBackup,
    verifications,
    archiver,
    permits,
    record,
    isLocal: (id) => local.isLocal(id),
    assertRunning: () => archiver.assertRunning(),
  })
  return { archiver, backups, search, replication: replicationOf(core, archiver, backups) }
}
