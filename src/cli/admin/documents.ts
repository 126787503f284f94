import type { ApiKeyRecord, CreatedApiKey } from '../../auth/api-keys.ts'
import type { BackupResult, RestoreResult } from '../../backup/versions/backup-types.ts'
import type { BackupInfo } from '../../backup/versions/version-index.ts'
import type { CellRecord } from '../../catalog/cell-registry.ts'
import { timeOf } from '../../http/time.ts'

/**
 * What commands print with `--json`. The names are those of the HTTP contract; since an owner sees every account's,
 * keys and cells say whose they are.
 */
export interface CreatedKeyDocument {
  id: string
  key: string
  name: string | null
  hint: string
  created_at: string
  account_id: string
}

export interface KeyDocument {
  id: string
  name: string | null
  hint: string
  created_at: string
  last_used_at: string | null
  account_id: string
}

export interface RevokedKeyDocument {
  id: string
  revoked: true
  revoked_at: string
}

export interface CellDocument {
  id: string
  name: string | null
  created_at: string
  account_id: string | null
}

export interface CellPageDocument {
  databases: CellDocument[]
  next_cursor: string | null
}

export interface BackupDocument {
  version: string
  kind: 'snapshot' | 'incremental'
  size_bytes: number
  sha256: string
  created_at: string
  duration_ms: number
  /** Only of an incremental: the version that it rests on, or null if it holds the whole cell itself. */
  base_version?: string | null
}

export interface RestoreDocument {
  restored: true
  version: string
  kind: 'snapshot' | 'incremental'
  size_bytes: number
  duration_ms: number
}

export interface StoredBackupDocument {
  version: string
  kind: 'snapshot' | 'incremental'
  size_bytes: number
  created_at: string
  base_version: string | null
}

export interface BackupPageDocument {
  backups: StoredBackupDocument[]
  next_cursor: string | null
}

export interface SqlDocument {
  columns: string[]
  rows: unknown[]
  row_count: number
  changes: number
  last_insert_rowid: number | string | null
  duration_ms: number
}

export function createdKeyDocument(created: CreatedApiKey, accountId: string): CreatedKeyDocument {
  const { id, key, name, hint, createdAt } = created
  return { id, key, name, hint, created_at: timeOf(createdAt), account_id: accountId }
}

export function keyDocument(record: ApiKeyRecord, accountId: string): KeyDocument {
  const { id, name, hint, createdAt, lastUsedAt } = record
  const times = { created_at: timeOf(createdAt), last_used_at: timeOf(lastUsedAt) }
  return { id, name, hint, ...times, account_id: accountId }
}

export function cellDocument({ id, name, createdAt, accountId }: CellRecord): CellDocument {
  return { id, name, created_at: timeOf(createdAt), account_id: accountId }
}

export function backupDocument(result: BackupResult): BackupDocument {
  const { version, kind, sizeBytes, sha256, createdAt, durationMs, baseVersion } = result
  const times = { created_at: timeOf(createdAt), duration_ms: roundMs(durationMs) }
  const document = { version, kind, size_bytes: sizeBytes, sha256, ...times }
  return kind === 'incremental' ? { ...document, base_version: baseVersion } : document
}

export function restoreDocument({ version, kind, sizeBytes, durationMs }: RestoreResult): RestoreDocument {
  return { restored: true, version, kind, size_bytes: sizeBytes, duration_ms: roundMs(durationMs) }
}

export function storedBackupDocument(backup: BackupInfo): StoredBackupDocument {
  const { version, kind, sizeBytes, createdAt, baseVersion } = backup
  return { version, kind, size_bytes: sizeBytes, created_at: timeOf(createdAt), base_version: baseVersion }
}

function roundMs(durationMs: number): number {
  return Math.round(durationMs * 1_000) / 1_000
}
