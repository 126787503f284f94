import type { ManifestHead } from '../backup/archive/manifest.ts'
import { Archiver } from '../backup/archiver/archiver.ts'
import { BackupManager } from '../backup/backup-manager.ts'
import { CellsInProcess } from './cells-in-process.ts'
import type { LocalCells } from './local-cells.ts'
import { jobQueueLimits, shippingSettings } from './settings.ts'
import type { StoreCore } from './store-core.ts'
import type { Upkeep } from './upkeep.ts'

/** Backups and restores of the cells that this process opens. */
export interface ArchivingInProcess {
  archiver: Archiver
  backups: BackupManager
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
    core.recordRestored(id, manifest)
    upkeep.cellRestored(id)
  }
  const cells = new CellsInProcess({ local, record, restored }, archived)
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
    record,
    isLocal: (id) => local.isLocal(id),
    assertRunning: () => archiver.assertRunning(),
  })
  return { archiver, backups }
}
