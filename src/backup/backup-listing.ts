import { isCellId } from '../base/files/store-paths.ts'
import { cutPage, decodeCursor, encodeCursor, pageLimit } from '../base/paging.ts'
import { cellNotFound } from '../catalog/cell-registry.ts'
import type { BackupDestination } from './archiver/backup-destination.ts'
import { restorableRanges } from './restore/target/restorable-ranges.ts'
import type { BackupInfo, BackupList, BackupListOptions } from './versions/backup-types.ts'
import type { CellOwnership } from './versions/identity/cell-ownership.ts'
import { compareVersions, parseVersion } from './versions/object-keys.ts'
import { listingOf } from './versions/version-index.ts'

const PAGE_MAX = 1_000

/** Lists the versions of a cell in the object store. Needs no local file of the cell. */
export class BackupListing {
  readonly #destination: BackupDestination
  readonly #ownership: CellOwnership

  constructor(destination: BackupDestination, ownership: CellOwnership) {
    this.#destination = destination
    this.#ownership = ownership
  }

  /** @throws `cell_not_found` if neither the catalog nor the object store has the cell; `invalid_request` */
  async list(cellId: string, options: BackupListOptions = {}): Promise<BackupList> {
    this.assertCell(cellId)
    const { accountId, signal } = options
    const limit = pageLimit(options.limit, PAGE_MAX)
    const after = cursorVersion(cellId, options.cursor)
    const { index, logs, tenuresOf } = this.#destination
    const { versions: all, marks } = await index.contents(cellId, { signal })
    // Not before: what the object store answers, and how long it takes, is the same for a cell that nobody has.
    this.#ownership.checkRecord(cellId, accountId)
    await this.#ownership.checkManifests(cellId, all, accountId, { signal })
    const rest = after === undefined ? all : all.filter(({ version }) => compareVersions(after, version) < 0)
    const { page: shown, nextCursor } = cutPage(rest, limit, ({ version }) => encodeCursor(version))
    const listing = listingOf(all)
    const described = await index.describe(cellId, shown, listing, { signal })
    const heads = await Promise.all(
      described.map(({ version }) => index.readable(version, cellId, listing, { signal })),
    )
    const backups = described.filter((_, i) => heads[i] !== undefined)
    const newer = after === undefined ? undefined : await index.restorable(after, cellId, listing, { signal })
    const versions = heads.filter((head) => head !== undefined)
    const page = { cellId, versions, newer, marks, tenures: tenuresOf(cellId) }
    const restorable = await restorableRanges(logs, page, { signal })
    return { backups, nextCursor, restorable }
  }

  /** How many stored versions the cell's account may have requested, also of those that cannot be restored. */
  async countRequested(cellId: string): Promise<number> {
    this.assertCell(cellId)
    const { index, retention } = this.#destination
    const versions = await index.versions(cellId)
    return retention.maybeRequested(cellId, versions).length
  }

  /** The newest version that can be restored. Takes no listing if this node stored it. */
  async latest(cellId: string, signal?: AbortSignal): Promise<BackupInfo | undefined> {
    this.assertCell(cellId)
    const { index } = this.#destination
    const stored = await index.newestStored(cellId, { signal })
    if (stored !== undefined) return stored
    const all = await index.versions(cellId, { signal })
    const listing = listingOf(all)
    for (const version of all) {
      const [info] = await index.describe(cellId, [version], listing, { signal })
      if (info !== undefined) return info
    }
    return undefined
  }

  /** @throws `cell_not_found` for a malformed id and for the catalog's */
  assertCell(cellId: string): void {
    if (cellId === this.#destination.storeId || !isCellId(cellId)) throw cellNotFound()
  }
}

/** The last version of the page before. @throws `invalid_request` for a cursor of another listing */
function cursorVersion(cellId: string, cursor: string | undefined): string | undefined {
  if (cursor === undefined) return undefined
  return decodeCursor(cursor, (version) => (parseVersion(version)?.cellId === cellId ? version : undefined))
}
