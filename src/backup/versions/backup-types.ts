/** What callers ask of backups and restores, and what they are answered. */

export type BackupKind = 'snapshot' | 'incremental'

export interface BackupResult {
  version: string
  kind: BackupKind
  /** The version whose database image this one rests on; null if it holds one itself. */
  baseVersion: string | null
  /** Bytes of the stored object. */
  sizeBytes: number
  /** Of the stored object, in hexadecimal. */
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
  /** The newest, if none is named. */
  version?: string | undefined
  /** Only if the cell is this account's; without it, anybody's. */
  accountId?: string | undefined
}

export interface RestoreResult {
  version: string
  kind: BackupKind
  /** Bytes of the restored database. */
  sizeBytes: number
  durationMs: number
}
