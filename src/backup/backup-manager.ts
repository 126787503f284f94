import { unlessAborted } from '../base/async/unless-aborted.ts'
import { AccountPace } from '../base/fairness/account-pace.ts'
import { isCellId } from '../base/files/store-paths.ts'
import { checkOptions, type Given } from '../base/options/option-shapes.ts'
import { type Paged, paged } from '../base/paging.ts'
import { cellNotFound } from '../catalog/cell-registry.ts'
import { CellError, isCellError } from '../errors.ts'
import { toBackupError } from './archive/backup-errors.ts'
import type { ArchiverLoad, Need } from './archiver/job.ts'
import { BackupListing } from './backup-listing.ts'
import { type BackupCounts, BackupReports } from './backup-reports.ts'
import { type AskingParts, BackupBranches } from './branches.ts'
import type { CatalogBackup } from './catalog-backup.ts'
import { CellRestores } from './cell-restores.ts'
import { storeBeforeDeletion } from './final-backup.ts'
import { CALL, type CallOptions } from './object-store/object-store.ts'
import { planRestore } from './restore/target/find-target.ts'
import { type Flushed, holdsAllOf } from './shipping/flushes.ts'
import type { ShippingStatus } from './shipping/shipping-status.ts'
import { Verification } from './verification.ts'
import type { VerificationTable } from './verify/verification-table.ts'
import { VERIFY, type VerifyOptions, type VerifyResult } from './verify/verify-types.ts'
import { checkMoment, LIST, MAKE_BACKUP, PLAN, RESTORE } from './versions/backup-options.ts'
import type {
  BackupInfo,
  BackupKind,
  BackupList,
  BackupListOptions,
  BackupOrigin,
  BackupResult,
  MakeBackupOptions,
  PlanOptions,
  RestoreOptions,
  RestorePlan,
  RestoreResult,
} from './versions/backup-types.ts'
import { CellOwnership } from './versions/identity/cell-ownership.ts'
import type { RestorePermits } from './versions/work-in-progress.ts'

interface BackupManagerParts extends Omit<AskingParts, 'flushes'> {
  catalogBackup: CatalogBackup
  verifications: VerificationTable
  permits: RestorePermits
}

/**
 * What an account asks for and what ships makes up to three log objects: once in five seconds, and ten times at once after a pause.
 * A hundred that wait have their turns within 500 s.
 */
const FLUSHES_OF_ACCOUNT = {
  perSecond: 0.2,
  burst: 10,
  waitingMax: 100,
  what: 'restores, plans of restores and copies of cells',
}

/** Backups of cells in the object store, and restores from them. Available as `store.backups`. */
export class BackupManager {
  readonly #parts: BackupManagerParts
  readonly #ownership: CellOwnership
  readonly #listing: BackupListing
  readonly #restores: CellRestores
  readonly #verification: Verification
  readonly #reports: BackupReports
  readonly #flushes: AccountPace
  /** @internal */
  readonly branches: BackupBranches

