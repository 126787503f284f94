import { isCellId } from '../base/store-paths.ts'
import { cellNotFound } from '../catalog/cell-registry.ts'
import type { BackupDestination } from './backup-destination.ts'
import { type BackupList, type BackupListOptions, BackupPage } from './versions/backup-page.ts'
import type { CellOwnership } from './versions/cell-ownership.ts'
import { type BackupInfo, listingOf } from './versions/version-index.ts'

/** Shows which versions of a cell the object store holds. Needs none of the cell's local files. */
export class BackupListing {
  readonly #destination: BackupDestination
  readonly #ownership: CellOwnership

  constructor(destination: BackupDestination, ownership: CellOwnership) {
    this.#destination = destination
    this.#ownership = ownership
  }

  /** @throws `cell_not_found` for a cell that neither the catalog nor the object store knows; `invalid_request` */
  async list(cellId: string, options: BackupListOptions = {}): Promise<BackupList> {
    this.assertCell(cellId)
    const { accountId, signal } = options
    this.#ownership.checkRecord(cellId, accountId)
    const part = new BackupPage(cellId, options)
    const { index } = this.#destination
    const all = await index.versions(cellId, { signal })
    await this.#ownership.checkManifests(cellId, all, accountId, { signal })
    const { page, nextCursor } = part.of(all)
    return { backups: await index.describe(cellId, page, listingOf(all), { signal }), nextCursor }
  }

  /** One listing, and at most one read. */
  async latest(cellId: string, signal?: AbortSignal): Promise<BackupInfo | undefined> {
    this.assertCell(cellId)
    const { index } = this.#destination
    const all = await index.versions(cellId, { signal })
    const [info] = await index.describe(cellId, all.slice(0, 1), listingOf(all), { signal })
    return info
  }

  /** The catalog's id and malformed ids name no cell. @throws `cell_not_found` */
  assertCell(cellId: string): void {
    if (cellId === this.#destination.storeId || !isCellId(cellId)) throw cellNotFound()
  }
}
