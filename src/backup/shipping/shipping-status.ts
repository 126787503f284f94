/** How far the object store has what the cells commit. */
export interface ShippingStatus {
  /** Key of the last log object that this node has stored; null if none yet. */
  lastObject: string | null
  /** Everything that cells with a history committed before it is stored: epoch milliseconds. Null if not known. */
  backedUpTo: number | null
  /** Milliseconds since then, or since the node began to ship; not less than it has been failing. */
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
  const none = { lastObject: null, backedUpTo: null, failingSince: null }
  return { ...none, startedAt, waitingBytes: 0, withoutHistory: 0, objects: 0, bytes: 0 }
}

/** @param now epoch milliseconds. What is later says nothing: the clock was ahead, and was put right */
export function shippingStatus({ startedAt, ...state }: ShippingState, now: number): ShippingStatus {
  const known = state.backedUpTo
  const backedUpTo = known !== null && known <= now ? known : null
  const since = Math.min(backedUpTo ?? startedAt, state.failingSince ?? now, now)
  return { ...state, backedUpTo, lagMs: now - since }
}
