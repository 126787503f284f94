import { createHmac, timingSafeEqual } from 'node:crypto'
import type { ClusterPeers, Peer } from './cluster-peers.ts'

/** On a request that another node has passed on: the number of the assignment that it knows, and a proof that it is of the cluster. */
export const MARK_HEADER = 'cellstore-forwarded'
/** On an answer that another node gave: where that node is. */
export const OWNER_HEADER = 'cellstore-owner'
/** On the refusal of a marked request: the number of the assignment that the refusing node knows. */
export const ASSIGNMENT_HEADER = 'cellstore-assignment'
/** On the same: the cell whose owner is asked, which only that node could tell. */
export const CELL_HEADER = 'cellstore-cell'
/** All that nodes say to each other begins so: nothing of it goes on from a client. */
export const OURS = 'cellstore-'

/**
 * The proof is for one node, and the same for each request to it: whoever could read it on the way could read API keys too. It only
 * keeps a client from passing for a node.
 */
export function proofFor({ nodeId }: Peer, secret: string): string {
  return createHmac('sha256', secret).update(`forward ${nodeId}`).digest('base64url')
}

/** What of the mark counts. */
export interface Mark {
  /** The number of the assignment by which the sender took this node for the owner. */
  assignment: number
}

/** Reads marks that are for one node. */
export class MarkReader {
  readonly #proof: Buffer

  constructor({ self, secret }: Pick<ClusterPeers, 'self' | 'secret'>) {
    this.#proof = Buffer.from(proofFor(self, secret))
  }

  /** @returns undefined if the mark is not of this cluster, or not for this node */
  read(header: string): Mark | undefined {
    const [assignment = '', proof = ''] = header.split(' ')
    const given = Buffer.from(proof)
    const isOurs = given.length === this.#proof.length && timingSafeEqual(given, this.#proof)
    return isOurs ? { assignment: Number(assignment) } : undefined
  }
}
