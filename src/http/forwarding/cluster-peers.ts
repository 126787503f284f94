import type { Emitter } from '../../base/async/emitter.ts'
import type { Ownership } from '../../catalog/assignment/ownership.ts'

/** A node as the others reach it. */
export interface Peer {
  readonly nodeId: string
  /** `http://10.0.0.2:8787`, without a path. */
  readonly address: string
}

/** What the HTTP interface needs of a cluster. */
export interface ClusterPeers {
  readonly self: Peer
  readonly ownership: Ownership
  /** The same on all nodes: it signs what they send to each other. */
  readonly secret: string
  /** The number of the newest assignment that this node knows. */
  readonly assignment: number
  /** Emitted when cells have another owner, or begin or end to move. */
  readonly changed: Emitter
  /** Where a new cell is to be made: here wherever this node has ranges. Undefined: no node is known that has some. */
  creator(): Peer | 'here' | undefined
  /**
   * Brings the replica of the catalog up to what PostgreSQL has at the time of the call, or later. Resolves within a second, also if
   * PostgreSQL does not answer: the replica is then as new as it can be.
   *
   * @param since a {@link catalogVersion} of before
   * @returns whether the replica is newer than it was then; without one, than at the call
   */
  catchUp(since?: number): Promise<boolean>
  /** The newest change of the catalog that the replica has. */
  readonly catalogVersion: number
  /** After a {@link catchUp}: whether PostgreSQL did not answer it, and another node may have changes that this one lacks. */
  mayLackChanges(): Promise<boolean>
  /** What other nodes may ask of this one. */
  readonly routes: InternalRoutes
  /** Why this node is not ready for requests, in a sentence; undefined if it is. */
  notReady(): string | undefined
}

/**
 * By the last segment of `/internal/cluster/…`: takes the JSON of the body and gives that of the answer. Who asks has proven that it
 * knows the secret. What it throws is answered as a problem document, which `PeerClient.call` throws again.
 */
export type InternalRoutes = Readonly<Record<string, (body: unknown) => Promise<unknown>>>
