import type { RestorableRange } from './backup-types.ts'
import type { BackupInfo } from './version-index.ts'

/** Which versions, and how many of them. */
export interface BackupListOptions {
  /** `nextCursor` of the page before. */
  cursor?: string | undefined
  /** Versions on the page; 100 by default, 1,000 at most. */
  limit?: number | undefined
  /** Refuses the cell with `cell_not_found` if it is not this account's. */
  accountId?: string
  signal?: AbortSignal | undefined
}

/** A page of the versions of a cell. */
export interface BackupList {
  /** Newest first, without versions whose manifests show that they cannot be restored: a page may hold fewer than its limit. */
  backups: BackupInfo[]
  /** Pass as `cursor` for the next page; null after the last. */
  nextCursor: string | null
  /**
   * The times that can be restored from the versions on this page, newest first. What the cell committed between two of them
   * is in no backup. A range may go on where the next page's newest one ends.
   */
  restorable: RestorableRange[]
}
