// The store and its cells

// Accounts and keys
export { type AccountRecord, Accounts } from './auth/accounts.ts'
export { type ApiKeyRecord, ApiKeys, type CreatedApiKey, type VerifiedApiKey } from './auth/api-keys.ts'
export type { IdempotencyKey } from './auth/idempotency.ts'
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
export { FileObjectStore } from './backup/file-object-store.ts'
export type {
  CallOptions,
  GetOptions,
  ListOptions,
  ObjectBody,
  ObjectContent,
  ObjectEntry,
  ObjectStore,
  TransferOptions,
} from './backup/object-store.ts'
export { S3ObjectStore } from './backup/s3-object-store.ts'
export { Cell } from './cell.ts'
export type { Durability, SqlOptions, SqlPolicy } from './engine/cell-database.ts'
export type { CellListOptions, CellPage, CellRecord } from './engine/cell-registry.ts'
export type { Clock, Timer } from './engine/clock.ts'
export { DEFAULT_LIMITS, type Limits, type ResultLimits } from './engine/limits.ts'
export type { Log } from './engine/log.ts'
export type { QuarantineState } from './engine/quarantine.ts'
export type { SqlParam, SqlParams, SqlReal, SqlResult, SqlRow, SqlValue } from './engine/sql-values.ts'
// Errors, and what can be injected
export {
  CellError,
  type CellErrorCode,
  type CellErrorKind,
  isCellError,
  type QuarantineReason,
} from './errors.ts'
// Over HTTP
export { createHandler } from './http/fetch-handler.ts'
export type { HandlerOptions } from './http/handler-options.ts'
export { createListener } from './http/node-listener.ts'
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
// Keys and values
export { Kv } from './kv/kv.ts'
export type { BackupSettings, StoreOptions } from './settings.ts'
export { CellStore, type CloseOptions, type CreateCellOptions } from './store.ts'
