import { isCellId } from '../base/store-paths.ts'
import { type CellRecord, cellNotFound } from '../catalog/cell-registry.ts'
import type { Durability } from '../engine/cell-settings.ts'
import type { ArchiverClient, JobOptions } from './archiver/archiver.ts'
import type { BackupDestination } from './archiver/backup-destination.ts'
import type { RestoreResult } from './versions/backup-types.ts'
import { CellOwnership } from './versions/cell-ownership.ts'
import { type CellSource, checkMoment } from './versions/cell-source.ts'

export interface BackupBranchesParts {
  destination: BackupDestination
  archiver: ArchiverClient
  record(cellId: string): CellRecord | undefined
  /** @throws `store_closed` */
  assertRunning(): void
}

/** What a new cell takes over from the cell whose state it has. */
export interface SourceFacts {
  accountId: string | null
  durability: Durability | null
}

/** Builds the files of new cells from the backups of other cells. */
export class BackupBranches {
  readonly #parts: BackupBranchesParts
  readonly #ownership: CellOwnership

  constructor(parts: BackupBranchesParts) {
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
    const { destination, record, assertRunning } = this.#parts
    assertRunning()
    if (cellId === destination.storeId || !isCellId(cellId)) throw cellNotFound()
    this.#ownership.checkRecord(cellId, accountId)
    checkMoment(moment, cellId)
    const known = record(cellId)
    if (known !== undefined) return known
    const versions = await destination.index.versions(cellId, { signal })
    const manifest = await this.#ownership.manifestOf(cellId, versions, accountId, { signal })
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
    options: JobOptions,
  ): Promise<RestoreResult> {
    const account = accountId ?? ''
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
