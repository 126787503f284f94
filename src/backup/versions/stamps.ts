import { CellError } from '../../errors.ts'

/** Which stamps a node of a cluster may give what it stores of a cell, in epoch milliseconds. */
export interface Stamps {
  /** All of the nodes that had the cell before are at most this. */
  after: number
  /** Who takes the cell over from this node goes on after it. */
  bound: number
}

/**
 * A name later than all that a cell has had.
 *
 * @param taken epoch milliseconds of the last names
 * @throws `busy` if the clock is ahead of what the node has promised
 */
export function nextStamp(now: number, taken: readonly number[], stamps: Stamps | undefined): number {
  const time = Math.max(now, ...taken.map((each) => each + 1), stamps === undefined ? 0 : stamps.after + 1)
  if (time <= (stamps?.bound ?? time)) return time
  throw new CellError(
    'busy',
    'The time of a new version lies after what the node has told the cluster. It tells it with its next beat. Try again.',
  )
}
