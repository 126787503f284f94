/** Options and results of backups and restores. */

export type BackupKind = 'snapshot' | 'incremental'

export interface BackupResult {
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
  durationMs: number
}

export interface BackupProgressEvent {
  phase: 'read' | 'upload' | 'download'
  bytes: number
  total: number
}

export interface BackupOptions {
  signal?: AbortSignal | undefined
  onProgress?: ((event: BackupProgressEvent) => void) | undefined
}

export interface RestoreOptions extends BackupOptions {
  /** The newest by default. */
  version?: string | undefined
  /** Restores only a cell of this account; without it, any cell. */
  accountId?: string | undefined
}

export interface RestoreResult {
  version: string
  kind: BackupKind
  /** Bytes of the restored database. */
  sizeBytes: number
  durationMs: number
}
