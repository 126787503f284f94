import type { BackupManager } from '../backup/backup-manager.ts'
import type { QuarantineState } from '../engine/quarantine.ts'
import type { BranchCellOptions } from '../store/cells/cell-branches.ts'
import type { CreatedCell } from '../store/cells/cell-creations.ts'
import type { ExportedFile, ServedExportOptions } from '../store/cells/cell-export.ts'
import type { ImportCellOptions } from '../store/cells/cell-imports.ts'
import type { DeleteCellOptions } from '../store/settings/call-options.ts'
import type { WatchOptions } from '../store/watch/cell-change.ts'
import type { ChangeStream } from '../store/watch/change-stream.ts'
import type { CellOperation, ResultOf } from './operations.ts'

/**
 * The one way from HTTP into cells: asynchronous, with plain data in and out. In this process it is a thin layer over
 * the store; with workers, the same calls go to child processes. The caller has checked that the account may use the cell.
 *
 * Every method rejects with a `CellError`, or with the reason of an aborted signal.
 */
export interface CellService {
  /**
   * Runs one operation. A change resolves once it is committed, and with durability `full` once it is on disk. A cell
   * whose local data is lost is restored first.
   *
   * @throws `cell_restoring` if that restore takes longer than a request may wait; `no_backup` if there is no backup;
   * the signal's reason if it aborted before the operation ran; what the operation itself throws in `Cell` and `Kv`
   */
  execute<O extends CellOperation>(
    cellId: string,
    operation: O,
    options?: ExecuteOptions,
  ): Promise<ResultOf<O>>

  /**
   * The commits of a cell from now on, as `Cell.watch()`. A cell whose local data is lost is restored first. No commit that
   * an operation makes which is asked for later is missed, and none that is acknowledged later.
   *
   * @throws as {@link execute}
   */
  watch(cellId: string, options?: WatchOptions, permit?: OperationPermit): Promise<ChangeStream>

  /** Size and state of a cell. Restores it first, as {@link execute}. */
  describe(cellId: string): Promise<CellDescription>

  /** Stores the last state of a cell, and deletes it and its local files. Its backups stay. @throws `cell_not_found`; what the permit throws */
  deleteCell(cellId: string, options?: ServedDeleteOptions): Promise<void>

  /**
   * Writes a cell into a file of the store's spool, as `cell.export()`. Restores it first, as {@link execute}.
   *
   * @throws `disk_full`; the signal's reason; what the permit throws
   */
  exportCell(cellId: string, options?: ServedExportOptions): Promise<ExportedFile>

  /**
   * Makes a cell of a database, as `store.importCell()`: its schema is checked with the service's own SQL policy.
   *
   * @returns the cell's id
   */
  importCell(source: AsyncIterable<Uint8Array>, options?: ImportCellOptions): Promise<string>

  /**
   * Makes a cell with a state of another cell, as `store.createCell({ from })`.
   *
   * @returns the cell's id; `replayed` if an earlier call has made it
   */
  branchCell(options: BranchCellOptions): Promise<CreatedCell>

  /**
   * With the durability `remote`: resolves once the cell, which was made just now, and its record are in the object store. All
   * other calls of a service do this on their own.
   *
   * @throws `not_replicated`
   */
  confirmCell(cellId: string): Promise<void>

  /** The same of the cell's record alone, which was changed just now. @throws `not_replicated` */
  confirmRecord(cellId: string): Promise<void>

  /**
   * The backups of cells. Whoever restores one calls {@link confirmRecord} afterwards.
   *
   * @throws `object_store_not_configured`, `store_closed` to whoever asks for it
   */
  readonly backups: BackupManager
}

/** For how long, and on whose behalf, an operation runs. */
export interface ExecuteOptions {
  /** Aborted when nobody waits for the answer any more: an operation that has not begun by then never runs. */
  signal?: AbortSignal | undefined
  /** Whether the caller may still do it: asked just before the operation starts. */
  permit?: OperationPermit | undefined
  /** An id of the request, for the lines of the log and the traces about it. */
  requestId?: string | undefined
}

/** Asked whether an operation may still run. */
export interface OperationPermit {
  /** Throws what the operation is then refused with. */
  check(): void
  /** Whose request it is; undefined: the owner of the store asks. */
  readonly accountId?: string | undefined
  /** When its time is over, in epoch milliseconds; null or undefined: never by itself. */
  readonly endsAt?: number | null | undefined
}

/** How a cell is deleted on a caller's behalf. */
export interface ServedDeleteOptions extends DeleteCellOptions {
  /** Asked again once the cell's last state is stored, which takes up to some seconds. */
  permit?: OperationPermit | undefined
}

/** How a cell stands on this machine. */
export interface CellDescription {
  /** Bytes of the database file and the write-ahead log. */
  sizeBytes: number
  /** Why the cell is kept closed; undefined if it is not. */
  quarantine: QuarantineState | undefined
}
