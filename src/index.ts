// The public API: values are what a program constructs or calls. Every other class comes from a store, and so is
// exported as a type alone.

// A store and its cells

export type { QuotaOverrides, Quotas } from './catalog/account-quotas.ts'
export type { CellListOptions, CellRecord } from './catalog/cell-registry.ts'
export type { Durability, SqlPolicy } from './engine/cell-settings.ts'
export type { NoPromise } from './engine/commits/transaction-work.ts'
export type { Growth } from './engine/files/delete-reserve.ts'
export type { QuarantineState } from './engine/quarantine.ts'
export type { CommitChanges } from './engine/watch/commit-recorder.ts'
export { CellStore } from './store/cell-store.ts'
export type { BranchCellOptions } from './store/cells/cell-branches.ts'
export type { CreatedCell } from './store/cells/cell-creations.ts'
export type {
  CellDirectory,
  CellPage,
  CreateCellOptions,
  FindByNameOptions,
  ListedCell,
  NamedCellOptions,
  PurgedCell,
} from './store/cells/cell-directory.ts'
export type {
  ExportedFile,
  ExportOptions,
  ExportResult,
  ServedExportOptions,
} from './store/cells/cell-export.ts'
export type { ImportCellOptions } from './store/cells/cell-imports.ts'
export type { Cell, ExecOptions, HeldCell, Migration, RowOptions } from './store/open/cell.ts'
export type { HoldOptions, Savepoints } from './store/open/hold-options.ts'
export type { CloseOptions, DeleteCellOptions } from './store/settings/call-options.ts'
export type { StoreSettings } from './store/settings/settings.ts'
export type { BackupSettings, StoreOptions } from './store/settings/store-options.ts'
export type { CellStorage, StorageBinding, StorageSql } from './store/storage/cell-storage.ts'
export type { StorageCursor, StorageRows, StorageValue } from './store/storage/storage-cursor.ts'
export type { StorageKv, StorageListOptions } from './store/storage/storage-kv.ts'
export type {
  CellChange,
  CellCommit,
  CellReset,
  ResetReason,
  WatchOptions,
} from './store/watch/cell-change.ts'
export type { WatchSettings } from './store/watch/change-hub.ts'
export type { ChangeStream } from './store/watch/change-stream.ts'

// SQL

export type { MigrateResult } from './engine/migrations.ts'
export type { OwnerFunctionsOptions, SqlFunction, SqlFunctionOptions } from './engine/owner-functions.ts'
export type {
  NamedParams,
  SqlParam,
  SqlParams,
  SqlReal,
  SqlResult,
  SqlRow,
  SqlValue,
} from './engine/statements/sql-values.ts'
export type { SqlOptions } from './engine/statements/statement-runner.ts'

export type {
  CellStatement,
  PrepareOptions,
  RunResult,
  StatementParams,
} from './store/open/cell-statement.ts'

// Keys and values

export type { Paged } from './base/paging.ts'
export type {
  KvConditionOptions,
  KvDeleteOptions,
  KvEntry,
  KvExpireResult,
  KvIncrResult,
  KvKeysOptions,
  KvListEntry,
  KvListOptions,
  KvPage,
  KvPutEntry,
  KvPutOptions,
  KvPutResult,
  KvTtlOptions,
} from './kv/entry.ts'
export type { Kv } from './kv/kv.ts'

// Accounts and API keys

export type { AccountListOptions, AccountPage, AccountRecord, Accounts } from './auth/accounts.ts'
export type {
  ApiKeyListOptions,
  ApiKeyPage,
  ApiKeyRecord,
  CreateApiKeyOptions,
  CreatedApiKey,
  RotateApiKeyOptions,
  RotatedApiKey,
  VerifiedApiKey,
} from './auth/api-key-records.ts'
export type { ApiKeys } from './auth/api-keys.ts'
export type { IdempotencyKey } from './auth/idempotency.ts'
export type { KeyAccess, KeyScope, KeyScopeOptions, KeySurface } from './auth/key-scope.ts'

// Backups

