import { ACCOUNTS_SCHEMA, ACCOUNTS_UPGRADE, Accounts } from '../auth/accounts.ts'
import { API_KEYS_SCHEMA, API_KEYS_UPGRADE } from '../auth/api-key-table.ts'
import { ApiKeys } from '../auth/api-keys.ts'
import { FirstKey } from '../auth/first-key.ts'
import { IDEMPOTENCY_SCHEMA, Idempotency } from '../auth/idempotency.ts'
import type { ManifestHead } from '../backup/archive/manifest.ts'
import type { BackupDestination } from '../backup/archiver/backup-destination.ts'
import type { CatalogBackup } from '../backup/catalog-backup.ts'
import type { EpochGuard } from '../backup/fence/epoch-guard.ts'
import { remoteRefused } from '../backup/fence/epoch-holder.ts'
import type { CallOptions, ObjectStore } from '../backup/object-store/object-store.ts'
import type { BackgroundRecovery } from '../backup/recovery/background-recovery.ts'
import { findLastLog } from '../backup/shipping/stored/last-log.ts'
import type { VerificationTable } from '../backup/verify/verification-table.ts'
import type { LogNumber } from '../backup/versions/object-keys.ts'
import type { Retention } from '../backup/versions/retention/retention.ts'
import type { Stamps } from '../backup/versions/stamps.ts'
import { runAll } from '../base/async/run-all.ts'
import type { Clock } from '../base/clock.ts'
import { Turns } from '../base/fairness/turns.ts'
import type { StorePaths } from '../base/files/store-paths.ts'
import { type Paged, paged } from '../base/paging.ts'
import { AccountQuotas } from '../catalog/account-quotas.ts'
import { type RangeSpan, type Tenure, tenuresOf } from '../catalog/assignment/assignment.ts'
import type { Ownership } from '../catalog/assignment/ownership.ts'
import { Catalog, type CatalogSchema, UnknownCells } from '../catalog/catalog.ts'
import {
  CELLS_SCHEMA,
  type CellListOptions,
  type CellRecord,
  CellRegistry,
  type RecordPage,
} from '../catalog/cell-registry.ts'
import type { DirectoryLock, ProcessIdentity } from '../catalog/directory-lock.ts'
import { LocalState } from '../catalog/local-state.ts'
import { REQUESTED_BACKUPS_SCHEMA, RequestedBackups } from '../catalog/requested-backups.ts'
import type { Durability } from '../engine/cell-settings.ts'
import { longLogBytes } from '../engine/wal/checkpoints.ts'
import type { CellError } from '../errors.ts'
import { ExpiryHints } from '../kv/expiry/expiry-hints.ts'
import { CellBranches } from './cells/cell-branches.ts'
import { CellCensus, type CellLook, lookAtCells } from './cells/cell-census.ts'
import { CellCreations, type CreatedCell, type UnstoredCells } from './cells/cell-creations.ts'
import type {
  CellDirectory,
  CellPage,
  CreateCellOptions,
  ListedCell,
  PurgedCell,
} from './cells/cell-directory.ts'
import { CellImports } from './cells/cell-imports.ts'
import { CellLifecycle, purgeDeleted } from './cells/cell-lifecycle.ts'
import { CellNames } from './cells/cell-names.ts'
import { Spool } from './cells/spool-files.ts'
import { CellFiles } from './open/cell-files.ts'
import { UnreadableCells } from './open/unreadable-cells.ts'
import { LocalTenures } from './residence/local-tenures.ts'
import { Residence } from './residence/residence.ts'
import { checkCanBeRemote, databaseSettings, type StoreSettings } from './settings/settings.ts'
import type { StoreOptions } from './settings/store-options.ts'
import { CellsFolder } from './start/cells-folder.ts'
import { BuildNotes, type LeftFilesParts, removeLeftFiles, UnfinishedCells } from './start/left-files.ts'
import { newObjectStoreParts } from './start/object-store-parts.ts'
import type { PrefixEntry } from './start/prefix-entry.ts'
import { type StoreParts, startStore } from './start/start-store.ts'
import { StoreObservations } from './store-observations.ts'
import { ChangeHub } from './watch/change-hub.ts'

