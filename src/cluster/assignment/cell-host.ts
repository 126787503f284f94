import type { LogNumber } from '../../backup/versions/object-keys.ts'

/** What a node does with its cells when their ranges come and go. */
export interface CellHost {
  /**
   * Ends the work on the cells of these ranges: requests wait or are refused, the cells are closed, and what they have committed is in
   * the bucket. A repeat is no other call.
   */
  release(ranges: readonly number[]): Promise<{ lastLog: LogNumber | null }>
  /** They stay here after all. */
  resume(ranges: readonly number[]): void
  /** They are elsewhere: local files of their cells go. */
  forget(ranges: readonly number[]): Promise<void>
  /** They are here now. */
  acquired(ranges: readonly number[]): void
}
