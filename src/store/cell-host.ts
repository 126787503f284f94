import type { PastTenure, RangeSpan } from '../catalog/assignment/assignment.ts'

/** How the tenure of ranges ends: what `Move.end` wants. */
export type TenureEnd = Pick<PastTenure, 'lastLog' | 'stampBound'>

/** What a node does with its cells when ranges come and go. */
export interface CellHost {
  /**
   * Ends the work on the ranges' cells: their requests are refused (`cell_moving`) from the call on, what runs is waited for, the
   * cells are closed, and what they have committed is in the object store with a version that it follows. All objects that this
   * node was putting have been stored or refused (model F14). A repeat is harmless, and ships what an earlier one has not.
   *
   * @returns the end of the tenure, for the next assignment
   * @throws what the object store throws; then the ranges stay released until {@link resume}
   */
  release(ranges: readonly RangeSpan[], options?: { signal?: AbortSignal | undefined }): Promise<TenureEnd>
  /** The move did not happen, and nobody can bring it about any more (model F12): the cells are served again. */
  resume(ranges: readonly RangeSpan[]): void
  /** After a move: removes the files of the ranges' cells here. Those that are here again by the assignment stay. */
  forget(ranges: readonly RangeSpan[]): Promise<void>
  /** The ranges are this node's from now on: their cells are brought here in the background, and get a version of this node. */
  acquired(ranges: readonly RangeSpan[]): void
}
