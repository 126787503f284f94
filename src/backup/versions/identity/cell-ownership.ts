import { type CellRecord, cellNotFound } from '../../../catalog/cell-registry.ts'
import type { ManifestHead } from '../../archive/manifest.ts'
import type { CallOptions } from '../../object-store/object-store.ts'
import type { StoredVersion } from '../stored-manifest.ts'
import { listingOf, type VersionIndex } from '../version-index.ts'

/** Checks the owner of a cell: in the catalog, or in its backups if the catalog does not have the cell. */
export class CellOwnership {
  readonly #index: VersionIndex
  readonly #record: (cellId: string) => CellRecord | undefined

  constructor(index: VersionIndex, record: (cellId: string) => CellRecord | undefined) {
    this.#index = index
    this.#record = record
  }

  /** @throws `cell_not_found` if the catalog says that the cell belongs to another account */
  checkRecord(cellId: string, accountId: string | undefined): void {
    const record = this.#record(cellId)
    if (record !== undefined && accountId !== undefined && record.accountId !== accountId)
      throw cellNotFound()
  }

  /**
   * Checks a cell that the catalog does not have.
   *
   * @param versions of the cell, newest first
   * @throws `cell_not_found` if no version can be restored, or the cell belongs to another account
   */
  async checkManifests(
    cellId: string,
    versions: readonly StoredVersion[],
    accountId: string | undefined,
    options: CallOptions = {},
  ): Promise<void> {
    if (this.#record(cellId) === undefined) await this.manifestOf(cellId, versions, accountId, options)
  }

  /**
   * The newest manifest of a cell that the catalog does not have: it says whose the cell was.
   *
   * @param versions of the cell, newest first
   * @throws as {@link checkManifests}
   */
  async manifestOf(
    cellId: string,
    versions: readonly StoredVersion[],
    accountId: string | undefined,
    options: CallOptions = {},
  ): Promise<ManifestHead> {
    const listing = listingOf(versions)
    for (const { version } of versions) {
      const manifest = await this.#index.restorable(version, cellId, listing, options)
      if (manifest === undefined) continue
      if (accountId === undefined || manifest.account_id === accountId) return manifest
      break
    }
    throw cellNotFound()
  }
}
