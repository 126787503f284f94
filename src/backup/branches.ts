import type { AccountPace } from '../base/fairness/account-pace.ts'
import { isCellId } from '../base/files/store-paths.ts'
import { type CellRecord, cellNotFound } from '../catalog/cell-registry.ts'
import type { Durability } from '../engine/cell-settings.ts'
import type { ArchiverClient, JobOptions } from './archiver/archiver.ts'
import type { BackupDestination } from './archiver/backup-destination.ts'
import { type CellSource, checkMoment } from './versions/backup-options.ts'
import type { RestoreResult } from './versions/backup-types.ts'
import { CellOwnership } from './versions/identity/cell-ownership.ts'

/** What asks the archiver for work on cells. */
export interface AskingParts {
  destination: BackupDestination
  archiver: ArchiverClient
  /** When an account may ask for what ships. */
  flushes: AccountPace
  /** A cell's record in the catalog, also of a deleted cell; undefined for an unknown id. */
  record(cellId: string): CellRecord | undefined
  /** Whether the cell's database file is on this machine. */
  isLocal(cellId: string): boolean
  /** @throws `store_closed` */
  assertRunning(): void
  /** @throws `cell_moving` if the cell is another node's */
  assertHere(cellId: string): void
}

/** What a new cell takes over from the cell whose state it has. */
export interface SourceFacts {
  accountId: string | null
  durability: Durability | null
}

export interface BuildBranchOptions extends JobOptions {
  /** The account that asks for it; undefined: the store's owner. */
  askedBy: string | undefined
}

/** Builds the files of new cells from the backups of other cells. */
export class BackupBranches {
  readonly #parts: AskingParts
  readonly #ownership: CellOwnership

  constructor(parts: AskingParts) {
    this.#parts = parts
    this.#ownership = new CellOwnership(parts.destination.index, parts.record)
  }

  /**
   * @param accountId refuses a cell that is not this account's; undefined: any
   * @throws `cell_not_found` if neither the catalog nor the object store has the cell, or it is another account's
   */
  async factsOf(
    { cellId, ...moment }: CellSource,
    accountId: string | undefined,
    signal?: AbortSignal,
  ): Promise<SourceFacts> {
    const { destination, record, assertRunning, assertHere } = this.#parts
    assertRunning()
    if (isCellId(cellId)) assertHere(cellId)
    if (cellId === destination.storeId || !isCellId(cellId)) throw cellNotFound()
    const known = record(cellId)
    if (known !== undefined && (accountId === undefined || known.accountId === accountId)) {
      checkMoment(moment, cellId)
      return known
    }
    // Another account's cell is searched for like one that nobody has: the object store's answer tells nothing of it.
    const versions = await destination.index.versions(cellId, { signal })
    this.#ownership.checkRecord(cellId, accountId)
    const manifest = await this.#ownership.manifestOf(cellId, versions, accountId, { signal })
    checkMoment(moment, cellId)
    return { accountId: manifest.account_id, durability: manifest.durability }
  }

  /**
   * Builds the state of `source` as `incoming.db` of the new cell `cellId`, which nobody knows yet. If it fails, that file
   * is removed again; the folder is the caller's.
   *
   * @throws `backup_not_found`, `backup_corrupt`, `cell_full`; what the object store throws
   */
  async build(
    cellId: string,
    source: CellSource,
    { accountId }: SourceFacts,
    { askedBy, ...options }: BuildBranchOptions,
  ): Promise<RestoreResult> {
    const account = accountId ?? ''
    const { archiver, isLocal, flushes } = this.#parts
    const ships = archiver.shipping !== undefined && source.version === undefined && isLocal(source.cellId)
    if (askedBy !== undefined && ships) await flushes.turn(askedBy, options.signal)
    const request = {
      cellId,
      account,
      need: 'requested',
      source: source.cellId,
      version: source.version,
      timestamp: source.timestamp,
      accountId: accountId ?? undefined,
    } as const
    return await this.#parts.archiver.branch(request, options)
  }
}
