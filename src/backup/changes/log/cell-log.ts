/**
 * What shipping asks of the process that has cells open (docs/decisions/0021): plain data that survives JSON. The bytes stay
 * in their files; whoever ships them reads them there.
 */

/** The frames of one WAL that are not shipped yet, or some of them. */
export interface LogPiece {
  /** Numbers the WALs of a history, as segments are numbered. */
  sequence: number
  /** Both salts of the WAL's header, in hexadecimal. */
  salts: string
  pageSize: number
  /** Frames before the piece; 0: the piece begins with the WAL's header. */
  from: number
  /** Frames up to its end, which is a commit. */
  to: number
  /** The live WAL, or a segment. It may be reset, renamed or removed at any time: then the cell is collected again. */
  path: string
  /**
   * When its commits were made: the WAL had so many frames when the millisecond `time` (epoch) was over. Both grow; the last
   * entry has `to`.
   */
  commits: [frames: number, time: number][]
}

/** What a cell has committed since it was last shipped. @typeParam Piece see packed-logs.ts for the other one */
export interface UnshippedLog<Piece = LogPiece> {
  cellId: string
  /** The cell's account: null if it has none. The process that has the catalog adds it. */
  accountId?: string | null | undefined
  /** Id of the cell's unbroken row of WALs. */
  history: string
  /** In the order in which they apply. */
  pieces: Piece[]
}

/** A place in the history of a cell: everything before it is shipped. */
export interface ShippedPlace {
  cellId: string
  history: string
  sequence: number
  frames: number
}

/** What {@link CollectedLogs} is at most: the rest comes with the next call. */
export interface CollectLimits {
  cellsMax: number
  bytesMax: number
  /** Cells whose files could not be read just now: they are left out. */
  except?: readonly string[] | undefined
  /** The cells of which somebody asks whether they have a history; undefined: all. */
  historyOf?: readonly string[] | undefined
  /** Cells for which somebody waits. */
  awaited?: readonly string[] | undefined
  /** Processes that take long are left out, because somebody waits for a cell that may be in another one. */
  isHurried?: boolean | undefined
}

export interface CollectedLogs<Piece = LogPiece> {
  logs: UnshippedLog<Piece>[]
  /** Whether every cell that has something unshipped is in `logs`, apart from those of the two lists below. */
  isAll: boolean
  /** Whether there was no room for some of it: the next call brings that. */
  hasMore: boolean
  /** Those of `historyOf` that have changed but have no history: what they committed is safe only with their next version. */
  withoutHistory: string[]
  /** How many there are of them in all. There can be as many as the store has cells, so not all are named in each tick. */
  withoutHistoryCount: number
  /** Cells whose files cannot be read: what they have not shipped waits until they can. */
  unreadable: string[]
  /** Epoch milliseconds: all that was committed before it is in `logs`, if `isAll` and `unreadable` is empty. */
  asOf: number
  /** The same of cells without a history, too: less than `asOf` if some have changed, null if not known. */
  allAsOf: number | null
  /** The awaited cells of which all that they had committed before the question is in `logs`, or which one of the lists above names. */
  complete: string[]
}

/**
 * A look at the cells of several processes. One that was busy may answer a question of an earlier look. So looks are numbered: what
 * was committed before a look is in `logs` if the question is of this look or of a later one.
 */
export interface CollectedLook<Piece = LogPiece> extends Omit<CollectedLogs<Piece>, 'complete'> {
  look: number
  /** The earliest look of which a question is answered here. */
  askedIn: number
  /** The same, of each awaited cell of which that holds. */
  complete: Record<string, number>
}

/** A look at the cells of one process. */
export function lookOf({ complete, ...collected }: CollectedLogs, look: number): CollectedLook {
  return { ...collected, look, askedIn: look, complete: Object.fromEntries(complete.map((id) => [id, look])) }
}

/** @param record what the catalog has of a cell */
export function withAccounts<Piece>(
  collected: CollectedLook<Piece>,
  record: (cellId: string) => { accountId: string | null } | undefined,
): CollectedLook<Piece> {
  const logs = collected.logs.map((log) => ({ ...log, accountId: record(log.cellId)?.accountId ?? null }))
  return { ...collected, logs }
}

/** Where a version is in the history of its cell: it holds everything up to the end of the sequence. */
export interface LogPosition {
  history: string
  sequence: number
  /** How many frames the WAL `sequence` has; 0 if it is not one of the history. */
  frames: number
  /** The time of the version's cut in epoch milliseconds, on the cell's line of time, which never steps back. */
  at: number
}

/** Those of some cells that somebody asks for. */
export function among(cellIds: readonly string[], asked: readonly string[]): string[] {
  const some = new Set(asked)
  return cellIds.filter((cellId) => some.has(cellId))
}