  /** @internal Use `store.backups`. */
  constructor(parts: BackupManagerParts) {
    this.#parts = parts
    this.#ownership = new CellOwnership(parts.destination.index, parts.record)
    this.#listing = new BackupListing(parts.destination, this.#ownership)
    const { destination, archiver, verifications: table } = parts
    this.#reports = new BackupReports(destination.log)
    this.#flushes = new AccountPace(FLUSHES_OF_ACCOUNT, destination.clock)
    const verification = new Verification({ destination, archiver, table, clock: destination.clock })
    this.#verification = verification
    this.#restores = new CellRestores({
      ...parts,
      flushes: this.#flushes,
      reports: this.#reports,
      foundDamage: (cellId, version, error) => verification.foundDamage(cellId, version, error),
    })
    this.branches = new BackupBranches({ ...parts, flushes: this.#flushes })
  }

  /**
   * Stores the whole cell as one object. Writers are not blocked.
   *
   * @throws `cell_not_found`, `busy`, `rate_limited`, `disk_full`, `object_store_unavailable`, `object_store_error`,
   * `object_store_mismatch`, `store_closed`; the signal's reason
   */
  async snapshot(cellId: string, options: MakeBackupOptions = {}): Promise<BackupResult> {
    this.#parts.assertHere(cellId)
    return await orReason(options?.signal, this.backup(cellId, 'snapshot', options))
  }

  /**
   * Stores the changes since the newest backup; or the whole cell, with `baseVersion: null`, if no backup can be continued.
   *
   * @throws as {@link snapshot}
   */
  async incremental(cellId: string, options: MakeBackupOptions = {}): Promise<BackupResult> {
    this.#parts.assertHere(cellId)
    return await orReason(options?.signal, this.backup(cellId, 'incremental', options))
  }

  /**
   * Restores a cell to a version or to a time, also a deleted cell and one without local data. What the cell has committed is
   * shipped before. The old database serves until the new one is complete and proven; then the switch is atomic. A failure
   * changes nothing.
   *
   * @throws `invalid_version`, `invalid_request`, `backup_not_found`, `backup_corrupt`, `restore_in_progress`, `cell_full`; as
   * {@link snapshot}
   */
  restore<O extends RestoreOptions & Given<O, RestoreOptions>>(
    cellId: string,
    options?: O,
  ): Promise<RestoreResult>
  async restore(cellId: string, options: RestoreOptions = {}): Promise<RestoreResult> {
    checkOptions(options, RESTORE)
    this.#parts.assertRunning()
    this.#parts.assertHere(cellId)
    this.#listing.assertCell(cellId)
    const { accountId } = options
    checkMoment(options, cellId)
    this.#ownership.checkRecord(cellId, accountId)
    return await orReason(options.signal, this.#restores.request(cellId, options))
  }

  /**
   * What a restore would restore now, from which objects, and how many bytes it would read. Changes no cell. For a moment, it
   * first ships what is pending, as the restore does.
   *
   * @throws as {@link restore}
   */
  plan<O extends PlanOptions & Given<O, PlanOptions>>(cellId: string, options?: O): Promise<RestorePlan>
  async plan(cellId: string, options: PlanOptions = {}): Promise<RestorePlan> {
    checkOptions(options, PLAN)
    const { archiver, assertRunning, destination, isLocal, record } = this.#parts
    assertRunning()
    this.#parts.assertHere(cellId)
    this.#listing.assertCell(cellId)
    checkMoment(options, cellId)
    const { index, logs, reader } = destination
    const isStored = (id: string) => destination.isStored(id)
    const { accountId, signal } = options
    const ship = async (id: string) => {
      if (accountId !== undefined) await this.#flushes.turn(accountId, signal)
      return holdsAllOf(id, await archiver.flush(signal, { cells: [id] }))
    }
    const recordOf = async (id: string) => record(id)
    const parts = { index, logs, reader, ship: archiver.shipping && ship, isStored, recordOf }
    const tenures = destination.tenuresOf(cellId)
    const request = { ...options, record: record(cellId), isLocal: isLocal(cellId), tenures }
    const plan = planRestore(parts, cellId, request).catch((error) => {
      throw toBackupError(error, signal)
    })
    return await orReason(signal, plan)
  }

  /**
   * Proves that a version can be restored, by restoring it into a folder that is removed again: every checksum, a complete
   * chain in order, and SQLite's check. Counts the rows of each table. Retention keeps the version that was proven last.
   *
   * @param cellId a cell's, also of a deleted one; or the store's own id for the catalog
   * @throws `backup_corrupt` with the object and the member, `backup_not_found`, `invalid_version`; `disk_full` if its restore
   * would take the last 256 MiB of the disk; as {@link restore}
   */
  verify<O extends VerifyOptions & Given<O, VerifyOptions>>(
    cellId: string,
    options?: O,
  ): Promise<VerifyResult>
  verify(cellId: string, options: VerifyOptions = {}): Promise<VerifyResult> {
    return orReason(options?.signal, this.prove(cellId, options, 'requested'))
  }

  /** @internal @param need `background` for a drill */
  async prove(cellId: string, options: VerifyOptions, need: Need): Promise<VerifyResult> {
    checkOptions(options, VERIFY)
    const { assertRunning, destination } = this.#parts
    assertRunning()
    if (cellId !== destination.storeId) this.#listing.assertCell(cellId)
    return await this.#verification.verify(cellId, options, need)
  }

  /**
   * One page of the versions of a cell, newest first; with `for await`, all of them from this page on.
   *
   * @throws `cell_not_found` if neither the catalog nor the object store has the cell; `invalid_request`
   */
  list<O extends BackupListOptions & Given<O, BackupListOptions>>(
    cellId: string,
    options?: O,
  ): Paged<Promise<BackupList>, BackupInfo>
  list(cellId: string, options: BackupListOptions = {}): Paged<Promise<BackupList>, BackupInfo> {
    const list = async (cursor?: string) => {
      checkOptions(options, LIST)
      return await this.#listing.list(cellId, cursor === undefined ? options : { ...options, cursor })
    }
    return paged<BackupList, BackupInfo, Promise<BackupList>>(list(), {
      entries: ({ backups }) => backups,
      next: list,
    })
  }

  /** How many stored versions of a cell its account may have requested. Reads none. @throws `cell_not_found` @internal */
  countRequested(cellId: string): Promise<number> {
    return this.#listing.countRequested(cellId)
  }

  /** The newest backup that can be restored, or undefined. @throws `cell_not_found` */
  latest(cellId: string, signal?: AbortSignal): Promise<BackupInfo | undefined> {
    return this.#listing.latest(cellId, signal)
  }

  /**
   * Makes sure that a cell's data is on this machine. If its local files are lost, the newest backup is restored; the
   * cell never appears empty. Parallel calls share one restore.
   *
   * @throws `no_backup` if the cell has none; as {@link restore}
   */
  async ensureLocal(cellId: string): Promise<void> {
    if (!isCellId(cellId)) throw cellNotFound()
    await this.recoverIfLost(cellId, 'waiting')
  }

  /**
   * As {@link ensureLocal}.
   *
   * @param need decides when its turn comes
   * @param signal ends the restore, also for those that share it: the store is closed
   * @internal
   */
  async recoverIfLost(cellId: string, need: Need, signal?: AbortSignal): Promise<void> {
    const { isLocal, assertHere } = this.#parts
    if (!isLocal(cellId)) assertHere(cellId)
    await this.#restores.recoverIfLost(cellId, need, signal)
  }

  /**
   * @param need `background` for a scheduled backup
   * @param isLast the cell is about to be deleted
   * @internal
   */
  async backup(
    cellId: string,
    kind: BackupKind,
    options: MakeBackupOptions,
    need: Need = 'requested',
    isLast = false,
  ): Promise<BackupResult> {
    checkOptions(options, MAKE_BACKUP)
    this.#parts.assertRunning()
    this.#assertExists(cellId)
    const { origin = 'owner', requestId, signal } = options
    const run = () => this.#backup(cellId, kind, { ...options, origin }, need, isLast)
    return await this.#reports.backup({ cellId, kind, origin, requestId, signal }, run)
  }

  /** Stores what a cell has not stored yet. Its deletion follows in any case. @internal */
  async beforeDeletion(cellId: string): Promise<void> {
    const { archiver, destination, isLocal, record } = this.#parts
    if (!this.#exists(cellId) || !isLocal(cellId)) return
    if (!destination.progress.find(cellId).dirty && destination.isStored(cellId)) return
    const { clock, log } = destination
    const accountId = record(cellId)?.accountId
    await storeBeforeDeletion(cellId, {
      turn: async (signal) => {
        if (accountId != null) await this.#flushes.turn(accountId, signal)
      },
      flush: async (signal) => holdsAllOf(cellId, await archiver.flush(signal, { cells: [cellId] })),
      backUp: (signal) =>
        this.backup(cellId, 'incremental', { origin: 'schedule', signal }, 'requested', true),
      clock,
      log,
    })
  }

  /** Ends what waits for its turn to ship: the store is being closed. @internal */
  stop(): void {
    this.#flushes.stop(new CellError('store_closed', 'The store is closed.'))
  }

  /** Since the start of this process. @internal */
  get counts(): BackupCounts {
    return this.#reports.counts
  }

  /** How far the object store has what the cells commit; undefined if nothing is shipped. */
  get shipping(): ShippingStatus | undefined {
    return this.#parts.archiver.shipping
  }

  /**
   * Resolves once everything that was committed before this call is in the object store, and counts there.
   *
   * @throws `object_store_not_configured` if nothing is shipped, `taken_over`, what the object store throws, the signal's reason
   */
  async flush(options: CallOptions = {}): Promise<Flushed> {
    checkOptions(options, CALL)
    return await this.#parts.archiver.flush(options.signal)
  }

  /** Work that waits for the archiver, and work that it does. @internal */
  get load(): ArchiverLoad {
    return this.#parts.archiver.load
  }

  async #backup(
    cellId: string,
    kind: BackupKind,
    { origin, ...jobOptions }: MakeBackupOptions & { origin: BackupOrigin },
    need: Need,
    isLast: boolean,
  ): Promise<BackupResult> {
    const { archiver, catalogBackup, destination, isLocal, record } = this.#parts
    const { signal } = jobOptions
    // Without a wait in between, jobs of a cell run in the order of their requests.
    if (!isLocal(cellId)) {
      await unlessAborted(this.recoverIfLost(cellId, need), signal).catch((error) => {
        throw toBackupError(error, signal)
      })
    }
    const account = record(cellId)?.accountId ?? ''
    const request = { cellId, account, need, kind, origin }
    const { result, head } = await archiver.backup(request, jobOptions).catch((error) => {
      throw this.#exists(cellId) ? error : cellNotFound()
    })
    // The archiver may have an index of its own.
    if (head !== undefined) destination.index.stored(head, result.sizeBytes)
    // With the deletion itself, the catalog follows within a second.
    if (!isLast) await catalogBackup.ensureStored(need === 'background', signal)
    return result
  }

  #assertExists(cellId: string): void {
    if (!this.#exists(cellId)) throw cellNotFound()
  }

  #exists(cellId: string): boolean {
    return this.#parts.record(cellId)?.deletedAt === null
  }
}

export function objectStoreNotConfigured(): CellError {
  return new CellError(
    'object_store_not_configured',
    'The store has no object store. Open it with the objectStore option.',
  )
}

/**
 * What a caller is told of work that its signal has ended: the signal's reason, as of every other call. Inside, and in the log, an
 * ended backup or restore is `busy`.
 *
 * @throws what the work rejects with; the signal's reason
 */
export async function orReason<T>(signal: AbortSignal | undefined, work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw signal?.aborted && isCellError(error, 'busy') ? signal.reason : error
  }
}
