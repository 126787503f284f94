import type { Clock } from '../../base/clock.ts'
import type { CellPaths } from '../../base/files/store-paths.ts'
import type { Limits } from '../../base/options/limits.ts'
import { CellError } from '../../errors.ts'
import { identityOfCell, type ManifestHead } from '../archive/manifest.ts'
import type { BaseStart } from '../changes/log/cell-cuts.ts'
import type { CellCutter, CutArguments, CutCall } from '../changes/log/cell-cutter.ts'
import type { BackupSource } from '../create/backup-runner.ts'
import type { DatabaseReader } from '../create/database-reader.ts'
import { PreparedStates } from '../restore/build/prepared-states.ts'
import { CellBrancher, CellPreparer, CellRestorer, type CellRestorerParts } from '../restore/cell-restorer.ts'
import type { RestoredNames } from '../restore/install/cell-installer.ts'
import { RefusedRestores } from '../restore/install/restored-mark.ts'
import { NeedsVersion, type ShipOptions } from '../restore/target/find-target.ts'
import { type Flushed, type FlushOptions, holdsAllOf } from '../shipping/flushes.ts'
import type { Shipper } from '../shipping/shipper.ts'
import { type ShippingStatus, shippingStatus } from '../shipping/shipping-status.ts'
import type { VerifyResult, VerifyTask } from '../verify/verify-types.ts'
import { VersionVerifier } from '../verify/version-verifier.ts'
import type {
  BackupKind,
  BackupOptions,
  BackupOrigin,
  BackupResult,
  RestoreResult,
} from '../versions/backup-types.ts'
import type { RestoredMark } from '../versions/object-keys.ts'
import type { BackupDestination } from './backup-destination.ts'
import { type CellPort, cellTurn } from './cell-port.ts'
import { withEta } from './eta.ts'
import type { ArchiverLoad, Lane, Need } from './job.ts'
import { JobQueue, type JobQueueLimits, type Turn } from './job-queue.ts'
import { newShipper, type ShippingParts } from './new-shipper.ts'

/** What all requests say. */
export interface ArchiverRequest {
  cellId: string
  /** The account whose turn it takes; empty for the store's owner. */
  account: string
  need: Need
}

export interface BackupRequest extends ArchiverRequest {
  kind: BackupKind
  origin: BackupOrigin
  /** What the cell has committed is shipped next: of a new cell, the version with which its history begins is enough. */
  isForMoments?: boolean | undefined
}

export interface RestoreRequest extends ArchiverRequest {
  /** Undefined for the newest. */
  version: string | undefined
  /** Epoch milliseconds; not together with `version`. */
  timestamp?: number | undefined
  /** Refuses the cell if it is not this account's. */
  accountId: string | undefined
  /** Does nothing if the cell's data is on this machine when the turn comes. */
  onlyIfLost: boolean
}

/** The new cell `cellId` gets the state of another cell. */
export interface BranchRequest extends ArchiverRequest {
  /** The other cell. */
  source: string
  /** Without it and a timestamp, the cell as it is now, as far as that is stored. */
  version: string | undefined
  /** Epoch milliseconds; not together with `version`. */
  timestamp: number | undefined
  /** Refuses the other cell if it is not this account's. */
  accountId: string | undefined
}

export interface VerifyRequest extends ArchiverRequest, VerifyTask {}

export interface JobOptions extends BackupOptions {
  /** Called when the job's turn has come. */
  onBegin?: (() => void) | undefined
}

export interface MadeBackup {
  result: BackupResult
  /** What a version index needs to describe the version without reading it. */
  head: ManifestHead | undefined
}

