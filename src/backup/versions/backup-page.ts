import { CellError } from '../../errors.ts'
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

const PAGE_DEFAULT = 100
const PAGE_MAX = 1_000

/** Which part of a cell's versions a listing shows. */
export class BackupPage {
  readonly #limit: number
  readonly #after: string | undefined

  /** @throws `invalid_request` for a bad cursor or limit */
  constructor(cellId: string, { cursor, limit = PAGE_DEFAULT }: BackupListOptions) {
    if (!Number.isInteger(limit) || limit < 1 || limit > PAGE_MAX) {
      throw new CellError('invalid_request', `limit is a whole number from 1 to ${PAGE_MAX}.`, {
        field: 'limit',
        limit: PAGE_MAX,
      })
    }
    this.#limit = limit
    this.#after = cursor === undefined ? undefined : decodeCursor(cursor, cellId)
  }

  /** @param all newest first */
  of(all: readonly StoredVersion[]): { page: StoredVersion[]; nextCursor: string | null } {
    const after = this.#after
    const rest = after === undefined ? all : all.filter(({ version }) => compareVersions(after, version) < 0)
    const page = rest.slice(0, this.#limit)
    const last = page.at(-1)
    return {
      page,
      nextCursor: last !== undefined && rest.length > page.length ? encodeCursor(last.version) : null,
    }
  }
}

function encodeCursor(version: string): string {
  return Buffer.from(version).toString('base64url')
}

function decodeCursor(cursor: string, cellId: string): string {
  const version = Buffer.from(cursor, 'base64url').toString()
  if (parseVersion(version)?.cellId === cellId && encodeCursor(version) === cursor) return version
  throw new CellError('invalid_request', 'cursor is not one that a listing returned.', { field: 'cursor' })
}
