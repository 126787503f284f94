import fs from 'node:fs/promises'
import { settledBy } from '../../backup/archiver/archiver.ts'
import { BackupManager } from '../../backup/backup-manager.ts'
import { UnshippedSearch } from '../../backup/changes/unshipped-search.ts'
import { RestorePermits } from '../../backup/restore/restore-permits.ts'
import type { Log } from '../../base/log.ts'
import { type Replication, replicationOf } from '../../store/replication.ts'
import { jobQueueLimits, shippingSettings } from '../../store/settings.ts'
import type { StoreCore } from '../../store/store-core.ts'
import type { Upkeep } from '../../store/upkeep.ts'
import { ChildLink } from '../children/child-link.ts'
import { spawnArchiver } from '../children/spawn-child.ts'
import { ArchiverProcess } from './archiver-process.ts'
import { NodeCells } from './node-cells.ts'
import type { WorkerPool } from './worker-pool.ts'

/** Backups and restores of a node. */
export interface Archiving {
  archiver: ArchiverProcess
  backups: BackupManager
  replication: Replication
  /** For cells that no worker ships. */
  search: UnshippedSearch
}

/**
 * Joins the archiver with the node's catalog and workers.
 *
 * @param objectStore the URL, which the archiver opens for itself
 * @returns undefined without an object store
 */
export function newArchiving(
  core: StoreCore,
  workers: WorkerPool,
  upkeep: Upkeep,
  objectStore: string | undefined,
): Archiving | undefined {
  const { paths, clock, settings, destination, catalogBackup, verifications, guard } = core
  if (objectStore === undefined || destination === undefined || guard === undefined) return undefined
  if (catalogBackup === undefined || verifications === undefined) return undefined
  const { log, limits } = settings
  const { keep, keepTenant, historyMs, prune, maxLagMs } = settings.backups
  const search = new UnshippedSearch({
    isShipped: maxLagMs !== undefined,
    progress: destination.progress,
    paths: (id) => paths.cell(id),
    exists: (id) => core.findCell(id)?.deletedAt === null,
    look: async (cellId) => void (await workers.runTask({ task: 'look-at-log', cellId })),
    log,
  })
  const permits = new RestorePermits()
  const isLocal = (id: string) => {
    if (core.files.exists(id)) return true
    core.cellsFolder.assertHere()
    return false
  }
  const archiver = new ArchiverProcess({
    settings: {
      nodePid: process.pid,
      dataDir: paths.root,
      objectStore,
      storeId: core.id,
      limits,
      plans: { keep, keepTenant, historyMs, prune },
      queue: jobQueueLimits(settings),
      shipping: shippingSettings(settings),
    },
    cells: new NodeCells({ core, workers, upkeep, search, permits, isLocal }),
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
  destination.settled = settledBy(archiver)
  destination.collectedTo = () => archiver.shipping?.backedUpTo ?? null
  guard.held.listen((epoch) => archiver.held(epoch))
  destination.moved.listen(() => workers.mark('nothing stored'))
  destination.historiesEnded.listen(() => workers.mark('histories ended'))
  const record = (id: string) => core.findCell(id)
  const assertRunning = () => archiver.assertRunning()
  const backups = new BackupManager({
    destination,
    catalogBackup,
    verifications,
    archiver,
    permits,
    record,
    isLocal,
    assertRunning,
  })
  return { archiver, backups, search, replication: replicationOf(core, archiver, backups) }
}

/** Removes the unfinished backups of an archiver that has ended. */
async function removeSpool(directory: string, log: Log): Promise<void> {
  await fs.rm(directory, { recursive: true, force: true }).catch((err) => {
    log.warn({ err, directory }, 'could not remove the spool files of an archiver that has ended')
  })
}
