/** The options and results of backups and restores. */

/** `snapshot`: the whole cell. `incremental`: what changed since the newest backup. */
export type BackupKind = 'snapshot' | 'incremental'

/** Who asked for a backup: the schedule, the store's owner or program, or a tenant with a key. */
export type BackupOrigin = 'schedule' | 'owner' | 'tenant'

/** A stored backup. */
export interface BackupResult {
  /** Names the backup for a restore; it is the stored object's key. */
  version: string
  kind: BackupKind
  /** The version whose database image this one continues; null if it holds one itself. */
  baseVersion: string | null
  /** Bytes of the stored object. */
  sizeBytes: number
  /** SHA-256 of the stored object, in hexadecimal. */
  sha256: string
  /** Epoch milliseconds. */
  createdAt: number
  /** Milliseconds. */
  durationMs: number
}

/** How far a backup or restore has come. */
export interface BackupProgressEvent {
  phase: 'read' | 'compress' | 'upload' | 'download'
  /** Bytes of the phase that are done. */
  bytes: number
  /** Bytes of the whole phase. */
  total: number
  /** Milliseconds that the rest of the phase will take, at the rate of its last seconds; undefined until that is known. */
  etaMs?: number | undefined
}

/** What backups and restores have in common. */
export interface BackupOptions {
  /** Ends the backup or restore: it then rejects with the signal's reason, and leaves nothing behind. */
  signal?: AbortSignal | undefined
  /** Called while bytes are read, uploaded or downloaded. Must not throw. */
  onProgress?: ((event: BackupProgressEvent) => void) | undefined
  /** Asked when it has waited for its turn, just before it starts: what `check` throws refuses it. */
  permit?:
    | {
        /** Throws what it is then refused with. */
        check(): void
        /** Called with the bytes of a restored database once it is proven, before the cell is switched to it; may throw. */
        checkBuilt?(bytes: number): void
      }
    | undefined
  /** An id of yours, for the lines of the log and the traces about it. */
  requestId?: string | undefined
}

/** How a backup is made. */
export interface MakeBackupOptions extends BackupOptions {
  /** Default `owner`. What tenants ask for has a plan of its own, and never displaces other versions. */
  origin?: BackupOrigin | undefined
}

/** What is restored, and how. */
export interface RestoreOptions extends BackupOptions {
  /** Default: the newest. Not together with `timestamp`. */
  version?: string
  /** Epoch milliseconds: the cell as it was then, with the last commit at or before that time. Not together with `version`. */
  timestamp?: number
  /** Refuses the cell with `cell_not_found` if it is not this account's. */
  accountId?: string
}

/** What a restore has installed. */
export interface RestoreResult {
  /** The version that was restored. */
  version: string
  kind: BackupKind
  /**
   * Epoch milliseconds: the time of the last commit that was restored. If it is in the version, and not in what was shipped
   * after it, the version's time.
   */
  timestamp: number | null
  /**
   * Epoch milliseconds: a restore to this time brings the replaced state back. Null if there was none on this machine, if
   * nothing is shipped, or if what the cell committed last is in no object: after a restore, until its next version is stored.
   */
  replacedAt: number | null
  /** Bytes of the restored database. */
  sizeBytes: number
  /** Milliseconds. */
  durationMs: number
}

/** What a restore would restore. */
export interface PlanOptions {
  /** As for the restore. */
  version?: string
  /** As for the restore. */
  timestamp?: number
  /** Refuses the cell with `cell_not_found` if it is not this account's. */
  accountId?: string
  signal?: AbortSignal | undefined
}

/** What a restore would restore, and what it would read for that. */
export interface RestorePlan {
  /** The version that it would begin with, or restore. */
  version: string
  kind: BackupKind
  /** Epoch milliseconds, as in {@link RestoreResult}. */
  timestamp: number
  /** The objects that it would read, in their order. */
  objects: PlannedObject[]
  /** Bytes that it would read of them. */
  sizeBytes: number
  /** Those of them that were shipped after the version. */
  sizeOfLog: number
}

/** An object that a restore would read. */
export interface PlannedObject {
  key: string
  /** Bytes that it would read of it: of a log object, which holds many cells, only a part. */
  sizeBytes: number
}

/** A time for which each moment can be restored, both ends included. Epoch milliseconds. */
export interface RestorableRange {
  from: number
  to: number
}

/** One backup in a listing. */
export interface BackupInfo {
  /** Names the backup for a restore. */
  version: string
  kind: BackupKind
  /** Bytes of the stored object. */
  sizeBytes: number
  /** Epoch milliseconds. */
  createdAt: number
  /** The version whose database image this one rests on; null if it holds one itself. */
  baseVersion: string | null
}

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
