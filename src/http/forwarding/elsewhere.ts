import type { ClusterPeers } from './cluster-peers.ts'

/** Whom a request is for: the owner of a cell, or any node that makes new cells. */
export type Target = { readonly cellId: string } | 'creation'

/** What was asked for turned out to be another node's while it was carried out. Nothing has run. */
export class Elsewhere extends Error {
  override readonly name = 'Elsewhere'
  readonly target: Target

  constructor(target: Target) {
    super('The cell is another node’s.')
    this.target = target
  }
}

/** @throws {@link Elsewhere} if another node has the cell */
export function checkIsHere(cluster: ClusterPeers | undefined, cellId: string): void {
  if (cluster?.ownership.isHere(cellId) === false) throw new Elsewhere({ cellId })
}