/** The archiver as others see it: it may be in this process or in another. */
export interface ArchiverClient {
  backup(request: BackupRequest, options: JobOptions): Promise<MadeBackup>
  /** @returns undefined if it did nothing */
  restore(request: RestoreRequest, options: JobOptions): Promise<RestoreResult | undefined>
  /** Builds a new cell's `incoming.db`. Touches neither the cell whose state it gets nor its backups. */
  branch(request: BranchRequest, options: JobOptions): Promise<RestoreResult>
  /** Changes no cell and no backup. */
  verify(request: VerifyRequest, options: JobOptions): Promise<VerifyResult>
  /** Builds the state of a cell that is about to come to this node: its restore goes on from there. Touches neither the cell nor its backups. */
  prepare(request: ArchiverRequest, options: JobOptions): Promise<void>
  /** Resolves in its turn: every backup and restore of the cell that had begun has ended. */
  settle(request: ArchiverRequest, options: JobOptions): Promise<void>
  /** Somebody needs the waiting jobs of a cell more than before. */
  raise(cellId: string, need: Need): void
  /** The cells of jobs that wait or run. */
  readonly cellsAtWork: string[]
  /** What waits, and what runs. */
  readonly load: ArchiverLoad
  /**
   * Resolves once everything that was committed before this call is in the object store, and counts there.
   *
   * @param options.cells the caller wants to know only of these cells whether they have a history
   * @throws `object_store_not_configured` if nothing is shipped, `taken_over`, what the object store throws, the signal's reason
   */
  flush(signal?: AbortSignal, options?: Pick<FlushOptions, 'cells'>): Promise<Flushed>
  /** How far the object store has what the cells commit; undefined if nothing is shipped. */
  readonly shipping: ShippingStatus | undefined
}

export interface ArchiverParts {
  destination: BackupDestination
  cells: CellPort
  paths(cellId: string): CellPaths
  /** Reads the database file of a cell under backup. */
  openReader(cellId: string, start: BaseStart): Promise<DatabaseReader>
  /** How large a restored cell may be. */
  limits: Limits
  queue: JobQueueLimits
  /** Undefined: what cells commit is not shipped. */
  shipping: ShippingParts | undefined
}

/**
 * Does the work of backups and restores: all of it that needs the object store. It opens no cell. The process that has
 * a cell only names the files of a backup and switches to a restored database (cell-port.ts). One archiver per store
 * has all queues and bounds.
 */
export class Archiver implements ArchiverClient {
  readonly #parts: ArchiverParts
  readonly #cells: CellPort
  readonly #queue: JobQueue
  readonly #restorer: CellRestorer
  readonly #brancher: CellBrancher
  readonly #preparer: CellPreparer
  readonly #prepared: PreparedStates
  readonly #refused: RefusedRestores
  readonly #verifier: VersionVerifier
  readonly #shipper: Shipper | undefined
  readonly #clock: Clock

