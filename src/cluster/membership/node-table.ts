/** `alive`: it beats. `leaving`: it beats, and hands over its ranges. `dead`: it was declared so, and can never beat again. */
export type NodeState = 'alive' | 'leaving' | 'dead'

/** What PostgreSQL knows of a node. */
export interface NodeRow {
  id: string
  /** Where other nodes reach it: a URL without a path. */
  address: string
  /** Of its objects in the bucket: `nodes/<id>/`, or empty for the node of a store that ran alone before. */
  prefix: string
  /** Of the node's fence: each start has another one. */
  epoch: number
  /** Goes up with each beat. */
  counter: number
  state: NodeState
  /** The version of the catalog that it has applied. */
  seenVersion: number
  /** Epoch milliseconds: it stamps no version of a cell beyond that. */
  stampBound: number
  /** Its cells that were used of late. */
  busyCells: number
  /** Epoch milliseconds, by its own clock. */
  startedAt: number
}

/** What each answer of PostgreSQL tells of the catalog's log, from the same statement. */
export interface HeadSeen {
  /** The newest version of the catalog. */
  version: number
  /** Of the server that has written it. */
  incarnation: string
  /** Of the server that answers. Another one may have forgotten what it had promised. */
  server: string
}

/** What a beat writes. */
export interface Beat
  extends Pick<NodeRow, 'id' | 'epoch' | 'counter' | 'seenVersion' | 'stampBound' | 'busyCells'> {
  /** Epoch milliseconds: all that its cells had committed by then is in the bucket. Undefined: what it has said before still holds. */
  backedUpTo?: number | undefined
}

/** A node whose cells others have taken. */
export interface TakenRow {
  id: string
  /** Epoch milliseconds, by the taker's clock. */
  at: number
  /** As its last beat has said; null if none has. */
  backedUpTo: number | null
}

/** Which beat of a node was the last that a watcher has seen, and from which server. */
export type WatchedBeat = Pick<NodeRow, 'id' | 'epoch' | 'counter'> & { server: string }

/**
 * The nodes of a cluster, in PostgreSQL. All calls reject with `cluster_unavailable` if it does not answer in time.
 */
export interface NodeTable {
  /**
   * Enters a node, or a new start of one, whose `stampBound` stays.
   *
   * @returns the `stampBound` of its row now; undefined if a row of this id is dead, or of a later epoch
   */
  join(
    row: Omit<NodeRow, 'counter' | 'state' | 'seenVersion' | 'busyCells'>,
  ): Promise<Pick<NodeRow, 'stampBound'> | undefined>
  /** @returns undefined if the node is dead, gone, or started again elsewhere: it may beat no more */
  beat(beat: Beat): Promise<HeadSeen | undefined>
  list(): Promise<{ nodes: NodeRow[]; head: HeadSeen }>
  /** Only if this beat is still its last one, on the same server. @returns whether it is dead now */
  declareDead(watched: WatchedBeat): Promise<boolean>
  /** The node hands its ranges over, and gets no new ones. */
  setLeaving(id: string, epoch: number, leaving: boolean): Promise<void>
  /** It has nothing any more. @param takenAt others have taken what it had, at that time: {@link taken} tells of it from then on */
  remove(id: string, epoch: number, takenAt?: number): Promise<void>
  /** The newest first, some only. */
  taken(): Promise<TakenRow[]>
}
