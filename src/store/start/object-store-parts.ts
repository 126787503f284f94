import fs from 'node:fs/promises'
import { BackupDestination } from '../../backup/archiver/backup-destination.ts'
import { CatalogBackup } from '../../backup/catalog-backup.ts'
import { BackupProgressTable } from '../../backup/changes/progress-table.ts'
import type { ObjectStore } from '../../backup/object-store/object-store.ts'
import { BackgroundRecovery } from '../../backup/recovery/background-recovery.ts'
import type { RecoveredCatalog } from '../../backup/recovery/catalog-recovery.ts'
import { VerificationTable } from '../../backup/verify/verification-table.ts'
import { RetentionTable } from '../../backup/versions/retention/retention-table.ts'
import { VersionFindings } from '../../backup/versions/version-findings.ts'
import { mapLimit } from '../../base/async/map-limit.ts'
import type { StorePaths } from '../../base/files/store-paths.ts'
import { tenuresOf } from '../../catalog/assignment/assignment.ts'
import type { Ownership } from '../../catalog/assignment/ownership.ts'
import type { Catalog, UnknownCells } from '../../catalog/catalog.ts'
import type { CellRegistry } from '../../catalog/cell-registry.ts'
import type { LocalState } from '../../catalog/local-state.ts'
import type { CellFiles } from '../open/cell-files.ts'
import type { UnreadableCells } from '../open/unreadable-cells.ts'
import type { Residence } from '../residence/residence.ts'
import type { StoreSettings } from '../settings/settings.ts'
import type { CellsFolder } from './cells-folder.ts'
import type { PrefixEntry } from './prefix-entry.ts'

/** What a store has if it has an object store. */
interface ObjectStoreParts {
  /** Where backups go, and how far they have come. */
  destination: BackupDestination
  catalogBackup: CatalogBackup
  verifications: VerificationTable
  /** Undefined if it is turned off. */
  recovery: BackgroundRecovery | undefined
}

interface StoreAround extends LostCellsParts {
  objectStore: ObjectStore
  entry: PrefixEntry | undefined
  ownership: Ownership
  /** If the catalog came back from a backup in this start. */
  recoveredCatalog: RecoveredCatalog | undefined
  unknownCells: UnknownCells
  catalog: Catalog
  state: LocalState
  files: CellFiles
  settings: StoreSettings
}

export function newObjectStoreParts(store: StoreAround): ObjectStoreParts {
  const { entry, recoveredCatalog, unknownCells, catalog, state, registry, settings } = store
  const { clock } = settings
  const { storeId } = catalog
  const destination = newDestination(store)
  destination.progress.removeUnmade((id) => id === storeId || registry.find(id) !== undefined)
  if (recoveredCatalog !== undefined) {
    // If the listing lagged, the next one shows newer backups: then this catalog is an old one, and somebody must hear of it.
    destination.trackers.get(storeId).claimVersion(recoveredCatalog.newest)
    unknownCells.note({ from: recoveredCatalog.madeAt, until: clock.now() })
  }
  const catalogBackup = new CatalogBackup(catalog, state, destination)
  const verifications = new VerificationTable(state)
  destination.moved.listen(() => verifications.clear())
  if (entry !== undefined) {
    entry.goesOnAfterOthers = () => {
      unknownCells.note({ from: 0, until: clock.now() })
      destination.setNothingStored()
    }
    entry.goesOnInDoubt = () => destination.endHistories()
  }
  const recovery = settings.backups.recoverInBackground ? newRecovery(store) : undefined
  return { destination, catalogBackup, verifications, recovery }
}

function newDestination({
  objectStore,
  entry,
  ownership,
  catalog,
  state,
  paths,
  settings,
}: StoreAround): BackupDestination {
  const { storeId } = catalog
  const { backups, limits, clock, log } = settings
  return new BackupDestination({
    objectStore,
    storeId,
    paths: (id) => (id === storeId ? paths.catalogCell : paths.cell(id)),
    progress: new BackupProgressTable(state),
    findings: new VersionFindings(state),
    retention: new RetentionTable(state),
    plans: backups,
    spoolDirectory: paths.spool,
    threadsKept: backups.restoreConcurrency,
    cellBytesMax: limits.cellBytesMax,
    // The catalog has its own backups.
    isShipped: (id) => backups.maxLagMs !== undefined && id !== storeId,
    epoch: () => entry?.guard.epoch,
    prefix: ownership.prefix,
    storeOf: entry && ((prefix) => entry.storeOf(prefix)),
    tenuresOf: (id) => ownership.assignment && tenuresOf(ownership.assignment, id),
    clock,
    log,
  })
}

function newRecovery(store: StoreAround): BackgroundRecovery {
  const { objectStore, registry, files, settings } = store
  const { clock, random, log, backups } = settings
  return new BackgroundRecovery({
    objectStore,
    lostCells: (signal) => lostCells(store, signal),
    accountOf: (id) => registry.find(id)?.accountId ?? '',
    cellCount: () => registry.countAll(),
    databaseBytes: (id) => files.databaseBytes(id),
    atOnce: backups.recoveryConcurrency,
    clock,
    random,
    log,
  })
}

interface LostCellsParts {
  residence: Residence
  registry: CellRegistry
  paths: StorePaths
  cellsFolder: CellsFolder
  unreadable: UnreadableCells
}

/** Questions to the system at a time: each takes a thread of the pool, which the fsyncs of commits need too. */
const AT_ONCE = 4

/**
 * The cells of this node whose database is not on this machine, the one first that was made last. One `stat` for each cell,
 * outside of the event loop. An unreadable cell is not lost.
 *
 * @throws `cells_missing` if nobody can say that they are lost
 */
async function lostCells(
  { registry, paths, cellsFolder, unreadable, residence }: LostCellsParts,
  signal: AbortSignal,
): Promise<string[]> {
  const lost: string[] = []
  const look = (id: string) => unreadable.lookAside(id, () => isHere(paths.cell(id).database))
  let cursor: string | undefined
  do {
    const page = registry.list({ cursor, limit: registry.pageMax })
    const here = await mapLimit(page.cells, AT_ONCE, async ({ id }) =>
      signal.aborted || !residence.mayBegin(id) ? undefined : await look(id),
    )
    for (const [i, { id }] of page.cells.entries())
      if (here[i] === false && residence.mayBegin(id)) lost.push(id)
    cursor = page.nextCursor ?? undefined
  } while (cursor !== undefined && !signal.aborted)
  if (lost.length > 0) cellsFolder.assertHere()
  return lost.reverse()
}

/** @throws if that cannot be found out: what cannot be read is not lost */
async function isHere(file: string): Promise<boolean> {
  try {
    await fs.stat(file)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false
    throw error
  }
}
