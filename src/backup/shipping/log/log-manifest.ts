/** docs/format.md describes every field of a log object's manifest. */
export const LOG_FORMAT = 1

/** What all cells of a node have committed in a tick: the first member of a log object. */
export interface LogManifest {
  format: typeof LOG_FORMAT
  kind: 'log'
  store_id: string
  /** The object's own key. */
  key: string
  epoch: number
  /** Counts the objects of an epoch from 1, without gaps. */
  number: number
  /** The object before this one, of this epoch or an earlier one; null if there was none. */
  previous: { key: string; sha256: string } | null
  /** Epoch milliseconds: nothing here was committed before it. */
  from: number
  /** Epoch milliseconds: nothing here was committed after it. */
  to: number
  /** What the cells that have a history had committed up to `complete_to` is here or in earlier objects. Otherwise later objects have the rest. */
  complete: boolean
  /** Epoch milliseconds, by the clock: up to when it is complete. Objects of earlier commits lack it. */
  complete_to?: number | undefined
  /** RFC 3339. */
  created_at: string
  cells: CellPieces[]
}

/** The pieces of one cell, in the order in which they apply. */
export interface CellPieces {
  cell_id: string
  account_id: string | null
  history: string
  pieces: StoredPiece[]
}

export interface StoredPiece {
  /** Name of the member that has its bytes: the WAL's header if `from` is 0, and the frames. */
  member: string
  /** Where the member's bytes begin in the tar: counted from the end of the manifest's entry, whose length is its own. */
  offset: number
  size: number
  sequence: number
  /** In hexadecimal. */
  salts: string
  page_size: number
  /** Frames of the WAL before the piece, and up to its end. */
  from: number
  to: number
  /** When its commits were made: the WAL had so many frames when the millisecond `time` (epoch) was over. */
  commits: [frames: number, time: number][]
}

/** Up to when what the cells had committed is in an object or in earlier ones, in epoch milliseconds; undefined if it does not say. */
export function completeTo({ complete, complete_to, to, created_at }: LogManifest): number | undefined {
  if (!complete) return undefined
  // Without it, `to` says it, unless that is a commit's: the line of time of one cell may be ahead of the clock.
  return complete_to ?? (to <= Date.parse(created_at) ? to : undefined)
}
