import type { BaseReason } from '../changes/base-reason.ts'
import type { CollectedLook, CollectLimits, ShippedPlace } from '../changes/log/cell-log.ts'

/** What shipping asks of the processes that have cells open. */
export interface LogPort {
  /** What the cells have committed and not shipped. Bounded in time: a process that does not answer is left out. */
  collectLogs(limits: CollectLimits): Promise<CollectedLook>
  /** Somebody waits for a cell: the look that is under way waits for no process that takes long. */
  hurryLook(): Promise<void>
  /** Everything before these places is in the object store. */
  logsShipped(places: ShippedPlace[]): Promise<void>
  /** What is not shipped of a cell is given up, and its next version begins a new history. */
  dropHistory(cellId: string): Promise<void>
  /**
   * Resolves once a version of the cell is stored that began after this call. It is tried until there is one.
   *
   * @throws `cell_not_found`, also for one whose files are not here; `store_closed`
   */
  needsBase(cellId: string, reason: BaseReason): Promise<void>
}

/** The epoch of this node, and whether it is still the newest one. `EpochGuard` is one. */
export interface EpochView {
  readonly epoch: number | undefined
  /** Resolves with an epoch that is held. @throws `taken_over`, what the object store throws */
  confirm(options?: { signal?: AbortSignal | undefined }): Promise<void>
  /** What was stored before counts if this resolves. @throws as `confirm` */
  check(options?: { signal?: AbortSignal | undefined }): Promise<void>
}
