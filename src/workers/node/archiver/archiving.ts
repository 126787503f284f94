import fs from 'node:fs/promises'
import { settledBy } from '../../../backup/archiver/archiver.ts'
import type { Log } from '../../../base/log.ts'
import { processIdentity } from '../../../catalog/directory-lock.ts'
import { type ArchiverStart, type Archiving, newArchiving } from '../../../store/open/archiving.ts'
import { jobQueueLimits, shippingSettings } from '../../../store/settings/settings.ts'
import type { StoreCore } from '../../../store/store-core.ts'
import type { Upkeep } from '../../../store/upkeep.ts'
import { ChildLink } from '../../children/child-link.ts'
import { spawnArchiver } from '../../children/spawn-child.ts'
import type { WorkerPool } from '../dispatch/worker-pool.ts'
import type { CellDeletions } from '../placement/cell-deletions.ts'
import { ArchiverProcess } from './archiver-process.ts'
import { NodeCells } from './node-cells.ts'

/**
 * Joins the archiver's process with the node's catalog and workers.
 *
 * @param objectStore the URL, which the archiver opens for itself
 * @param deletions what the archiver has to know of them
 * @returns undefined without an object store
 */
export function archivingOfNode(
  core: StoreCore,
  workers: WorkerPool,
  upkeep: Upkeep,
  objectStore: string | undefined,
  deletions: Pick<CellDeletions, 'untilMoved'>,
): Archiving<ArchiverProcess> | undefined {
  if (objectStore === undefined) return undefined
  const isLocal = (id: string) => {
    if (core.files.exists(id)) return true
    core.cellsFolder.assertHere()
    return false
  }
  return newArchiving(core, {
    isLocal,
    look: async (cellId) => void (await workers.runTask({ task: 'look-at-log', cellId })),
    newArchiver: (start) => {
      const untilMoved = (cellId: string) => deletions.untilMoved(cellId)
      const cells = new NodeCells({ core, workers, upkeep, isLocal, untilMoved, ...start })
      const archiver: ArchiverProcess = newArchiver(core, cells, objectStore, start)
      const { destination, guard } = start
      destination.settled = settledBy(archiver)
      destination.collectedTo = () => archiver.shipping?.backedUpTo ?? null
      guard.held.listen((epoch) => archiver.setEpoch(epoch))
      destination.moved.listen(() => workers.resetHistories('nothing stored'))
      destination.historiesEnded.listen(() => workers.resetHistories('histories ended'))
      return archiver
    },
  })
}

function newArchiver(
  core: StoreCore,
  cells: NodeCells,
  objectStore: string,
  { destination, guard }: ArchiverStart,
): ArchiverProcess {
  const { paths, clock, settings } = core
  const { log, limits } = settings
  const { keep, keepTenant, historyMs, prune } = settings.backups
  return new ArchiverProcess({
    settings: {
      node: processIdentity(process.pid),
      dataDir: paths.root,
      objectStore,
      storeId: core.id,
      prefix: core.ownership.prefix,
      limits,
      plans: { keep, keepTenant, historyMs, prune },
      queue: jobQueueLimits(settings),
      shipping: shippingSettings(settings),
    },
    cells,
    startedAt: core.observed.startedAt,
    clock,
    log,
    spawn: (take) => new ChildLink(spawnArchiver(objectStore), take),
    publish: (identity) => core.publishArchiver(identity),
    epoch: () => guard.epoch,
    onTakenOver: (error) => guard.lose(error),
    onMoved: () => destination.moved.emit(),
    onObjectStoreCall: (ended) => core.observed.objectStoreCalls?.note(ended),
    onEnded: ({ pid }) => void removeSpool(paths.spoolOf(pid), log),
  })
}

/** Removes the unfinished backups of an archiver that has ended. */
async function removeSpool(directory: string, log: Log): Promise<void> {
  await fs.rm(directory, { recursive: true, force: true }).catch((err) => {
    log.warn({ err, directory }, 'could not remove the spool files of an archiver that has ended')
  })
}
