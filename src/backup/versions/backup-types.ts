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
  /** Ends the backup or restore: it then rejects, and leaves nothing behind. */
  signal?: AbortSignal | undefined
  /** Called while bytes are read, uploaded or downloaded. Must not throw. */
  onProgress?: ((event: BackupProgressEvent) => void) | undefined
  /** Asked when it has waited for its turn, just before it starts: what `check` throws refuses it. */
  permit?:
    | {
        /** Throws what it is then refused with. */
        check(): void
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
  /** Default: the newest. */
  version?: string | undefined
  /** Refuses the cell with `cell_not_found` if it is not this account's. */
  accountId?: string | undefined
}

/** What a restore has installed. */
export interface RestoreResult {
  /** The version that was restored. */
  version: string
  kind: BackupKind
  /** Bytes of the restored database. */
  sizeBytes: number
  /** Milliseconds. */
  durationMs: number
}
