import type { Clock } from '../../base/clock.ts'
import type { ListedCellDocument } from '../answers/cell-answers.ts'
import type { ClusterPeers, InternalRoutes } from './cluster-peers.ts'
import { PeerClient } from './peer-client.ts'

/** A list waits no longer for the nodes that have its cells. */
const WAIT_MS = 1_000
const ROUTE = 'cells'

/** What only the node that has a cell knows of it, for a list. */
export type Listed = Pick<
  ListedCellDocument,
  'backed_up_to' | 'last_stored_at' | 'last_proven' | 'status' | 'size_bytes'
>

/** What lists tell of cells that other nodes have. */
export class ListedElsewhere {
  readonly #cluster: ClusterPeers
  readonly #client: PeerClient

  constructor(cluster: ClusterPeers, clock: Clock) {
    this.#cluster = cluster
    this.#client = new PeerClient(cluster.secret, clock)
  }

  /** @returns what the owners tell, by cell; nothing of cells that are here, and of those whose node does not answer in time */
  async of(ids: readonly string[]): Promise<ReadonlyMap<string, Listed>> {
    const byAddress = new Map<string, string[]>()
    for (const id of ids) {
      const owner = this.#cluster.ownership.ownerOf(id)
      if (typeof owner === 'object')
        byAddress.set(owner.address, [...(byAddress.get(owner.address) ?? []), id])
    }
    const told = await Promise.all(
      [...byAddress].map(([address, cells]) =>
        this.#client.call(address, ROUTE, cells, { timeoutMs: WAIT_MS }).catch(() => ({})),
      ),
    )
    return new Map(told.flatMap((each) => Object.entries(each as Record<string, Listed>)))
  }

  close(): void {
    this.#client.close()
  }
}

/** The other side of it. @param look tells of cells of this node */
export function listedRoute(look: (ids: string[]) => Promise<Record<string, Listed>>): InternalRoutes {
  return { [ROUTE]: (body) => look(body as string[]) }
}
