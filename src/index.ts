// The store and its cells
export { Cell } from './cell.ts'
export { CellStore, type CloseOptions, type CreateCellOptions } from './store.ts'
export type { BackupSettings, StoreOptions } from './settings.ts'
export type { CellListOptions, CellPage, CellRecord } from './engine/cell-registry.ts'
export type { Durability, SqlOptions, SqlPolicy } from './engine/cell-database.ts'
export type { SqlParam, SqlParams, SqlResult, SqlRow, SqlValue } from './engine/sql-values.ts'
export { DEFAULT_LIMITS, type Limits, type ResultLimits } from './engine/limits.ts'

// Keys and values
export type { Kv } from './kv/kv.ts'
export type {
  KvEntry,
  KvExpireResult,
  KvIncrResult,
  KvListOptions,
  KvPage,
  KvPutEntry,
  KvPutOptions,
  KvPutResult,
  KvTtlOptions,
} from './kv/entry.ts'

// Backups and where they go
export {
  type BackupInfo,
  type BackupKind,
  type BackupList,
  BackupManager,
  type BackupOptions,
  type BackupProgressEvent,
  type BackupResult,
  type RestoreOptions,
  type RestoreResult,
} from './backup/backup-manager.ts'
export type { ObjectBody, ObjectContent, ObjectEntry, ObjectStore } from './backup/object-store.ts'

// Accounts and keys
export type { AccountRecord, Accounts } from './auth/accounts.ts'
export type { ApiKeyRecord, ApiKeys, CreatedApiKey, VerifiedApiKey } from './auth/api-keys.ts'

// Errors, and what can be injected
export { CellError, type CellErrorCode, type CellErrorKind, isCellError } from './errors.ts'
export type { Clock, Timer } from './engine/clock.ts'
export type { Log } from './engine/log.ts'