/**
 * The parts of the process that owns a store's directory: the directory's lock, the catalog with accounts and keys, the
 * local state, the object store, and the catalog's backup. It opens no cell: this process or its workers do.
 */
export class StoreCore implements CellDirectory {
  readonly paths: StorePaths
  readonly observed: StoreObservations
  readonly census: CellCensus
  readonly settings: StoreSettings
  /** Which cells are this node's. */
  readonly ownership: Ownership
  readonly residence: Residence
  readonly tenures: LocalTenures
  readonly state: LocalState
  readonly files: CellFiles
  readonly unreadable: UnreadableCells
  readonly spool: Spool
  /** Of the restores that build a database. */
  readonly restoreNotes: BuildNotes
  readonly cellsFolder: CellsFolder
  readonly registry: CellRegistry
  readonly names: CellNames
  readonly hints: ExpiryHints
  readonly accounts: Accounts
  readonly apiKeys: ApiKeys
  readonly requestedBackups: RequestedBackups
  readonly firstKey: FirstKey
  readonly turns = new Turns()
  /** Who watches cells. */
  readonly changes: ChangeHub
  readonly lifecycle: CellLifecycle
  readonly imports: CellImports
  readonly branches: CellBranches
  /** Says whether this node's epoch is the newest one. Undefined without an object store, as are the next four. */
  readonly guard: EpochGuard | undefined
  readonly destination: BackupDestination | undefined
  readonly catalogBackup: CatalogBackup | undefined
  readonly verifications: VerificationTable | undefined
  /** Undefined also if it is turned off. */
  readonly recovery: BackgroundRecovery | undefined
  readonly #catalog: Catalog
  readonly #lock: DirectoryLock
  readonly #objectStore: ObjectStore | undefined
  readonly #entry: PrefixEntry | undefined
  readonly #creations: CellCreations
  readonly #unknownCells: UnknownCells
  #closing: Promise<void> | undefined

