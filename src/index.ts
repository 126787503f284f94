// The store and its cells

// Accounts and keys
export { type AccountRecord, Accounts } from './auth/accounts.ts'
export { type ApiKeyRecord, ApiKeys, type CreatedApiKey, type VerifiedApiKey } from './auth/api-keys.ts'
export type { IdempotencyKey } from './auth/idempotency.ts'
// Backups and where they go
export { BackupManager } from './backup/backup-manager.ts'
export { FileObjectStore } from './backup/object-store/file/file-object-store.ts'
export type {
  CallOptions,
  GetOptions,
  ListOptions,
  ObjectBody,
  ObjectContent,
  ObjectEntry,
  ObjectStore,
  TransferOptions,
} from './backup/object-store/object-store.ts'
export { S3ObjectStore } from './backup/object-store/s3/s3-object-store.ts'
export type { BackupList } from './backup/versions/backup-page.ts'
export type {
  BackupKind,
  BackupOptions,
  BackupProgressEvent,
  BackupResult,
  RestoreOptions,
  RestoreResult,
} from './backup/versions/backup-types.ts'
export type { BackupInfo } from './backup/versions/version-index.ts'
export type { Clock, Timer } from './base/clock.ts'
export { DEFAULT_LIMITS, type Limits, type ResultLimits } from './base/limits.ts'
export type { Log } from './base/log.ts'
export type { CellListOptions, CellPage, CellRecord } from './catalog/cell-registry.ts'
export type { Durability, SqlPolicy } from './engine/cell-settings.ts'
export type { QuarantineState } from './engine/quarantine.ts'
export type {
  SqlParam,
  SqlParams,
  SqlReal,
  SqlResult,
  SqlRow,
  SqlValue,
} from './engine/statements/sql-values.ts'
export type { SqlOptions } from './engine/statements/statement-runner.ts'
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
export { Cell } from './store/cell.ts'
export type { CreateCellOptions } from './store/cell-directory.ts'
export { CellStore, type CloseOptions } from './store/cell-store.ts'
export type { BackupSettings, StoreOptions } from './store/settings.ts'
