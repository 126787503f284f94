import type { ManifestHead } from '../../backup/archive/manifest.ts'
import { Archiver, type ArchiverClient } from '../../backup/archiver/archiver.ts'
import type { BackupDestination } from '../../backup/archiver/backup-destination.ts'
import { BackupManager } from '../../backup/backup-manager.ts'
import type { BaseReason } from '../../backup/changes/base-reason.ts'
import { UnshippedSearch } from '../../backup/changes/unshipped-search.ts'
import type { EpochGuard } from '../../backup/fence/epoch-guard.ts'
import { RestorePermits } from '../../backup/versions/work-in-progress.ts'
import { jobQueueLimits, shippingSettings } from '../settings/settings.ts'
import type { StoreCore } from '../store-core.ts'
import type { Upkeep } from '../upkeep.ts'
import { CellsInProcess } from './cells-in-process.ts'
import type { LocalCells } from './local-cells.ts'
import { type Replication, replicationOf } from './replication.ts'

/** Backups and restores of a store's cells, whichever processes have them open. */
export interface Archiving<A> {
  archiver: A
  backups: BackupManager
  replication: Replication
  /** For cells that no process has opened yet, or any more. */
  search: UnshippedSearch
}

/** What an archiver is made of, besides the cells. */
export interface ArchiverStart {
  destination: BackupDestination
  guard: EpochGuard
  search: UnshippedSearch
  permits: RestorePermits
}

/** What differs with the processes that have the cells open. */
interface ArchivingParts<A> {
  /** Whether the cell's database is on this machine. */
  isLocal(cellId: string): boolean
  /** As `UnshippedSearchParts.look`. */
  look(cellId: string): Promise<void>
  newArchiver(start: ArchiverStart): A
}

/** @returns undefined without an object store */
export function newArchiving<A extends ArchiverClient & { assertRunning(): void }>(
  core: StoreCore,
  { isLocal, look, newArchiver }: ArchivingParts<A>,
): Archiving<A> | undefined {
  const { paths, settings, destination, catalogBackup, verifications, guard } = core
  if (destination === undefined || catalogBackup === undefined) return undefined
  if (verifications === undefined || guard === undefined) return undefined
  const search = new UnshippedSearch({
    isShipped: settings.backups.maxLagMs !== undefined,
    progress: destination.progress,
    paths: (id) => paths.cell(id),
    exists: (id) => core.findCell(id)?.deletedAt === null,
    look,
    log: settings.log,
  })
  const permits = new RestorePermits()
  const archiver = newArchiver({ destination, guard, search, permits })
  const backups = new BackupManager({
    destination,
    catalogBackup,
    verifications,
    archiver,
    permits,
    record: (id) => core.findCell(id),
    isLocal,
    assertRunning: () => archiver.assertRunning(),
    assertHere: (id) => core.residence.assertHere(id),
  })
  return { archiver, backups, search, replication: replicationOf(core, archiver, backups) }
}

/** Joins an archiver with the cells that this process opens. @returns undefined without an object store */
export function archivingInProcess(
  core: StoreCore,
  local: LocalCells,
  upkeep: Upkeep,
): Archiving<Archiver> | undefined {
  const { paths, settings, restoreNotes: notes } = core
  const { archived } = local
  if (archived === undefined) return undefined
  const shipping = shippingSettings(settings)
  const record = (id: string) => core.findCell(id)
  const isDeleted = (id: string, committedAt: number) => core.isDeleted(id, committedAt)
  const tenuresOf = (id: string) => core.tenuresOf(id)
  const stampsOf = (id: string) => core.stampsOf(id)
  const restored = async (id: string, manifest: ManifestHead) => {
    await core.recordRestored(id, manifest)
    upkeep.cellRestored(id)
  }
  const needsBase = (id: string, reason: BaseReason) => upkeep.needsBase(id, reason)
  return newArchiving(core, {
    isLocal: (id) => local.isLocal(id),
    look: async (id) => local.lookAtLog(id),
    newArchiver: ({ destination, guard, search, permits }) => {
      const logsLeft = () => core.residence.logsLeft
      const ofCluster = { tenuresOf, stampsOf, stamps: core.residence.stamps, logsLeft }
      const parts = { local, record, isDeleted, restored, needsBase, search, permits, notes, ...ofCluster }
      const cells = new CellsInProcess(parts, archived)
      return new Archiver({
        destination,
        cells,
        openReader: (id, start) => cells.openReader(id, start),
        paths: (id) => paths.cell(id),
        limits: settings.limits,
        queue: jobQueueLimits(settings),
        shipping: shipping && { ...shipping, guard, random: settings.random },
      })
    },
  })
}
