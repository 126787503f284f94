import { BackupDestination } from '../../backup/archiver/backup-destination.ts'
import { CatalogBackup } from '../../backup/catalog-backup.ts'
import { BackupProgressTable } from '../../backup/changes/progress-table.ts'
import type { ObjectStore } from '../../backup/object-store/object-store.ts'
import { BackgroundRecovery } from '../../backup/recovery/background-recovery.ts'
import type { RecoveredCatalog } from '../../backup/recovery/catalog-recovery.ts'
import { VerificationTable } from '../../backup/verify/verification-table.ts'
import { RetentionTable } from '../../backup/versions/retention/retention-table.ts'
import { VersionFindings } from '../../backup/versions/version-findings.ts'
import type { Catalog } from '../../catalog/catalog.ts'
import type { LocalState } from '../../catalog/local-state.ts'
import type { UnknownCells } from '../../catalog/unknown-cells.ts'
import type { CellFiles } from '../open/cell-files.ts'
import type { StoreSettings } from '../settings/settings.ts'
import { type LostCellsParts, lostCells } from './lost-cells.ts'
import type { PrefixEntry } from './prefix-entry.ts'

/** What a store has if it has an object store. */
export interface ObjectStoreParts {
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
      destination.markNothingStored()
    }
    entry.goesOnInDoubt = () => destination.endHistories()
  }
  const recovery = settings.backups.recoverInBackground ? newRecovery(store) : undefined
  return { destination, catalogBackup, verifications, recovery }
}

function newDestination({
  objectStore,
  entry,
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
