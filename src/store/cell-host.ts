import type { PastTenure, RangeSpan } from '../catalog/assignment/assignment.ts'

/** How the tenure of ranges ends: what `Move.end` wants. */
export type TenureEnd = Pick<PastTenure, 'lastLog' | 'stampBound'>

export interface ReleaseOptions {
  /** Ends the release with its reason; {@link CellHost.resume} or a repeat has to follow. */
  signal?: AbortSignal | undefined
  /** Awaited while the cells are still served, once what they have committed is stored; must not throw. */
  beforeStop?: (() => Promise<void>) | undefined
}

/** What a node does with its cells when ranges come and go. */
export interface CellHost {
  /**
   * Ends the work on the ranges' cells. While they are still served, what they have committed is stored. Then their requests are
   * refused (`cell_moving`), what runs is waited for, and what it has committed is stored, too. No object of the cells is on its way
   * when this resolves (model F14). A repeat is harmless.
   *
   * @returns the end of the tenure, for the next assignment
   * @throws what the object store throws; `busy`. The ranges may be released already: {@link resume} or a repeat has to follow
   */
  release(ranges: readonly RangeSpan[], options?: ReleaseOptions): Promise<TenureEnd>
  /**
   * Cells that another node is about to hand over are built from the object store, apart from the cells: their restore goes on from there.
   * What fails is restored later like any other cell. Resolves once all are built, or at the signal.
   */
  prepare(cellIds: readonly string[], signal?: AbortSignal): Promise<void>
  /** The move did not happen, and nobody can bring it about any more (model F12): the cells are served again. */
  resume(ranges: readonly RangeSpan[]): void
  /** After a move: removes the files of the ranges' cells here. Those that are here again by the assignment stay. */
  forget(ranges: readonly RangeSpan[]): Promise<void>
  /**
   * The ranges are this node's by the assignment. What is left here of an earlier tenure is set aside before this resolves: only then
   * `Ownership.isHere` may say that they are here. Their cells are brought here in the background, and get a version of this node.
   */
  acquired(ranges: readonly RangeSpan[]): Promise<void>
}
