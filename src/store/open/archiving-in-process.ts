import type { ManifestHead } from '../../backup/archive/manifest.ts'
import { Archiver } from '../../backup/archiver/archiver.ts'
import type { BaseReason } from '../../backup/changes/base-reason.ts'
import { jobQueueLimits, shippingSettings } from '../settings/settings.ts'
import type { StoreCore } from '../store-core.ts'
import type { Upkeep } from '../upkeep.ts'
import { type Archiving, newArchiving } from './archiving.ts'
import { CellsInProcess } from './cells-in-process.ts'
import type { LocalCells } from './local-cells.ts'

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
  const restored = (id: string, manifest: ManifestHead) => {
    core.lifecycle.restored(id, manifest)
    upkeep.cellRestored(id)
  }
  const needsBase = (id: string, reason: BaseReason) => upkeep.needsBase(id, reason)
  return newArchiving(core, {
    isLocal: (id) => local.isLocal(id),
    look: async (id) => local.lookAtLog(id),
    newArchiver: ({ destination, guard, search, permits }) => {
      const parts = { local, record, isDeleted, restored, needsBase, search, permits, notes }
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