  constructor(parts: ArchiverParts) {
    const { destination, cells, paths, limits, queue, shipping } = parts
    const { objectStore, clock } = destination
    this.#parts = parts
    this.#cells = cells
    this.#clock = clock
    this.#queue = new JobQueue(queue, clock)
    this.#prepared = new PreparedStates(destination.spoolDirectory, clock)
    const restoring: CellRestorerParts = {
      ...destination,
      prepared: this.#prepared,
      paths,
      limits,
      ship: shipping && ((cellId, options) => this.#ship(cellId, options)),
      isStored: (cellId) => destination.isStored(cellId),
      recordOf: async (cellId) => (await cells.findCell(cellId)).record,
    }
    this.#restorer = new CellRestorer(restoring)
    this.#brancher = new CellBrancher(restoring)
    this.#preparer = new CellPreparer(restoring)
    const needsBase = (cellId: string) => cells.needsBase(cellId, 'restore refused')
    this.#refused = new RefusedRestores({ objectStore, needsBase, clock })
    this.#verifier = new VersionVerifier({ ...destination, limits })
    this.#shipper = shipping && newShipper(shipping, destination, cells)
    destination.lastLogObject = () => this.#shipper?.lastLogObject ?? null
    destination.collectedTo = () => this.#shipper?.state.backedUpTo ?? null
    destination.settled = settledBy(this)
    this.#shipper?.start()
  }

  backup(request: BackupRequest, options: JobOptions): Promise<MadeBackup> {
    const { cellId, need, kind, origin, isForMoments = false } = request
    return this.#job('backup', request, options, async (turn) => {
      const { runner, index } = this.#parts.destination
      const source = this.#source(cellId, turn.signal)
      try {
        // Nobody waits for what the cell has committed: it is shipped once its history has begun.
        const beginsHistory = need === 'background' || isForMoments
        const result = await runner.run(cellId, source, { kind, origin, beginsHistory, ...turn })
        return { result, head: index.known(result.version)?.head }
      } finally {
        const ended = this.#cells.cut(cellId, { method: 'end', args: [] })
        // It comes after the call that has begun the backup, in the same queue.
        if (source.isBegun) await ended
        else ended.catch(() => {})
      }
    })
  }

  async restore(request: RestoreRequest, options: JobOptions): Promise<RestoreResult | undefined> {
    const isForMoments = request.timestamp !== undefined
    return await this.#onceStored({ ...request, isForMoments }, options, (onlyStored) =>
      this.#restore(request, options, onlyStored),
    )
  }

  #restore(
    request: RestoreRequest,
    options: JobOptions,
    onlyStored: boolean,
  ): Promise<RestoreResult | undefined> {
    const { cellId, version, timestamp, accountId, onlyIfLost } = request
    return this.#job('restore', request, options, async (turn) => {
      try {
        const start = await cellTurn(this.#cells.beginRestore(cellId), this.#clock, turn.signal)
        if (onlyIfLost && start.isLocal) return undefined
        const existed = start.record?.deletedAt === null
        const noteMark = (name: string) => this.#cells.noteMark(cellId, name, existed)
        const dropHistory = () => this.#cells.dropHistory(cellId)
        const install = (manifest: ManifestHead, names: RestoredNames, result: RestoreResult) =>
          this.#cells.install(cellId, { manifest, ...names, existed, result })
        const checkBuilt = (bytes: number) => this.#cells.checkBuilt(cellId, bytes)
        const refused = (marks: readonly RestoredMark[]) => this.#refused.add(cellId, marks)
        const calls = { checkBuilt, dropHistory, noteMark, install, refused }
        const requested = { ...start, recovers: onlyIfLost, version, timestamp, accountId, onlyStored }
        return await this.#restorer.run(cellId, { ...requested, ...calls, ...turn })
      } finally {
        await this.#cells.endRestore(cellId)
      }
    })
  }

  async branch(request: BranchRequest, options: JobOptions): Promise<RestoreResult> {
    const source = { ...request, cellId: request.source, isForMoments: true }
    return await this.#onceStored(source, options, () => this.#branch(request, options))
  }

  /** The present state of a cell may need a version first, and a new cell its first. Nobody waits for that in a slot of the restores. */
  async #onceStored<T>(
    { cellId, account, need, isForMoments }: ArchiverRequest & Pick<BackupRequest, 'isForMoments'>,
    { signal }: JobOptions,
    run: (onlyStored: boolean) => Promise<T>,
  ): Promise<T> {
    try {
      return await run(false)
    } catch (error) {
      if (!(error instanceof NeedsVersion)) throw error
      const request = {
        cellId,
        account,
        need,
        isForMoments,
        kind: 'incremental',
        origin: 'schedule',
      } as const
      await this.backup(request, { signal })
      return await run(true)
    }
  }

  #branch(request: BranchRequest, options: JobOptions): Promise<RestoreResult> {
    const { cellId, source, version, timestamp, accountId } = request
    return this.#job('restore', request, options, async (turn) => {
      const known = await this.#cells.findCell(source)
      const recovers = version === undefined && timestamp === undefined
      const requested = { version, timestamp, accountId, recovers }
      return await this.#brancher.run(source, cellId, { ...requested, ...known, ...turn })
    })
  }

  verify(request: VerifyRequest, options: JobOptions): Promise<VerifyResult> {
    const { account: _, need, ...task } = request
    return this.#job('verify', request, options, ({ signal, onProgress }) =>
      this.#verifier.run(task, { signal, onProgress, isDrill: need === 'background' }),
    )
  }

  async prepare(request: ArchiverRequest, options: JobOptions): Promise<void> {
    await this.#job('restore', request, options, async (turn) => {
      const known = await this.#cells.findCell(request.cellId)
      if (!known.isLocal) await this.#preparer.run(request.cellId, { ...known, ...turn })
    })
  }

  settle(request: ArchiverRequest, options: JobOptions): Promise<void> {
    return this.#job('backup', request, options, async () => {})
  }

  #job<T>(
    lane: Lane,
    { cellId, account, need }: ArchiverRequest,
    { signal, permit, onProgress, onBegin }: JobOptions,
    work: (turn: Turn & Pick<JobOptions, 'onProgress'>) => Promise<T>,
  ): Promise<T> {
    const timed = withEta(onProgress, this.#clock)
    return this.#queue.run({ lane, cellId, account, need }, signal, async (turn) => {
      onBegin?.()
      permit?.check()
      return await work({ ...turn, onProgress: timed })
    })
  }

  #source(cellId: string, signal: AbortSignal): BackupSource & { isBegun: boolean } {
    const { cells, destination, openReader } = this.#parts
    const cut = <Step extends keyof CellCutter>(method: Step, ...args: CutArguments<Step>) =>
      cells.cut(cellId, { method, args } as unknown as CutCall) as Promise<
        Awaited<ReturnType<CellCutter[Step]>>
      >
    const source: BackupSource & { isBegun: boolean } = {
      isBegun: false,
      begin: async () => {
        const { record, ...state } = await cellTurn(cells.beginBackup(cellId), this.#clock, signal)
        source.isBegun = true
        return { ...state, identity: identityOfCell(destination.storeId, record) }
      },
      dropChain: () => cut('dropChain'),
      claimVersion: (version) => cut('claimVersion', version),
      openReader: (start) => openReader(cellId, start),
      cuts: {
        beginBase: (beginsHistory) => cut('beginBase', beginsHistory),
        endBase: (id, version) => cut('endBase', id, version),
        cutIncremental: (version, versionsMax) => cut('cutIncremental', version, versionsMax),
        stored: (backup) => cut('stored', backup),
        failed: () => cut('failed'),
      },
    }
    return source
  }

  get cellsAtWork(): string[] {
    return this.#queue.cells
  }

  get load(): ArchiverLoad {
    return this.#queue.load
  }

  /** @returns whether all that the cell has committed is stored now */
  async #ship(cellId: string, { signal, accountId }: ShipOptions): Promise<boolean> {
    const isAtOnce = accountId === undefined
    return holdsAllOf(cellId, await this.flush(signal, { isAtOnce, cells: [cellId] }))
  }

  async flush(signal?: AbortSignal, options?: FlushOptions): Promise<Flushed> {
    if (this.#shipper === undefined) throw notShipped()
    return await this.#shipper.flush(signal, options)
  }

  get shipping(): ShippingStatus | undefined {
    return this.#shipper && shippingStatus(this.#shipper.state, this.#clock.now())
  }

  /** @throws `store_closed` once {@link stop} was called */
  assertRunning(): void {
    this.#queue.assertRunning()
  }

  raise(cellId: string, need: Need): void {
    this.#queue.raise(cellId, need)
  }

  /**
   * Takes no more requests, and ships what the cells have committed. Its jobs may end until the deadline; then they are
   * cancelled, and leave nothing behind.
   */
  async stop(deadline: AbortSignal): Promise<void> {
    const refused = this.#refused.stop(deadline)
    await Promise.all([this.#queue.stop(deadline), this.#shipper?.stop(deadline), refused])
    this.#prepared.close()
  }
}

/** For a purge: somebody waits for it. */
export function settledBy(archiver: Pick<ArchiverClient, 'settle'>): BackupDestination['settled'] {
  return (cellId, options) => archiver.settle({ cellId, account: '', need: 'waiting' }, options)
}

export function notShipped(): CellError {
  return new CellError(
    'object_store_not_configured',
    'What cells commit is not shipped: there is no object store, or backups.maxLagMs (--max-lag) is off.',
  )
}
