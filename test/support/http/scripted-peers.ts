import { Emitter } from '../../../src/base/async/emitter.ts'
import type { CellOwner, Ownership } from '../../../src/catalog/assignment/ownership.ts'
import { EVERYTHING_IS_HERE } from '../../../src/catalog/assignment/ownership.ts'
import { CellError } from '../../../src/errors.ts'
import type { ClusterPeers, InternalRoutes, Peer } from '../../../src/http/forwarding/cluster-peers.ts'

/** A node of a cluster as a test wants it. At first it has all cells. */
export class ScriptedPeers implements ClusterPeers {
  readonly self: { nodeId: string; address: string }
  readonly secret: string
  readonly changed = new Emitter()
  assignment = 1
  routes: InternalRoutes = {}
  /** Who has all cells, as this node knows. */
  owner: CellOwner = 'here'
  maker: Peer | 'here' | undefined = 'here'
  hasLease = true
  catchUps = 0
  catalogVersion = 0
  /** PostgreSQL is away, and other nodes are further. */
  lacksChanges = false
  /** What a catch-up brings. */
  news: (() => void) | undefined
  readonly ownership: Ownership

  constructor(nodeId: string, secret = 'the secret of the cluster') {
    this.self = { nodeId, address: '' }
    this.secret = secret
    this.ownership = {
      ...EVERYTHING_IS_HERE,
      isHere: () => this.owner === 'here',
      ownerOf: () => this.owner,
      assertMayAnswer: () => {
        if (!this.hasLease) throw new CellError('not_serving', 'Nobody vouches for this node.')
      },
    }
  }

  creator(): Peer | 'here' | undefined {
    return this.maker
  }

  async catchUp(since = this.catalogVersion): Promise<boolean> {
    this.catchUps++
    const { news } = this
    this.news = undefined
    news?.()
    if (news !== undefined) this.catalogVersion++
    return this.catalogVersion > since
  }

  async mayLackChanges(): Promise<boolean> {
    return this.lacksChanges
  }

  notReady(): string | undefined {
    return undefined
  }

  /** From now on another node has all cells. */
  give(owner: CellOwner): void {
    this.owner = owner
    this.maker = owner === 'moving' ? undefined : owner
    this.assignment++
    this.changed.emit()
  }
}
