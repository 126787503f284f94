import type { BackupList } from '../backup/versions/backup-page.ts'
import type {
  BackupKind,
  BackupOptions,
  BackupResult,
  RestoreOptions,
  RestoreResult,
} from '../backup/versions/backup-types.ts'
import type { QuarantineState } from '../engine/quarantine.ts'
import type { CellOperation, OperationResults } from './operations.ts'

/**
 * The one way from HTTP into cells: asynchronous, plain data in and out. In process it is a thin layer over the store;
 * with workers, the same calls go to child processes. Whether the caller may touch the cell is settled before.
 *
 * Every method rejects with a `CellError`, or with the reason of an aborted signal.
 */
export interface CellService {
  /**
   * Runs one operation. A change resolves once it is committed, on disk in `full` durability. A cell whose local data
   * is gone is restored first.
   *
   * @throws `cell_restoring` when that restore takes longer than a request may wait; `no_backup` when there is none;
   * the signal's reason where it kept the operation from running.
   */
  execute<O extends CellOperation>(
    cellId: string,
    operation: O,
    options?: ExecuteOptions,
  ): Promise<OperationResults[O['op']]>

  describe(cellId: string): Promise<CellDescription>

  /** Deletes a cell and its local files. Its backups stay. @throws `cell_not_found` */
  deleteCell(cellId: string): Promise<void>

  backup(cellId: string, kind: BackupKind, options?: BackupOptions): Promise<BackupResult>

  restore(cellId: string, options?: RestoreOptions): Promise<RestoreResult>

  /** @param page.accountId only if the cell is this account's: asked where the catalog does not know the cell */
  listBackups(cellId: string, page: BackupPageOptions, signal?: AbortSignal): Promise<BackupList>
}

export interface ExecuteOptions {
  /** Aborted when nobody waits for the answer any more: what has not begun then never does. */
  signal?: AbortSignal | undefined
  /** How long the operation's statements may run, in milliseconds, where that is less than the service's own limit. */
  deadlineMs?: number | undefined
}

export interface CellDescription {
  /** Of the database file and the write-ahead log. */
  sizeBytes: number
  /** Why the cell is kept closed; undefined if it is not. */
  quarantine: QuarantineState | undefined
}

export interface BackupPageOptions {
  cursor?: string | undefined
  limit?: number | undefined
  accountId?: string | undefined
}
