import { newCellId } from '../../base/files/store-paths.ts'
import type { Assignment } from './assignment.ts'

/** Where a cell is served. */
export type CellOwner = 'here' | 'moving' | { nodeId: string; address: string }

/** Which cells are this node's. Read for every request: an implementation answers from memory. */
export interface Ownership {
  /**
   * The newest assignment that this node knows; undefined for a store that has none, all of whose cells are here. Its number only
   * goes up.
   */
  readonly assignment: Assignment | undefined
  /** This node's prefix for its fence, its log and its catalog: empty, or `nodes/<id>/`. */
  readonly prefix: string
  /**
   * Epoch milliseconds: no version that this node makes may have a later stamp. It is that of the last beat that has succeeded:
   * a minute ahead of its clock, or a little after all bounds of tenures before its own. Infinite without a cluster.
   */
  readonly stampBound: number
  /** Epoch milliseconds: no version that an earlier process of this node has made has a later stamp. */
  readonly earlierStamps: number
  /** Assigned to this node, acquired, and not being handed over. */
  isHere(cellId: string): boolean
  ownerOf(cellId: string): CellOwner
  /** Call it after the work and before the answer. @throws `not_serving` if no lease is valid (C4) */
  assertMayAnswer(): void
  /** Of a cell that this node may make: in one of its ranges. @throws `cell_moving` without one */
  newCellId(): string
}

/** A node without others. */
export const EVERYTHING_IS_HERE: Ownership = {
  assignment: undefined,
  prefix: '',
  stampBound: Number.POSITIVE_INFINITY,
  earlierStamps: Number.POSITIVE_INFINITY,
  isHere: () => true,
  ownerOf: () => 'here',
  assertMayAnswer: () => {},
  newCellId,
}