export type { BackupManager } from './backup/backup-manager.ts'
export type { DatabaseContents } from './backup/restore/build/restore-database.ts'
export type { Flushed } from './backup/shipping/flushes.ts'
export type { ShippingStatus } from './backup/shipping/shipping-status.ts'
export type { ProvenContents, VerifyOptions, VerifyResult } from './backup/verify/verify-types.ts'
export type { CellSource } from './backup/versions/backup-options.ts'
export type {
  BackupInfo,
  BackupKind,
  BackupList,
  BackupListOptions,
  BackupOptions,
  BackupOrigin,
  BackupProgressEvent,
  BackupResult,
  MakeBackupOptions,
  PlannedObject,
  PlanOptions,
  RestorableRange,
  RestoreOptions,
  RestorePlan,
  RestoreResult,
} from './backup/versions/backup-types.ts'
export type {
  BackupSummary,
  PrunedVersion,
  PruneOptions,
  PruneResult,
} from './backup/versions/retention/pruner.ts'
export type { PurgedObjects, Retention } from './backup/versions/retention/retention.ts'
export type { Proof } from './backup/versions/retention/retention-notes.ts'
export type { KeepReason } from './backup/versions/retention/retention-verdicts.ts'

// Object stores

export type { Patience } from './backup/object-store/call-deadline.ts'
export { FileObjectStore, type FileObjectStoreOptions } from './backup/object-store/file/file-object-store.ts'
export type {
  CallOptions,
  GetOptions,
  ListOptions,
  ObjectBody,
  ObjectContent,
  ObjectEntry,
  ObjectStore,
  SweepOptions,
  TransferOptions,
} from './backup/object-store/object-store.ts'
export { S3ObjectStore } from './backup/object-store/s3/s3-object-store.ts'
export type {
  S3Credentials,
  S3ObjectStoreOptions,
  S3Patience,
} from './backup/object-store/s3/s3-settings.ts'

// Over HTTP

export { createHandler } from './http/fetch/fetch-handler.ts'
export type { AccessLogger, HandlerOptions, HttpLimits, HttpLogger } from './http/handler-options.ts'
export type { MemoryLimits } from './http/quotas/memory-budgets.ts'
export type { RateLimit } from './http/quotas/rate-limiter.ts'
export type { StreamLimits } from './http/quotas/stream-limits.ts'
export { createListener } from './http/server/node-listener.ts'

// Where a handler runs its cells

export type {
  CellDescription,
  CellService,
  ExecuteOptions,
  OperationPermit,
  ServedDeleteOptions,
} from './service/cell-service.ts'
export type {
  BatchableOperation,
  BatchOperation,
  CellAnswer,
  CellOperation,
  CellRequest,
  CellRoute,
  HoldLimits,
  HoldOperation,
  JsonText,
  OperationHold,
  OperationResults,
  PlainOperation,
  ReadOperation,
  RequestBounds,
  ResultOf,
} from './service/operations.ts'

// What a store says of itself

export type { ArchiverLoad } from './backup/archiver/job.ts'
export type { BackupCounts } from './backup/backup-reports.ts'
export type { CallCounts, ObjectStoreCall } from './backup/object-store/object-store-calls.ts'
export type { RecoveryProgress } from './backup/recovery/background-recovery.ts'
export type { BackupTrace, OperationTrace, RequestTrace, RestoreTrace } from './base/async/channels.ts'
export type {
  BackupMetrics,
  ObjectStoreMetrics,
  StoreMetrics,
  WorkerEnd,
  WorkerMetrics,
} from './store/store-metrics.ts'

// Errors, limits, and what can be injected

export type { Clock, Timer } from './base/clock.ts'
export type { Log } from './base/log.ts'
export { DEFAULT_LIMITS, type Limits, type ResultLimits } from './base/options/limits.ts'
export type { Given, Some } from './base/options/option-shapes.ts'
export {
  CellError,
  type CellErrorCode,
  type CellErrorDetails,
  type CellErrorKind,
  ERROR_KINDS,
  isCellError,
  type QuarantineReason,
} from './errors.ts'
