import type { StoredUpTo } from '../changes/progress-table.ts'

/** How far the object store has what the cells commit. */
export interface ShippingStatus {
  /** Key of the last log object that this node has stored; null if none yet. */
  lastObject: string | null
  /** Everything that cells with a history committed before it is stored: epoch milliseconds. Null if not known. */
  backedUpTo: number | null
  /** The same of all cells, also of those without a history. */
  allBackedUpTo: number | null
  /** Milliseconds since `backedUpTo`, or since the node began to ship; not less than it has been failing. */
  lagMs: number
  /** Bytes of the WALs that wait to be stored, as of the last look. */
  waitingBytes: number
  /** Cells that have changed but have no history, as of the last look: what they commit is stored with their next version. */
  withoutHistory: number
  /** When shipping began to fail, in epoch milliseconds; null while it works. */
  failingSince: number | null
  /** Log objects that were stored since the start, and their bytes. */
  objects: number
  bytes: number
}

/** The same without what the clock changes: it may come from another process. */
export interface ShippingState extends Omit<ShippingStatus, 'lagMs'> {
  startedAt: number
}

/** Before the first tick. @param startedAt epoch milliseconds */
export function notBegun(startedAt: number): ShippingState {
  const none = { lastObject: null, backedUpTo: null, allBackedUpTo: null, failingSince: null }
  return { ...none, startedAt, waitingBytes: 0, withoutHistory: 0, objects: 0, bytes: 0 }
}

/** @param now epoch milliseconds. What is later says nothing: the clock was ahead, and was put right */
export function shippingStatus({ startedAt, ...state }: ShippingState, now: number): ShippingStatus {
  const [backedUpTo, allBackedUpTo] = [state.backedUpTo, state.allBackedUpTo].map((known) =>
    known !== null && known <= now ? known : null,
  ) as [number | null, number | null]
  const since = Math.min(backedUpTo ?? startedAt, state.failingSince ?? now, now)
  return { ...state, backedUpTo, allBackedUpTo, lagMs: now - since }
}

/** Each cut of a version puts a cell's line of time a millisecond ahead of what was committed. */
const AHEAD_MS = 1_000

/**
 * Up to when everything that a cell has committed is in the object store, in epoch milliseconds.
 *
 * @param now by the clock. A cell's line of time may be ahead of it: a time from there says nothing of now
 * @param collectedTo all that cells with a history had committed when it was collected, is stored; null if not known
 * @returns null if nothing is stored, or if all that is known is from a clock that was ahead
 */
export function backedUpTo(
  { storedTo, shippedAt, shippedSince }: StoredUpTo,
  collectedTo: number | null,
  now: number,
): number | null {
  const known = [storedTo, shippedAt]
  // A history that began to be shipped in the meantime was not collected then.
  if (collectedTo !== null && shippedSince !== null && collectedTo > shippedSince) known.push(collectedTo)
  const past = known.filter((time) => time !== null && time <= now + AHEAD_MS) as number[]
  return past.length === 0 ? null : Math.min(Math.max(...past), now)
}