  constructor({ paths, lock, entry, ownership, recoveredCatalog, ...given }: StoreParts) {
    const accountOf = (id: string) => this.registry.find(id)?.accountId
    const observed = new StoreObservations(given.settings, given.objectStore, accountOf)
    const { settings, objectStore } = observed
    this.observed = observed
    const { clock, log, limits } = settings
    this.paths = paths
    this.changes = new ChangeHub({
      settings: settings.watch,
      limits,
      clock,
      record: (id) => this.registry.require(id),
    })
    this.settings = settings
    this.#lock = lock
    this.#objectStore = objectStore
    this.#entry = entry
    this.ownership = ownership
    this.residence = new Residence(ownership)
    this.tenures = new LocalTenures(paths)
    this.guard = entry?.guard
    const catalogSettings = { ...databaseSettings(settings, 'full'), sqlPolicy: 'trusted' } as const
    const failed = (err: unknown) => log.error({ err }, 'upkeep of the catalog failed')
    this.#catalog = new Catalog(paths.catalog, catalogSettings, CATALOG_SCHEMA.upgrades, failed)
    let state: LocalState | undefined
    entry?.setStore(this.#catalog.storeId)
    try {
      state = new LocalState(paths.localState, objectStore?.url)
      this.state = state
      this.cellsFolder = new CellsFolder(paths.cells, state)
      this.cellsFolder.check()
      this.#logHowItWasLeft()
      this.accounts = new Accounts(this.#catalog, clock, limits.pageMax)
      const quotas = new AccountQuotas(settings.quotas, clock, (id) => this.accounts.quotasOf(id))
      this.apiKeys = new ApiKeys({ catalog: this.#catalog, accounts: this.accounts, quotas, clock, limits })
      this.firstKey = new FirstKey(this.#catalog, this.accounts, this.apiKeys)
      this.registry = new CellRegistry(this.#catalog, {
        pageMax: limits.pageMax,
        deletedMax: settings.quotas.cellsMax,
      })
      this.names = new CellNames(this.registry, log)
      this.requestedBackups = new RequestedBackups(this.#catalog)
      this.files = new CellFiles(paths)
      this.unreadable = new UnreadableCells(clock, log)
      this.spool = new Spool(paths.spool)
      const newCells = new BuildNotes(paths.spool, 'new-cell')
      this.restoreNotes = new BuildNotes(paths.spool, 'restore')
      const deletionNotes = new BuildNotes(paths.spool, 'deletion')
      this.#removeLeft({ newCells, deletionNotes, isOldCatalog: recoveredCatalog !== undefined })
      const unfinished = new UnfinishedCells(newCells)
      const { registry, files, unreadable } = this
      this.census = new CellCensus({ registry, files, unreadable, paths, residence: this.residence, clock })
      this.hints = new ExpiryHints(this.state)
      const { accounts, turns, cellsFolder } = this
      const idempotency = new Idempotency(this.#catalog, settings.quotas, clock)
      const { residence } = this
      const unstored = this.#unstoredCells()
      const ofFiles = { files, cellsFolder, unfinished, residence, newCellId: () => ownership.newCellId() }
      const parts = { accounts, registry, idempotency, quotas, turns, ...ofFiles, clock }
      const checkDurability = (durability: Durability) => this.#checkDurability(durability)
      const made = (id: string, accountId: string | null) => this.lifecycle.made(id, accountId)
      const creations = new CellCreations({
        catalog: this.#catalog,
        checkDurability,
        unstored,
        made,
        ...parts,
      })
      this.#creations = creations
      this.#unknownCells = new UnknownCells(this.#catalog)
      const unknownCells = this.#unknownCells
      const start = {
        entry,
        ownership,
        recoveredCatalog,
        unknownCells,
        catalog: this.#catalog,
        state,
        paths,
        settings,
      }
      const cells = { registry, files, cellsFolder, unreadable, residence }
      const stored = objectStore && newObjectStoreParts({ objectStore, ...start, ...cells })
      this.destination = stored?.destination
      this.catalogBackup = stored?.catalogBackup
      this.verifications = stored?.verifications
      this.recovery = stored?.recovery
      const { names, hints, changes, destination, catalogBackup, verifications, recovery } = this
      const ofCells = { state, registry, names, files, cellsFolder, hints, changes }
      const ofBackups = { destination, catalogBackup, verifications, recovery }
      const lifecycle = new CellLifecycle({ ...ofCells, ...ofBackups, deletionNotes, clock, log })
      this.lifecycle = lifecycle
      const imported = (id: string) => lifecycle.imported(id)
      const { spool } = this
      this.imports = new CellImports({ creations, files, paths, spool, settings, built: imported })
      this.branches = new CellBranches({ creations, files, log, built: (id) => lifecycle.branched(id) })
      this.guard?.lost.listen((error) => this.#takenOver(error))
    } catch (error) {
      state?.close()
      this.#catalog.close()
      throw error
    }
  }

  /**
   * Opens the store in the directory or the object store. Creates a new one only if both are proven empty
   * (invariant 14).
   * @throws as `CellStore.openOrCreate`
   */
  static openOrCreate(directory: string, options: StoreOptions): Promise<StoreCore> {
    return startStore('open-or-create', directory, options, CATALOG_SCHEMA, (parts) => new StoreCore(parts))
  }

  get id(): string {
    return this.#catalog.storeId
  }

  /** For the nodes of a cluster, which share it. */
  get catalog(): Catalog {
    return this.#catalog
  }

  get retention(): Retention | undefined {
    return this.destination?.retention
  }

  /** Epoch milliseconds. */
  get createdAt(): number {
    return this.#catalog.createdAt
  }

  get clock(): Clock {
    return this.settings.clock
  }

  createCell(options: CreateCellOptions = {}): CreatedCell {
    return this.#made(this.#creations.create(options))
  }

  async addCell(options: CreateCellOptions = {}): Promise<CreatedCell> {
    return this.#made(await this.#creations.createAside(options))
  }

  /** Undefined without a cluster. */
  tenuresOf(id: string): Tenure[] | undefined {
    const { assignment } = this.ownership
    return assignment && tenuresOf(assignment, id)
  }

  /** Undefined without a cluster. */
  stampsOf(id: string): Stamps | undefined {
    const after = this.tenuresOf(id)?.at(-1)?.stampsAfter
    return after === undefined ? undefined : { after, bound: this.ownership.stampBound }
  }

  /** Whether what the cell commits is acknowledged once it is in the object store. */
  isRemote(id: string): boolean {
    return (this.registry.find(id)?.durability ?? this.settings.durability) === 'remote'
  }

  inTurn<T>(accountId: string, creation: () => Promise<T>): Promise<T> {
    return this.#creations.inTurn(accountId, creation)
  }

  durably<T>(change: () => T): Promise<T> {
    return this.#catalog.durably(change)
  }

  get filesReplaced(): CellLifecycle['filesReplaced'] {
    return this.lifecycle.filesReplaced
  }

  databaseBytes(id: string): number {
    return this.files.databaseBytes(id)
  }

  storedBytes(id: string): number {
    return this.files.storedBytes(id, longLogBytes(this.settings.checkpointBytes))
  }

  checkRoomForCell(accountId: string): void {
    this.#creations.checkRoom(accountId)
  }

  holdRoomForCell(accountId: string, cellId: string): () => void {
    return this.#creations.holdRoom(accountId, cellId)
  }

  findCell(id: string): CellRecord | undefined {
    return this.registry.find(id)
  }

  /** Whether a cell was deleted that has committed something at this time (epoch milliseconds). False if nobody can tell. */
  isDeleted(id: string, committedAt: number): boolean {
    const record = this.findCell(id)
    return record === undefined ? !this.#unknownCells.mayExist(committedAt) : record.deletedAt !== null
  }

  backedUpTo(id: string): number | null {
    return this.destination?.backedUpTo(id) ?? null
  }

  renameCell(id: string, name: string | null): void {
    this.names.rename(id, name)
  }

  chargeRename(accountId: string): void {
    this.#creations.charge(accountId)
  }

  cells(options: CellListOptions = {}): Paged<CellPage, ListedCell> {
    const sizeOf = (id: string) => this.unreadable.look(id, () => this.files.sizeBytes(id)) ?? 0
    const page = (at: CellListOptions): CellPage => {
      const { cells, nextCursor } = this.registry.list(at)
      return {
        cells: cells.map((cell) => ({ ...cell, sizeBytes: sizeOf(cell.id) })),
        nextCursor,
      }
    }
    return paged<CellPage, ListedCell, CellPage>(page(options), {
      entries: ({ cells }) => cells,
      next: (cursor) => page({ ...options, cursor }),
    })
  }

  /** Tells all parts that a cell is restored; one that was deleted or unknown exists again. @throws as `CellLifecycle.restored` */
  async recordRestored(id: string, manifest: ManifestHead): Promise<void> {
    const record = () => this.lifecycle.restored(id, manifest)
    if (this.registry.find(id)?.deletedAt === null) record()
    else await this.durably(record)
  }

  cellRecords(options: CellListOptions = {}): Paged<RecordPage, CellRecord> {
    return this.registry.list(options)
  }

  lookAt(ids: readonly string[]): Promise<CellLook[]> {
    return lookAtCells(this, ids)
  }

  purgeCell(id: string, options: CallOptions = {}): Promise<PurgedCell> {
    return this.residence.during(id, () => purgeDeleted(this, id, options))
  }

  /** An empty cell survives a loss too. For that it needs a version, as one that has changed. */
  #unstoredCells(): UnstoredCells {
    return {
      add: (id, createdAt, isEmpty) => this.destination?.noteMade(id, createdAt, isEmpty),
      remove: (id) => this.destination?.progress.remove(id),
    }
  }

  #made(created: CreatedCell): CreatedCell {
    if (created.replayed === undefined) this.destination?.trackers.changed.emit(created.id)
    return created
  }

  #logHowItWasLeft(): void {
    const { log } = this.settings
    const { wasLeftOpen, movedFrom } = this.state
    if (wasLeftOpen) log.info({ directory: this.paths.root }, 'the last process did not close the store')
    if (movedFrom === undefined) return
    log.warn({ from: movedFrom }, 'the object store has changed: all backups start from the beginning there')
  }

  #removeLeft(notes: Pick<LeftFilesParts, 'newCells' | 'deletionNotes' | 'isOldCatalog'>): void {
    const { registry, files, unreadable, restoreNotes, paths, settings } = this
    removeLeftFiles({ registry, files, unreadable, restoreNotes, paths, log: settings.log, ...notes })
  }

  /** Resolves once every change of the catalog so far is in the object store; at once without an object store. */
  async catalogStored(): Promise<void> {
    await this.catalogBackup?.stored()
  }

  /** Publishes where the node listens for commands on this machine. */
  publishSocket(path: string | null): void {
    this.#lock.publishSocket(path)
  }

  /** Records the worker processes before they open cells of this store. */
  publishWorkers(workers: readonly ProcessIdentity[]): void {
    this.#lock.publishWorkers(workers)
  }

  /** Records the archiver process before it writes to this store; undefined without one. */
  publishArchiver(identity: ProcessIdentity | undefined): void {
    this.#lock.publishArchiver(identity)
  }

  /** The newest object of this node's log; null if there is none. */
  async lastLog(options: CallOptions & { known?: LogNumber | null } = {}): Promise<LogNumber | null> {
    await this.guard?.confirm({ signal: options.signal })
    const { guard } = this
    if (this.#objectStore === undefined || guard?.epoch === undefined) return null
    return (await findLastLog(this.#objectStore, guard.epoch, options)) ?? null
  }

  /** Cells of some ranges, or of all, whose files here are not of this node's present tenure: others have or may have written them since. */
  staleCells(among?: readonly RangeSpan[]): string[] {
    const { assignment, prefix } = this.ownership
    return assignment === undefined ? [] : this.tenures.cellsIn(this.tenures.stale(assignment, prefix, among))
  }

  /** Sets {@link staleCells} aside: no process has them open. What comes into the ranges from here on is of the present tenure. */
  setStaleAside(among?: readonly RangeSpan[]): void {
    const { tenures, settings, ownership } = this
    if (ownership.assignment === undefined) return
    const stale = this.staleCells(among)
    for (const id of stale) this.lifecycle.forgetLocal(id)
    if (stale.length > 0) {
      const folder = tenures.setAside(
        stale,
        new Date(settings.clock.now()).toISOString().replaceAll(/[-:]/g, ''),
      )
      const message =
        'files of cells that other nodes had since are set aside; remove them when nobody needs them'
      settings.log.warn({ folder, cells: stale.length }, message)
    }
    tenures.note(ownership.assignment, ownership.prefix, among)
  }

  /** Starts the catalog's backup. No cell was opened before. */
  start(): void {
    this.setStaleAside()
    this.catalogBackup?.start()
  }

  /**
   * Stores the catalog a last time within the deadline, and releases the directory. No process has a cell open. A repeat
   * is the same call.
   */
  close(deadline: AbortSignal = AbortSignal.abort()): Promise<void> {
    this.#closing ??= this.#close(deadline)
    return this.#closing
  }

  /** @throws `taken_over` once another node uses the object store */
  assertNotTakenOver(): void {
    this.guard?.assertNotLost()
  }

  #checkDurability(durability: Durability): void {
    const hasObjectStore = this.#objectStore !== undefined
    checkCanBeRemote(durability, this.settings, { hasObjectStore, code: 'invalid_request' })
    if (durability !== 'remote' || this.guard?.excludesOthers !== false) return
    throw remoteRefused('invalid_request', this.#objectStore?.url ?? '')
  }

  #takenOver(err: CellError): void {
    this.#catalog.refuseChanges(err)
    // What follows is committed elsewhere.
    this.changes.close(err)
    this.settings.log.error({ err }, 'this node was taken over: it changes nothing more')
  }

  async #close(deadline: AbortSignal): Promise<void> {
    await runAll([
      () => this.changes.close(),
      () => this.apiKeys.flush(),
      () => this.catalogBackup?.stop(deadline),
      () => this.destination?.close(),
      () => this.#catalog.close(),
      () => this.state.close(),
      () => this.#entry?.close(deadline),
      () => this.#objectStore?.close(),
      () => this.#lock.release(),
    ])
  }
}

/** The tables that the catalog's users add to it. */
export const CATALOG_SCHEMA: CatalogSchema = {
  tables: [CELLS_SCHEMA, ACCOUNTS_SCHEMA, API_KEYS_SCHEMA, IDEMPOTENCY_SCHEMA, REQUESTED_BACKUPS_SCHEMA],
  // 2: keys have scopes and expire, and accounts can be suspended. An earlier version of cellstore would ignore all that.
  upgrades: [ACCOUNTS_UPGRADE + API_KEYS_UPGRADE],
}
