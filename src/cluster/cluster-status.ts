import { levelingMove } from './assignment/balance.ts'
import type { Handovers } from './assignment/handovers.ts'
import type { Membership } from './membership/membership.ts'
import type { NodeRow, NodeTable } from './membership/node-table.ts'

/** What a node knows of itself alone. */
export interface NodeReport {
  /** For how long it may still answer. */
  lease_ms: number
  /** That it is handing over. */
  ranges_moving: number
  /** Null: nothing waits. */
  backup_lag_ms: number | null
}

/** A node whose cells others have taken. */
export interface TakenNode {
  node: string
  at: string
  /** What it acknowledged in between, except in the durability `remote`, may be lost. Null: it was lost before its first beat had said that. */
  lost_from: string | null
  lost_until: string
}

export interface NodeStatus {
  id: string
  address: string
  state: 'alive' | 'leaving' | 'dead'
  ranges: number
  busy_cells: number
  /** Since its last beat; 0 for the node that answers. */
  silent_ms: number
  /** Changes of the catalog that it has not seen. */
  behind: number
  started_at: string
  /** Null if it does not answer. */
  report: NodeReport | null
}

/** How a cluster is, as one of its nodes sees it. */
export interface ClusterStatus {
  /** The node that answers. */
  node: string
  assignment: number
  catalog_version: number
  /** Whether nothing is to be moved. */
  level: boolean
  /** Null if PostgreSQL does not answer: then the rest is as old as its last answer. */
  postgres_version: number | null
  nodes: NodeStatus[]
  taken_over: TakenNode[]
}

interface StatusParts {
  node: string
  assignment: number
  catalogVersion: number
  table: NodeTable
  membership: Membership | undefined
  handovers: Handovers
  reportOf(node: NodeRow): Promise<NodeReport | null>
}

/** Asks PostgreSQL and all nodes. */
export async function statusOf(parts: StatusParts): Promise<ClusterStatus> {
  const { node: self, assignment, catalogVersion, table, membership, handovers, reportOf } = parts
  const listed = await table.list().catch(() => undefined)
  const taken = await table.taken().catch(() => [])
  // A node that does not watch may have looked some time ago.
  if (listed !== undefined) membership?.watcher.saw(listed.nodes, listed.head.server)
  const nodes = listed?.nodes ?? membership?.nodes ?? []
  const head = listed?.head.version ?? membership?.head?.version ?? catalogVersion
  const ranges = new Map(handovers.loads(nodes).map((each) => [each.id, each.ranges]))
  const alive = nodes.filter(({ state }) => state === 'alive')
  return {
    node: self,
    assignment,
    catalog_version: catalogVersion,
    postgres_version: listed?.head.version ?? null,
    level: levelingMove(handovers.loads(alive)) === undefined,
    nodes: await Promise.all(
      nodes.map(async (node) => ({
        id: node.id,
        address: node.address,
        state: node.state,
        ranges: ranges.get(node.id) ?? 0,
        busy_cells: node.busyCells,
        silent_ms: Math.round(membership?.watcher.silentMs(node.id) ?? 0),
        behind: Math.max(0, head - (node.id === self ? catalogVersion : node.seenVersion)),
        started_at: timeOf(node.startedAt),
        report: await reportOf(node),
      })),
    ),
    taken_over: taken.map(({ id, at, backedUpTo }) => ({
      node: id,
      at: timeOf(at),
      lost_from: backedUpTo === null ? null : timeOf(backedUpTo),
      lost_until: timeOf(at),
    })),
  }
}

function timeOf(epochMs: number): string {
  return new Date(epochMs).toISOString()
}
