import { cutPage, decodeCursor, pageLimit } from '../../base/paging.ts'
import { compareVersions, parseVersion } from './object-keys.ts'
import type { StoredVersion } from './stored-manifest.ts'
import type { BackupInfo } from './version-index.ts'

export interface BackupListOptions {
  /** `nextCursor` of the page before. */
  cursor?: string | undefined
  /** Versions on the page; 100 by default, 1,000 at most. */
  limit?: number | undefined
  /** Refuses the cell with `cell_not_found` if it is not this account's. */
  accountId?: string | undefined
  signal?: AbortSignal | undefined
}

export interface BackupList {
  /** Newest first, without versions whose manifests show that they cannot be restored: a page may hold fewer than its limit. */
  backups: BackupInfo[]
  /** Pass as `cursor` for the next page; null after the last. */
  nextCursor: string | null
}

const PAGE_MAX = 1_000

/** One page of a cell's versions. */
export class BackupPage {
  readonly #limit: number
  readonly #after: string | undefined

  /** @throws `invalid_request` for a bad cursor or limit */
  constructor(cellId: string, { cursor, limit }: BackupListOptions) {
    this.#limit = pageLimit(limit, PAGE_MAX)
    if (cursor === undefined) return
    this.#after = decodeCursor(cursor, (version) =>
      parseVersion(version)?.cellId === cellId ? version : undefined,
    )
  }

  /** @param all newest first */
  of(all: readonly StoredVersion[]): { page: StoredVersion[]; nextCursor: string | null } {
    const after = this.#after
    const rest = after === undefined ? all : all.filter(({ version }) => compareVersions(after, version) < 0)
    return cutPage(rest, this.#limit, ({ version }) => version)
  }
}
